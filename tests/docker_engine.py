"""Fixtures for tests with a real Docker engine: the one that DOCKER_HOST names, else the machine's."""

import fcntl
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.run.containers.engine import connect

from .programs import call_program, write_config

BASE = "ann-benchmarks-base"
DEBIAN = "ann-benchmarks-debian:trixie"


def install(*arguments: str, folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run install.py in a folder."""
    return call_program("install.py", *arguments, cwd=folder, env={**os.environ, **environment}, seconds=1800)


@pytest.fixture(scope="session")
def engine() -> Iterator[Any]:
    """A client of the engine."""
    try:
        client = connect()
    except UserError as error:
        pytest.skip(str(error))
    yield client
    client.close()


@pytest.fixture(scope="session")
def base_image(engine: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """ann-benchmarks-base, made by install.py without a registry; once it is there, that takes a second."""
    is_there = bool(engine.images.list(DEBIAN))
    if not is_there and (os.geteuid() != 0 or not shutil.which("debootstrap")):
        pytest.skip("without root and debootstrap there is no base image")
    with (Path(tempfile.gettempdir()) / "ann-benchmarks-base.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process of the tests may be making it
        folder = tmp_path_factory.mktemp("install")
        done = install("--base", "debootstrap", "--algorithm", "base", folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return BASE


@pytest.fixture(scope="session")
def tiny_image(engine: Any, base_image: str) -> Iterator[str]:
    """An image that has next to nothing beyond the base, with a name of its own."""
    name = f"ann-benchmarks-tiny-{uuid.uuid4().hex[:8]}"
    container = engine.containers.create(base_image, ["true"])
    try:
        container.commit(name)
    finally:
        container.remove(force=True)
    yield name
    engine.images.remove(name, force=True)


@dataclass
class ScratchPlugins:
    """A folder of plug-ins, for --definitions, whose images are of no other test."""

    engine: Any
    path: Path
    prefix: str = field(default_factory=lambda: f"test{uuid.uuid4().hex[:8]}-")

    @property
    def folder(self) -> Path:
        return self.path / "plugins"

    def add(self, name: str, *lines: str, base: str = DEBIAN) -> str:
        """Write a plug-in's Dockerfile; return the plug-in's name."""
        plugin = self.folder / f"{self.prefix}{name}"
        plugin.mkdir(parents=True)
        (plugin / "Dockerfile").write_text("\n".join([f"FROM {base}", *lines]) + "\n")
        return plugin.name

    def install(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run install.py for them, in the folder that has their folder."""
        return install("--definitions", "plugins", *arguments, folder=self.path, **environment)

    def image(self, name: str) -> Any:
        """The image of a plug-in, NAME or NAME:TAG."""
        return self.engine.images.get(f"ann-benchmarks-{name}")

    def output(self, name: str, *command: str) -> str:
        """What a command says in an image."""
        written = self.engine.containers.run(
            f"ann-benchmarks-{name}", list(command), remove=True, network_mode="none"
        )
        return str(written.decode())

    def log(self, name: str) -> str:
        return (self.path / f"logs/install/ann-benchmarks-{name.replace(':', '-')}.log").read_text()

    def remove_images(self) -> None:
        for image in self.engine.images.list():
            for tag in image.tags:
                if tag.startswith(f"ann-benchmarks-{self.prefix}"):
                    self.engine.images.remove(tag, force=True)


@pytest.fixture
def builder_turn() -> Iterator[None]:
    """One test at a time builds images, as some count the containers that a build leaves."""
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def plugins(builder_turn: None, engine: Any, base_image: str, tmp_path: Path) -> Iterator[ScratchPlugins]:
    """A folder for plug-ins; their images are removed at the end."""
    scratch = ScratchPlugins(engine, tmp_path)
    write_config(scratch.folder / "unbuilt", "unbuilt")  # a folder of plug-ins has an algorithm
    yield scratch
    scratch.remove_images()

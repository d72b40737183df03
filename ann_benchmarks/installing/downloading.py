"""A package that only the holder of a secret can download: what download.yml says of it, and the download.

It runs in a container that is gone afterwards, and only what was downloaded leaves it. The secret comes in on
the standard input, so that it is in no image, no command line, no variable and no log.
"""

import io
import shutil
import socket
import tarfile
import tempfile
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.names import checked_name
from ann_benchmarks.common.yaml_file import YamlFile
from ann_benchmarks.run.containers.engine import OWNER_LABEL, close_attached, remove_all, start_guard

from .build_inputs import proxies, without_secrets

_DOWNLOAD_KEYS = ("argument", "secret", "source")


@dataclass(frozen=True)
class RestrictedPackage:
    """What `argument` of a Dockerfile stands for; `script` downloads it, given `secret`."""

    plugin: str
    argument: str
    secret: str
    source: str  # the owner of the packages, for people
    script: Path
    environment: Mapping[str, str] = field(default_factory=dict)  # for the script: arguments of the build

    @property
    def advice(self) -> str:
        """Say what to give."""
        return (
            f"the package of '{self.plugin}' comes from {self.source}: give your token with"
            f" --secret {self.secret} (the variable of that name holds it) or --secret {self.secret}=FILE,"
            f" or a package that you have with --build-arg {self.argument}=./FILE.deb"
        )


def read_restricted(folder: Path) -> RestrictedPackage | None:
    """Read the download.yml of a plug-in's folder, None where it has none; UserError names its mistakes."""
    path = folder / "download.yml"
    if not path.is_file():
        return None
    file = YamlFile(path, "the lines argument: ..., secret: ..., source: ...")
    content = file.content
    file.mapping((), content, "download.yml", _DOWNLOAD_KEYS, _DOWNLOAD_KEYS)
    for key, value in content.items():
        file.checked((key,), value, str)
    script = folder / "download.sh"
    if not script.is_file():
        raise UserError(f"{path} is for a script download.sh next to it, which is not there")
    return RestrictedPackage(folder.name, script=script, **content)


SCRIPT = "/tmp/download.sh"
PACKAGES = "/packages"  # the script leaves one file here
MOST_BYTES = 8 << 30  # of that
MEMORY = "/run/secret"  # never written to a disk


class Download:
    """One run of a plug-in's download.sh, which another thread may abort."""

    def __init__(self, client: Any, image: str, package: RestrictedPackage, secret: str) -> None:
        """Take the image that the plug-in's own starts from; nothing is begun yet."""
        self._client, self._image, self._package, self._secret = client, image, package, secret
        self._socket: Any = None
        self._is_aborted = False
        self._last = ""

    def run(self, folder: Path, take: Callable[[str], None]) -> Path:
        """Have the package in `folder`; `take` gets the output by lines. UserError says what failed."""
        from docker.errors import DockerException

        owner = uuid.uuid4().hex
        guard = start_guard(owner, [])  # it removes the container if this process is killed
        try:
            container = self._create(owner)
            self._socket = container.attach_socket(params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
            container.start()
            self._socket._sock.sendall(f"{self._secret}\n".encode())
            if not self._is_aborted:
                self._listen(take)
            if self._is_aborted:
                raise UserError("aborted")
            if container.wait()["StatusCode"] != 0:
                raise UserError(self._last.removeprefix("error: ") or "the download ended without a word")
            return self._fetched(container, folder)
        finally:
            if self._socket is not None:
                close_attached(self._socket)
            with suppress(DockerException, OSError):  # the engine is gone: the guard waits for it
                remove_all(self._client, owner)
            guard.stdin.close()  # type: ignore[union-attr]

    def abort(self) -> None:
        """Abort it, from another thread."""
        self._is_aborted = True
        if self._socket is not None:
            with suppress(OSError, ValueError):
                self._socket._sock.shutdown(socket.SHUT_RDWR)

    def _create(self, owner: str) -> Any:
        from docker.types import LogConfig

        container = self._client.containers.create(
            self._image,
            entrypoint=["sh", SCRIPT],
            command=[],
            user="0:0",
            environment={**proxies(), **self._package.environment},
            labels={OWNER_LABEL: owner},
            tmpfs={MEMORY: "mode=0700,size=16m"},
            network_mode="host",  # like builds
            security_opt=["no-new-privileges"],
            log_config=LogConfig(type="none"),
            stdin_open=True,
            init=True,
        )
        with io.BytesIO() as content:
            with tarfile.open(fileobj=content, mode="w") as archive:
                archive.add(self._package.script, arcname=Path(SCRIPT).name)
            container.put_archive(str(Path(SCRIPT).parent), content.getvalue())
        return container

    def _listen(self, take: Callable[[str], None]) -> None:
        from docker.utils.socket import frames_iter

        pending = b""  # a secret may be cut in two between pieces, never between lines
        for _, piece in frames_iter(self._socket, tty=False):
            *lines, pending = (pending + piece).split(b"\n")
            for line in lines:
                self._say(line, take)
        self._say(pending, take)

    def _say(self, line: bytes, take: Callable[[str], None]) -> None:
        text = without_secrets(line.decode(errors="replace").strip(), [self._secret])
        if text:
            self._last = text
            take(text)

    def _fetched(self, container: Any, folder: Path) -> Path:
        pieces, _ = container.get_archive(PACKAGES)
        with tempfile.TemporaryFile() as content:
            for piece in pieces:
                if content.write(piece) and content.tell() > MOST_BYTES:
                    raise UserError(
                        f"{self._package.script} left more than {MOST_BYTES:,} bytes in {PACKAGES}"
                    )
            content.seek(0)
            with tarfile.open(fileobj=content) as archive:
                files = [member for member in archive if member.isfile()]
                if len(files) != 1:
                    raise UserError(f"{self._package.script} left {len(files)} files in {PACKAGES}, not one")
                path = folder / checked_name(Path(files[0].name).name, "package")
                source = archive.extractfile(files[0])
                assert source is not None
                with path.open("wb") as target:
                    shutil.copyfileobj(source, target)
        return path

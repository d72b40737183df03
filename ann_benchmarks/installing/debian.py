"""A base image from Debian's archive, for where no registry can be reached."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.run.containers.engine import reason

from .building import log_path

IMAGE = "ann-benchmarks-debian:trixie"
MIRROR = "http://deb.debian.org"
SUITE = "trixie"
MIRROR_LABEL = "ann-benchmarks.mirror"
_INSTEAD = "or give an image that you have with --base IMAGE"
_PIECE = 2**20  # bytes at a time
_PATIENCE = 10  # seconds for killed processes to be gone, or for a mirror to answer
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SCRIPTS = Path("/usr/share/debootstrap/scripts")
# What Debian's own slim images lack, too.
_UNWANTED = (
    *("./dev/*", "./proc/*", "./sys/*", "./debootstrap", "./var/log/*.log"),
    *("./var/cache/apt/*", "./var/lib/apt/lists/*", "./var/cache/ldconfig/*"),
    *(f"./usr/share/{name}/*" for name in ("man", "info", "locale", "lintian", "doc-base")),
)


def archive_address(mirror: str | None) -> str:
    """The address of the archive on a mirror, which may be named by its host alone."""
    address = (mirror or MIRROR).rstrip("/")
    if not re.fullmatch(r"https?://[^\s\"'|\\]+", address):
        raise UserError(f"--mirror {mirror} is not an address: give one such as {MIRROR}")
    return address if urlsplit(address).path else f"{address}/debian"


def has_debian(client: Any, mirror: str | None) -> bool:
    """Whether the engine has the image already, made from this mirror if one is named."""
    from docker.errors import ImageNotFound

    try:
        labels = client.images.get(IMAGE).labels
    except ImageNotFound:
        return False
    return mirror is None or labels.get(MIRROR_LABEL) in (None, archive_address(mirror))


def check_can_make() -> None:
    """Refuse what cannot work, before anything is begun."""
    if os.geteuid() != 0:
        raise UserError(f"--base debootstrap needs root: run this with sudo, once, {_INSTEAD}")
    for program in ("debootstrap", "tar"):
        if shutil.which(program) is None:
            raise UserError(f"--base debootstrap needs the program {program}: install it, {_INSTEAD}")
    if not _KEYRING.exists():
        raise UserError(
            "--base debootstrap needs Debian's keys: install the package debian-archive-keyring"
            f" ({_KEYRING}), {_INSTEAD}"
        )


def make_debian(client: Any, mirror: str | None, bundle: Path | None) -> None:
    """Make Debian with debootstrap in a temporary folder and import it; nothing else is left behind."""
    check_can_make()
    archive = archive_address(mirror)
    path = log_path(IMAGE)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _temporary_folder() as folder, path.open("w", encoding="utf-8") as log:
        root = folder / "root"
        root.mkdir()
        environment = {**os.environ, "LC_ALL": "C"}
        if bundle is not None and bundle.is_file() and archive.startswith("https:"):
            (folder / "wgetrc").write_text(f"ca_certificate = {bundle.resolve()}\n")
            environment["WGETRC"] = str(folder / "wgetrc")  # debootstrap's own downloads
        with _program(_debootstrap(root, archive), environment) as program:
            last = ""
            for line in program.stdout:
                log.write(line)
                log.flush()
                if line.strip() and not line.startswith("I: "):
                    last = line.strip()
            if program.wait() != 0:
                with suppress(OSError):
                    log.write((root / "debootstrap" / "debootstrap.log").read_text(errors="replace"))
                raise UserError(_failure(last or f"status {program.returncode}", archive, path))
        _configure(root, archive)
        _import(client, root, archive)


def _debootstrap(root: Path, archive: str) -> list[str]:
    # What it mounts in a mount namespace of its own is gone with its last process, however that ends.
    namespace = ["unshare", "--mount"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*namespace, "true"], capture_output=True).returncode
    ):
        namespace = []
    # Debians older than the suite do not know it by name; what they do for the newest fits.
    script = [] if (_SCRIPTS / SUITE).exists() else [str(_SCRIPTS / "sid")]
    options = ["--variant=minbase", "--force-check-gpg", f"--keyring={_KEYRING}"]
    if archive.startswith("https:"):
        options.append("--include=ca-certificates")
    return [*namespace, "debootstrap", *options, SUITE, str(root), archive, *script]


def _failure(last: str, archive: str, log: Path) -> str:
    hint = "give another --mirror"
    if "noexec" in last:
        hint = "let TMPDIR name a folder that programs and devices may be in"
    return f"debootstrap failed with {archive}: {last.removeprefix('E: ')}; {hint}, {_INSTEAD} (see {log})"


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ann-benchmarks-debian-"))
    try:
        yield folder
    finally:
        # Where there was no namespace: nothing of the machine's may be mounted in what is removed.
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        inside = [place for place in (line.split()[1] for line in mounts) if place.startswith(f"{folder}/")]
        for place in reversed(inside):
            subprocess.run(["umount", "--lazy", place], check=True)
        shutil.rmtree(folder)


@contextmanager
def _program(command: list[str], environment: dict[str, str] | None = None) -> Iterator[Any]:
    """Start a program whose output is read; it and all that it started are gone at the end."""
    program = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,  # Ctrl-C is for us; it is ended below
    )
    try:
        yield program
    finally:
        deadline = time.monotonic() + _PATIENCE
        with suppress(ProcessLookupError):
            while time.monotonic() < deadline:
                os.killpg(program.pid, signal.SIGKILL)
                program.poll()
                time.sleep(0.02)
        program.wait()
        program.stdout.close()  # type: ignore[union-attr]


def _configure(root: Path, archive: str) -> None:
    """Make it what Debian's own images are: apt's sources, no services, no recommends' lists, no caches."""
    sources = [f"deb {archive} {SUITE} main"]
    for address, suite in ((archive, f"{SUITE}-updates"), (f"{archive}-security", f"{SUITE}-security")):
        if _has_suite(address, suite):
            sources.append(f"deb {address} {suite} main")
    (root / "etc/apt/sources.list").write_text("\n".join(sources) + "\n")
    no_services = root / "usr/sbin/policy-rc.d"
    no_services.write_text("#!/bin/sh\nexit 101\n")
    no_services.chmod(0o755)


def _has_suite(archive: str, suite: str) -> bool:
    import requests

    try:
        answer = requests.head(f"{archive}/dists/{suite}/InRelease", timeout=_PATIENCE, allow_redirects=True)
    except requests.RequestException:
        return False
    return answer.ok


def _import(client: Any, root: Path, archive: str) -> None:
    from docker.errors import DockerException

    excluded = [f"--exclude={pattern}" for pattern in _UNWANTED]
    command = ["tar", "--create", "--numeric-owner", f"--directory={root}", *excluded, "."]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as tar:
        try:
            assert tar.stdout is not None
            answer = client.api.import_image(
                src=iter(partial(tar.stdout.read, _PIECE), b""),
                changes=['CMD ["bash"]', f'LABEL {MIRROR_LABEL}="{archive}"'],
            )
            status = json.loads(answer.strip().splitlines()[-1])
            if tar.wait() or "status" not in status:
                raise UserError(f"{IMAGE} could not be imported: {status.get('error', 'tar failed')}")
            client.api.tag(status["status"], *IMAGE.split(":"))
        except (DockerException, OSError, ValueError, IndexError) as error:
            raise UserError(f"the engine does not take {IMAGE}: {reason(error)}") from None
        finally:
            tar.kill()

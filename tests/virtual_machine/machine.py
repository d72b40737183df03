"""A virtual machine in QEMU, emulated or by KVM, and commands run in it over SSH."""

import shlex
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ann_benchmarks.common.errors import UserError

from .image import Image

TIMED_OUT = 124
_BOOT_SECONDS = 900  # without KVM, on a busy machine
_END_SECONDS = 60


@dataclass(frozen=True)
class Machine:
    """A machine that runs."""

    key: Path
    port: int

    def command(self, account: str, text: str) -> list[str]:
        """Return the command that has a shell there, in a login session of the account's, run a text."""
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
        options += ["ConnectTimeout=60", "ServerAliveInterval=60", "IdentitiesOnly=yes"]
        words = ["ssh", "-i", str(self.key), "-p", str(self.port)]
        return [*words, *(f"-o{option}" for option in options), f"{account}@127.0.0.1", text]

    def run(self, account: str, text: str, log: Path, seconds: float) -> int:
        """Run a shell's text there, its output into a file; return its status."""
        limited = f"timeout --kill-after=60 {seconds:.0f} bash -c {shlex.quote(text)}"
        with log.open("ab") as output:
            try:
                return subprocess.run(
                    self.command(account, limited), stdin=subprocess.DEVNULL, stdout=output,
                    stderr=subprocess.STDOUT, timeout=seconds + 2 * _END_SECONDS,
                ).returncode  # fmt: skip
            except subprocess.TimeoutExpired:
                return TIMED_OUT

    def send(self, account: str, archive: bytes, folder: str) -> None:
        """Unpack a tar archive into a folder there."""
        text = f"mkdir -p {folder} && tar -C {folder} -xf -"
        subprocess.run(self.command(account, text), input=archive, check=True, timeout=_BOOT_SECONDS)


@contextmanager
def started(image: Image, console: Path, has_kvm: bool) -> Iterator[Machine]:
    """Run a machine for the time of the block; nothing that it writes is kept."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *("qemu-system-x86_64", "-cpu", "max,-la57", "-m", "4096", "-smp", "2"),
        *("-accel", "kvm" if has_kvm else "tcg,thread=multi"),
        *("-kernel", image.boot_file("vmlinuz"), "-initrd", image.boot_file("initrd.img")),
        *("-append", "root=/dev/vda rw console=ttyS0 panic=-1 mitigations=off"),
        *("-drive", f"file={image.disk},if=virtio,format=raw,snapshot=on"),
        *("-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"),
        *("-device", "virtio-net-pci,netdev=net,romfile=", "-device", "virtio-rng-pci"),
        *("-display", "none", "-monitor", "none", "-no-reboot", "-serial", f"file:{console}"),
    ]
    qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    machine = Machine(image.key, port)
    try:
        _wait(machine, qemu, console)
        yield machine
        machine.run("root", "systemctl poweroff", console.with_suffix(".end"), _END_SECONDS)
        qemu.wait(2 * _END_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        qemu.kill()
        qemu.wait()


def _wait(machine: Machine, qemu: "subprocess.Popen[bytes]", console: Path) -> None:
    deadline = time.monotonic() + _BOOT_SECONDS
    while time.monotonic() < deadline and qemu.poll() is None:
        try:
            done = subprocess.run(
                machine.command("root", "systemctl is-system-running --wait"),
                capture_output=True,
                timeout=300,
            )
        except subprocess.TimeoutExpired:
            continue
        if done.stdout:  # running, or degraded
            return
        time.sleep(2)
    raise UserError(f"the virtual machine did not start within {_BOOT_SECONDS} s: see {console}")

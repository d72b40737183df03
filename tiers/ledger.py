"""The ledger: one small file for each process that holds memory, CPUs or a disk.

They outlive their process, so that the next process can give back what it held.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ann_benchmarks.common.disk import locked_file
from ann_benchmarks.common.errors import UserError

SYSTEM_FOLDER = Path("/run/ann-benchmarks")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_LONGEST_COMMAND = 100  # characters


@dataclass
class HeldGroup:
    """A control group that was, or was about to be, made; `home`: where processes that outlive it belong."""

    folder: str
    home: str
    adopted: bool = False  # its processes were there before, and stay when it goes


@dataclass
class Hold:
    """What a process holds. While the number of pages is changed, it is uncertain, and `reaching` is set."""

    pid: int
    start: int  # of the process, in clock ticks since boot: no later one of the same pid has it
    boot: str
    command: str
    method: str
    pages: int = 0
    reaching: int | None = None
    others: int = 0  # pages of others when the change began
    groups: list[HeldGroup] = field(default_factory=list)

    @property
    def is_alive(self) -> bool:
        """Whether the process that holds it still runs."""
        return self.is_of_this_boot and start_of(self.pid) == self.start

    @property
    def is_of_this_boot(self) -> bool:
        """Whether what it names can still be there."""
        return self.boot == _boot()

    @property
    def owner(self) -> str:
        """The process, for messages."""
        return f"process {self.pid} ({self.command})"


def own_hold(method: str) -> Hold:
    """Return one of this process that holds nothing yet."""
    words = Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    command = " ".join(b" ".join(words).decode(errors="replace").split())
    if len(command) > _LONGEST_COMMAND:
        command = command[: _LONGEST_COMMAND - 3] + "..."
    start = start_of(os.getpid())
    assert start is not None
    return Hold(os.getpid(), start, _boot(), command, method)


def start_of(pid: int) -> int | None:
    """When a running process was started, in clock ticks since boot; None if there is none."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else int(fields[18])


def default_folder() -> Path:
    """Where this user's ledger is."""
    if os.geteuid() == 0:
        return SYSTEM_FOLDER
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "ann-benchmarks"
    return Path(tempfile.gettempdir()) / f"ann-benchmarks-{os.geteuid()}"


class Ledger:
    """The holds of a folder. Change or release what one names only within lock()."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_folder()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep all others, also of this process, from changing what is held; not to be entered twice."""
        try:
            self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            if self.folder.is_symlink() or self.folder.stat().st_uid != os.geteuid():
                raise UserError(
                    f"{self.folder} belongs to another user: set XDG_RUNTIME_DIR to a folder of yours"
                )
        except OSError as error:
            raise UserError(f"cannot note what is held in {self.folder}: {error.strerror}") from None
        with locked_file(self.folder / "lock", "run as the user that it belongs to", waits=True):
            yield

    @contextmanager
    def changing(self, hold: Hold) -> Iterator[None]:
        """Lock, to change what is held; UserError where another process has released it."""
        with self.lock():
            if not self.has(hold):
                raise UserError("what was held has been released by another process: start again")
            yield

    def all(self) -> list[Hold]:
        """Every hold, of the living and of the dead."""
        found = (self._read(path) for path in sorted(self.folder.glob("*.json")))
        return [hold for hold in found if hold is not None]

    def has(self, hold: Hold) -> bool:
        """Whether nobody has released it."""
        return self._path(hold).exists()

    def write(self, hold: Hold) -> None:
        """Write it whole, or leave what was there; it need not outlive a power cut."""
        temporary = self.folder / f".{os.getpid()}.partial"
        temporary.write_text(json.dumps(asdict(hold)))
        temporary.replace(self._path(hold))

    def delete(self, hold: Hold) -> None:
        """Forget it: nothing is held any more."""
        self._path(hold).unlink(missing_ok=True)

    def _path(self, hold: Hold) -> Path:
        return self.folder / f"{hold.pid}-{hold.start}.json"

    def _read(self, path: Path) -> Hold | None:
        with suppress(FileNotFoundError):  # given back since it was listed
            try:
                content = json.loads(path.read_text())
                groups = [HeldGroup(**group) for group in content.pop("groups")]
                return Hold(**content, groups=groups)
            except (ValueError, TypeError, KeyError, AttributeError):
                raise UserError(
                    f"{path} cannot be understood: release by hand what it names, then delete it"
                ) from None
        return None


def _boot() -> str:
    return _BOOT.read_text().strip()

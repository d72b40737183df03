"""The ledger: one small file for each process that holds memory, CPUs or a disk, and how that is given back.

The files outlive their process: its guard, the next process, or `python -m tiers release` gives back what it
held. As a module this is the guard, which outlives a process that is killed: ledger FOLDER PID START. Its
standard input ends when the owner does. It is there all the time, hence few imports.
"""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import locked_file
from ann_benchmarks.common.layout import PROJECT, typed_words

from .groups import remove_group

SYSTEM_FOLDER = Path("/run/ann-benchmarks")
PAGES_FILE = Path("/proc/sys/vm/nr_hugepages")
ENDING_SECONDS = 30  # a server has this long to end by itself
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_LONGEST_COMMAND = 100  # characters
_POLL_SECONDS = 1.0
_TRIES = 10


@dataclass
class HeldGroup:
    """A control group that was, or was about to be, made; `home`: where processes that outlive it belong."""

    folder: str
    home: str


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
        return self.is_of_this_boot and process_start(self.pid) == self.start

    @property
    def is_of_this_boot(self) -> bool:
        """Whether what it names can still be there."""
        return self.boot == _read_boot()

    @property
    def owner(self) -> str:
        """The process, for messages."""
        return f"process {self.pid} ({self.command})"

    def resolve_change(self) -> None:
        """See how far a change of the number of pages came that was begun."""
        if self.reaching is not None:
            least, most = sorted((self.pages, self.reaching))
            self.pages = min(max(total_pages() - self.others, least), most)
            self.reaching = None


def own_hold(method: str) -> Hold:
    """Return one of this process that holds nothing yet."""
    command = " ".join(" ".join(typed_words()).split())
    if len(command) > _LONGEST_COMMAND:
        command = command[: _LONGEST_COMMAND - 3] + "..."
    start = process_start(os.getpid())
    assert start is not None
    return Hold(os.getpid(), start, _read_boot(), command, method)


def process_start(pid: int) -> int | None:
    """When a running process was started, in clock ticks since boot; None if it does not run."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else int(fields[18])


def total_pages() -> int:
    """All huge pages of the system, whoever reserved them."""
    return int(PAGES_FILE.read_text())


def _read_boot() -> str:
    return _BOOT.read_text().strip()


def _default_folder() -> Path:
    if os.geteuid() == 0:
        return SYSTEM_FOLDER
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "ann-benchmarks"
    return Path(tempfile.gettempdir()) / f"ann-benchmarks-{os.geteuid()}"


class Ledger:
    """The holds of a folder. Change or release what one names only within lock()."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or _default_folder()

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
        found = []
        for path in sorted(self.folder.glob("*.json")):
            with suppress(FileNotFoundError):  # given back since it was listed
                try:
                    content = json.loads(path.read_text())
                    groups = [HeldGroup(**group) for group in content.pop("groups")]
                    found.append(Hold(**content, groups=groups))
                except (ValueError, TypeError, KeyError, AttributeError):
                    raise UserError(
                        f"{path} cannot be understood: release by hand what it names, then delete it"
                    ) from None
        return found

    def has(self, hold: Hold) -> bool:
        """Whether nobody has released it."""
        return self._path(hold).exists()

    def write(self, hold: Hold) -> None:
        """Write it whole, or leave what was there; it need not outlive a power cut."""
        temporary = self.folder / f".{os.getpid()}.partial"
        temporary.write_text(json.dumps(asdict(hold)))
        temporary.replace(self._path(hold))

    def change_pages(self, hold: Hold, target: int) -> int:
        """Hold `target` huge pages, or as many of them as there are to be had; return the number.

        The system has one number for all. What others reserved is kept, whatever happens between two of the
        steps here: the ledger says before the change what it is about to be. Within lock().
        """
        hold.resolve_change()
        hold.others = max(total_pages() - hold.pages, 0)
        hold.reaching = target
        self.write(hold)
        with suppress(OSError):  # some kernels say so that none at all were found
            PAGES_FILE.write_text(str(hold.others + target))
        hold.resolve_change()
        self.write(hold)
        return hold.pages

    def empty(self, hold: Hold, patience: float = ENDING_SECONDS) -> None:
        """Give back all that is held, and keep the hold. Within lock().

        Pages first: others wait for memory. UserError says what could not be given back; the rest was.
        """
        failures = []
        try:
            hold.resolve_change()
            if hold.pages:
                self.change_pages(hold, 0)
        except OSError as error:
            failures.append(f"{hold.pages:,} huge pages: {error.strerror}")
        for group in list(hold.groups):
            try:
                remove_group(Path(group.folder), Path(group.home), patience)
            except OSError as error:
                failures.append(f"{group.folder}: {error.strerror}")
            else:
                hold.groups.remove(group)
        self.write(hold)
        if failures:
            raise UserError(
                f"could not give back {'; '.join(failures)}: try `python -m tiers release` as root"
            )

    def give_back(self, hold: Hold) -> None:
        """Give back all that is held, and forget the hold. Within lock()."""
        if hold.is_of_this_boot:  # a restart has given back the rest
            self.empty(hold)
        self._path(hold).unlink(missing_ok=True)

    def release_dead(self) -> None:
        """Give back what dead processes left. Takes the lock."""
        if self.folder.exists():
            with self.lock():
                for hold in self.all():
                    if not hold.is_alive:
                        self.give_back(hold)

    def _path(self, hold: Hold) -> Path:
        return self.folder / f"{hold.pid}-{hold.start}.json"


def start_guard(ledger: Ledger, hold: Hold) -> "subprocess.Popen[bytes]":
    """Start one for this process; it ends when its standard input is closed and all is given back."""
    return subprocess.Popen(
        [sys.executable, "-m", __name__, str(ledger.folder), str(hold.pid), str(hold.start)],
        cwd=PROJECT,  # Python finds this module from here
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C, and a kill of the whole group, are not for it
    )


def guard(ledger: Ledger, pid: int, start: int) -> None:
    """Wait for the end of the owner, then give back what it still holds."""
    with suppress(OSError):  # the last that the system should end when memory runs out: it frees some
        Path("/proc/self/oom_score_adj").write_text("-1000")
    # A child of the owner's may hold the other end of our input open, hence the check of the owner.
    while process_start(pid) == start:
        if select.select([0], [], [], _POLL_SECONDS)[0] and not os.read(0, 1024):
            break
    for _ in range(_TRIES):
        with suppress(UserError, OSError), ledger.lock():
            for hold in ledger.all():
                if (hold.pid, hold.start) == (pid, start):
                    ledger.give_back(hold)
            return
        time.sleep(1)


if __name__ == "__main__":
    guard(Ledger(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3]))

"""What the tests of tiers share: what they need of the machine, and processes that hold something."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import dedent

import pytest

from ann_benchmarks.common.errors import UserError
from tiers import groups, limits, locked_memory
from tiers.ledger import SYSTEM_FOLDER, Ledger

ROOT = Path(__file__).parent.parent
SOME_FOLDER = [ROOT / "tiers"]  # stands for that of a server's data


def _no_groups(*controllers: str) -> str:
    try:
        limits.choose_groups(controllers, "trial")
    except (UserError, OSError) as error:
        return str(error)
    return ""


def _no_huge_pages() -> str:
    try:
        locked_memory.require_rights()
        held = [hold for hold in Ledger(SYSTEM_FOLDER).all() if hold.is_alive and hold.pages]
    except (UserError, OSError) as error:
        return str(error)
    return f"huge pages are held by {held[0].owner}" if held else ""


def needs(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(bool(reason), reason=reason)


needs_memory_group = needs(_no_groups("memory"))
needs_groups = needs(_no_groups("memory", "cpuset", "io"))
_needs_huge_pages = needs(_no_huge_pages())


def needs_huge_pages(test: Callable[..., object]) -> Callable[..., object]:
    """Mark a test: servers of other tests would take the huge pages that it reserves, so none may run."""
    return pytest.mark.alone(_needs_huge_pages(test))


def group_of(pid: int, controller: str = "memory") -> Path:
    """The group that a process makes for a tier: in its own one, or, where systemd is, beside it."""
    (group,) = limits.choose_groups((controller,), f"ann-benchmarks-tier-{pid}")
    return group.folder


def own_group(controller: str = "memory") -> Path:
    place = groups.find_place(controller)
    assert place is not None
    return place.folder


@contextmanager
def program(text: str, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """Run a Python program from the project's folder, and end it."""
    process = subprocess.Popen(
        [sys.executable, "-c", dedent(text), *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def inside(files: list[Path], text: str, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """Run a program in groups; it says something when it is ready, and ends when its input does."""
    enter = "import os, sys\nfor file in sys.argv[1].split(':'): open(file, 'w').write(str(os.getpid()))\n"
    with program(enter + dedent(text), ":".join(map(str, files)), *arguments) as process:
        yield process


def members(folder: Path) -> set[int]:
    """The processes of a group, by their pids; none of one that has just been removed."""
    with suppress(OSError):
        return set(map(int, (folder / "cgroup.procs").read_text().split()))
    return set()


def line_of(process: "subprocess.Popen[str]") -> str:
    """What a program says next."""
    assert process.stdout is not None and process.stderr is not None
    line = process.stdout.readline().strip()
    assert line, process.stderr.read()
    return line


def guards_of(pid: int) -> list[int]:
    """Processes that guard what another one holds."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"tiers.ledger" in words and str(pid).encode() in words:
                found.append(int(entry.name))
    return found

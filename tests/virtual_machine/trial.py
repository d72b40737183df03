"""What a trial is, and what all of them share; all of this runs inside the machine.

A trial raises AssertionError if it fails, and NotThere if the machine lacks what it needs.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TEMPLATE = "/srv/template"  # of a work folder
SMALL, LARGE = "32MB:256MB+1cpus+gp3", "48MB:all"


class NotThere(Exception):
    """The machine lacks what a trial needs; the text says what."""


@dataclass(frozen=True)
class Trial:
    """What is tried, by which account, and the minutes that it may take without KVM."""

    account: str
    minutes: int
    act: Callable[[], None]


TRIALS: dict[str, Trial] = {}


def trial(
    name: str, account: str = "root", minutes: int = 60
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Enter a function into the trials."""

    def enter(act: Callable[[], None]) -> Callable[[], None]:
        TRIALS[name] = Trial(account, minutes, act)
        return act

    return enter


def run(*command: object, status: int | None = 0, **options: Any) -> str:
    """Run a command to its end and return what it printed, which is shown too."""
    print("$", *command, flush=True)
    words, lines = [str(word) for word in command], []
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **options}
    with subprocess.Popen(words, **piped) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    said = "".join(lines)
    assert status is None or process.returncode == status, f"status {process.returncode}, not {status}"
    assert "Traceback" not in said, "a traceback"
    return said


def sweep_command(*options: str) -> list[str]:
    """Return a command that measures the one definition of a work folder with few queries."""
    common = ["--dataset", "small", "--definitions", "definitions", "--algorithm", "hnsw", "--runs", "1"]
    return [sys.executable, str(ROOT / "run.py"), *common, *options]


def home() -> Path:
    """Return where this account's work folders are."""
    return Path("/srv" if os.geteuid() == 0 else Path.home()) / "work"


def work_folder(name: str, is_new: bool = True) -> None:
    """Go to a folder with a small dataset and a definition of one point; `is_new`: it has no results.

    All of an account's have one server, whose index is built once. It is not in /tmp, which is in memory.
    """
    folder = home() / name
    if is_new:
        shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        shutil.copytree(TEMPLATE, folder)
    os.chdir(folder)
    os.environ["ANN_BENCHMARKS_PG_DATA"] = str(home() / "server")


def points() -> dict[str, dict[str, Any]]:
    """Return the attributes of each stored point, by the name of its series."""
    import h5py

    found = {}
    for path in Path("results").rglob("*.hdf5"):
        with h5py.File(path) as file:
            found[str(file.attrs["algo"])] = dict(file.attrs)
    return found


def check_points(found: dict[str, dict[str, Any]], number: int) -> None:
    """Require points that were measured with the memory of their tiers, and no half of a file."""
    assert not list(Path("results").rglob(".*")), "a file that is not complete"
    for name, point in found.items():
        print(name, {key: value for key, value in point.items() if key.startswith("tier_")})
        assert point["shared_buffers"] == point["tier_shared_buffers"], name
        if "tier_ram" in point:
            assert abs(point["tier_available"] / point["tier_ram"] - 1) < 0.05, name
    assert len(found) == number, f"{len(found)} points, not {number}"


def require_nothing_held() -> None:
    """Require that no group, no page and no entry of the ledger is left."""
    assert run(sys.executable, "-m", "tiers", "status", cwd=ROOT).strip() == "nothing is held"
    groups = list(Path("/sys/fs/cgroup").rglob("ann-benchmarks-*"))
    assert not groups, f"left: {groups}"
    assert "HugePages_Total:       0\n" in Path("/proc/meminfo").read_text(), "huge pages are left"


def measured(number: int, *options: str, before: tuple[str, ...] = ()) -> str:
    """Sweep, and require that all points are stored and nothing is held."""
    out = run(*before, *sweep_command(*options))
    check_points(points(), number)
    require_nothing_held()
    return out

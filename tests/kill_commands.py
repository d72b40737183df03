"""Every command, killed at random moments: what a user would complain about.

Each command runs in a folder of its own, with a TMPDIR of its own. It gets SIGINT, SIGTERM or SIGKILL, alone
or with all processes of its group, at a moment drawn from its first five seconds, or from all of its time
where it takes less. Counted is what a user would complain about. The same seed draws the same moments.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ann_benchmarks.installing.main import CHECKOUT_MARKS

from .plotting_data import make_result
from .programs import write_config

ROOT = Path(__file__).parents[1]
FIRST_SECONDS = 5.0
END_SECONDS = 60.0  # after a signal; who takes longer hangs
PYTHON_START_SECONDS = 0.05  # before them, Python has not begun the command
REST_SECONDS = 30.0  # for what a killed command started to end by itself
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
PROBLEMS = ("traceback", "status", "hang", "processes", "files")  # what a user would complain about
TRACES = ("Traceback", "Exception ignored", "Fatal Python error")
# What is shown of a command that has not begun; "KeyboardInterrupt" follows where there was not yet a line.
FIRST_LINES = ("from ann_benchmarks.common.beginning import begin", "if __name__ ==", "KeyboardInterrupt")

PLUGIN = """
import time
from ann_benchmarks.algorithms.base.module import BaseANN

class Plugin(BaseANN):
    def __init__(self, *arguments): pass
    def fit(self, X): time.sleep(0.3)
    def set_query_arguments(self, number): self.name = f"slow {number}"
    def query(self, q, n):
        time.sleep(0.01)
        return list(range(n))
"""

COMMANDS = {
    "run.py": "run.py --local --definitions plugins --dataset tiny --runs 1 --force --warmup 5",
    "run.py, pgvector": "run.py --local --algorithm pgvector_exact --dataset tiny --runs 1 --force"
    " --clients 2 --duration 0.5 --warmup off",
    "install.py": "install.py --export checkout",
    "plot.py": "plot.py --dataset tiny --recompute",
    "report.py": "report.py --dataset tiny --recompute",
    "compare.py": "compare.py results/tiny/10/a results/tiny/10/b",
    "create_dataset.py": "create_dataset.py --name own --train rows.npy --distance euclidean --force",
    "create_website.py": "create_website.py --outputdir site --recompute",
    "data_export.py": "data_export.py --output all.csv --recompute",
    "tiers": "-m tiers status",
}


def command_line(name: str) -> list[str]:
    """Return the words that start a command in a workplace."""
    first, *rest = COMMANDS[name].split()
    return [sys.executable, *([first] if first == "-m" else [str(ROOT / first)]), *rest]


def environment_of(folder: Path) -> dict[str, str]:
    """Return the environment for commands in a workplace."""
    return os.environ | {
        "ANN_BENCHMARKS_PG_DATA": str(folder / "server"), "PYTHONPATH": f"{ROOT}:{folder}"
    }  # fmt: skip


@dataclass
class Outcome:
    """What became of the cases of a command."""

    counts: Counter[str] = field(default_factory=Counter)
    details: list[str] = field(default_factory=list)

    def note(self, problem: str, detail: str) -> None:
        self.counts[problem] += 1
        self.details.append(f"{problem}: {detail}")


class Victim:
    """One command in a folder of its own, to be started again and again."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.command = command_line(name)
        self.temporary = folder / "tmp"
        make_workplace(folder)

    def start(self) -> "subprocess.Popen[str]":
        """Start it, as the first process of a group of its own, with an empty TMPDIR."""
        self.temporary.mkdir(exist_ok=True)
        self.temporary.chmod(0o1777)
        environment = environment_of(self.folder) | {"TMPDIR": str(self.temporary)}
        return subprocess.Popen(
            self.command, cwd=self.folder, env=environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def whole_time(self) -> float:
        """Run it to its end; return how long that took, in s."""
        before = time.monotonic()
        process = self.start()
        out, err = process.communicate(timeout=300)
        if process.returncode or self.left():
            raise RuntimeError(f"{self.name} alone: status {process.returncode}, {self.left()}\n{out}{err}")
        return time.monotonic() - before

    def kill(self, number: signal.Signals, delay: float, is_group: bool, outcome: Outcome) -> None:
        """Start it, send the signal after `delay` s, and note what is wrong then."""
        what = f"{number.name} {'to all ' if is_group else ''}after {delay:.3f} s"
        process = self.start()
        time.sleep(delay)
        outcome.counts["cases"] += 1
        if process.poll() is None:  # else its number may be another's by now
            (os.killpg if is_group else os.kill)(process.pid, number)
        else:
            outcome.counts["ended before"] += 1
        try:
            out, err = process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired as late:
            outcome.note("hang", f"{what}: {(late.stderr or b'')[-300:]!r}")
            self.end_all()
            process.communicate()
            return
        said = out + err
        if any(word in said for word in TRACES) or said.strip() == "KeyboardInterrupt":
            kind = "in Python's own start" if is_of_python(said) else "traceback"
            outcome.note(kind, f"{what}, status {process.returncode}\n{said[-3000:]}")
        elif process.returncode not in (0, -number, 128 + number):
            is_silent = delay < PYTHON_START_SECONDS and not said.strip()
            kind = "in Python's own start" if is_silent else "status"
            outcome.note(kind, f"{what}: {process.returncode}\n{said[-1000:]}")
        if left := self.processes_left():
            outcome.note("processes", f"{what}: {left}")
            self.end_all()
        if number == signal.SIGKILL and self.left():  # the next command may put it away
            self.start().communicate(timeout=300)
        if left := self.left():
            outcome.note("files", f"{what}: {left}")
        shutil.rmtree(self.temporary)

    def left(self) -> list[str]:
        """What lies in its TMPDIR."""
        return sorted(str(path.relative_to(self.temporary)) for path in self.temporary.rglob("*"))

    def processes_left(self) -> list[str]:
        """What it started and what has not ended in good time."""
        deadline = time.monotonic() + REST_SECONDS
        while (left := list(self._processes())) and time.monotonic() < deadline:
            time.sleep(0.05)
        return [text for _, text in left]

    def end_all(self) -> None:
        """End what it started."""
        for pid, _ in self._processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _processes(self) -> Iterator[tuple[int, str]]:
        mark = f"TMPDIR={self.temporary}".encode()
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (place / "environ").read_bytes().split(b"\0"):
                    yield int(place.name), (place / "cmdline").read_text().replace("\0", " ")[:200]


def is_of_python(said: str) -> bool:
    """Whether Python itself was interrupted, before the command could begin, at first without a trace."""
    _, found, rest = said.replace(sys.prefix, "").rpartition(f'File "{ROOT}')
    has_begun = found and not rest.splitlines()[1].strip().startswith(FIRST_LINES)
    return not has_begun and "multiprocessing" not in said


def make_workplace(folder: Path) -> None:
    """Make a folder with a dataset, results of two algorithms, a plug-in, and rows for a dataset."""
    from .conftest import make_dataset

    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    before = Path.cwd()
    os.chdir(folder)
    try:
        make_dataset()
        truth = np.tile(np.arange(1, 11, dtype=np.float32), (20, 1))
        for name in "ab":
            for number, recall in enumerate((0.5, 0.8, 1.0), 1):
                make_result("tiny", name, f"M, {number}", truth, recall, number / 1000)
        write_config(
            Path("plugins/slow"), "slow", run_groups={"all": {"args": [], "query_args": [[1, 2, 3]]}}
        )
        Path("plugins/slow/module.py").write_text(PLUGIN)
        np.save("rows.npy", np.random.default_rng(1).normal(size=(3000, 16)).astype(np.float32))
        for name in CHECKOUT_MARKS:
            Path("checkout", name).parent.mkdir(parents=True, exist_ok=True)
            Path("checkout", name).touch()
        Path("checkout/ann_benchmarks/algorithms").mkdir(parents=True, exist_ok=True)
    finally:
        os.chdir(before)


def kill_often(victim: Victim, kills: int, seed: int) -> Outcome:
    """Kill a command at random moments, by each signal in turn."""
    chance, outcome = random.Random(f"{seed} {victim.name}"), Outcome()
    victim.whole_time()  # compiles modules, and makes what is kept
    span = min(FIRST_SECONDS, victim.whole_time())
    for case in range(kills):
        victim.kill(SIGNALS[case % 3], chance.uniform(0, span), chance.random() < 0.5, outcome)
    return outcome

"""Shards, their coordinator and run.py, killed at random moments: python -m tests.kill_shards --kills 20.

Each time, a process of a measurement on shards is killed by SIGKILL at a random moment: the postmaster of a
shard or of the coordinator, a session of one, run.py, or its worker. Counted is what a user would complain
about: a traceback, a hang, processes that are left, a file that is half there or has a point that was
disturbed, and a command that does not go on when it is given again. The same seed draws the same moments.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import h5py
import psutil

from .kill_commands import PROBLEMS, TRACES, Outcome
from .programs import ROOT, temporary_folder

UNBORN = "in Python's own start"
TARGETS = ("shard", "coordinator", "session of a shard", "session of the coordinator", "run.py", "worker")
ENGINES = ("fdw", "client")
POINTS = 2 * len(ENGINES)  # one and two clients
END_SECONDS = 120.0
REST_SECONDS = 30.0
COMMAND = [
    *(sys.executable, str(ROOT / "run.py"), "--local", "--algorithm", "pgvector_exact", "--runs", "2"),
    *("--dataset", "clustered-600-8-euclidean", "--shards", "2", "--shard-engine", ",".join(ENGINES)),
    *("--clients", "1,2", "--duration", "0.5", "--warmup", "10"),
]


class Measurement:
    """A folder in which the command is started again and again."""

    def __init__(self, folder: Path) -> None:
        """Take an empty folder that the servers' account can enter."""
        self.folder, self.server = folder, folder / "server"
        self.environment = os.environ | {"ANN_BENCHMARKS_PG_DATA": str(self.server)}

    def start(self, *options: str) -> "subprocess.Popen[str]":
        """Start the command."""
        return subprocess.Popen(
            [*COMMAND, *options], cwd=self.folder, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def processes(self) -> Iterator[psutil.Process]:
        """Give what runs for it: servers with their sessions, and the command's own processes."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                above = [process, *process.parents()]
                if any(str(self.folder) in " ".join(one.cmdline()) for one in above):
                    yield process

    def find(self, target: str, pid: int, chance: random.Random) -> psutil.Process | None:
        """Return a process to kill, None where there is none yet."""
        if target == "run.py":
            return psutil.Process(pid)
        if target == "worker":
            children = psutil.Process(pid).children()
            return chance.choice(children) if children else None
        number = chance.randint(1, 2) if target.endswith("shard") else 0
        place = str(self.server) + (f"-shard{number}" if number else "")
        for process in self.processes():
            with suppress(psutil.Error):
                words = process.cmdline()
                if Path(words[0]).name == "postgres" and any(word.startswith(f"{place}/") for word in words):
                    if not target.startswith("session"):
                        return process
                    sessions = [one for one in process.children() if "[local]" in " ".join(one.cmdline())]
                    return chance.choice(sessions) if sessions else None
        return None

    def kill(self, target: str, delay: float, chance: random.Random, outcome: Outcome) -> None:
        """Start the command anew, kill a process of it, and note what is wrong then."""
        what = f"{target} after {delay:.2f} s"
        process = self.start("--force")
        time.sleep(delay)
        outcome.counts["cases"] += 1
        killed = None
        while process.poll() is None and killed is None:
            with suppress(psutil.Error):
                if found := self.find(target, process.pid, chance):
                    found.kill()
                    killed = found.pid
            time.sleep(0.02)
        outcome.counts["ended before"] += killed is None
        try:
            out, err = process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            outcome.note("hang", what)
            process.kill()
            out, err = process.communicate()
        self._check(what, process.returncode, out + err, outcome)
        again = self.start()
        said = "".join(again.communicate(timeout=END_SECONDS))
        if again.returncode != 0 or len(list(self.results())) != POINTS:
            outcome.note("status", f"{what}, again: {again.returncode}\n{said[-1500:]}")

    def _check(self, what: str, status: int, said: str, outcome: Outcome) -> None:
        if any(word in said for word in TRACES):
            kind = UNBORN if _is_unborn(said) else "traceback"
            outcome.note(kind, f"{what}, status {status}\n{said[-3000:]}")
        elif status not in (0, 1, -signal.SIGKILL):
            outcome.note("status", f"{what}: {status}\n{said[-1500:]}")
        deadline = time.monotonic() + REST_SECONDS
        while (left := list(self.processes())) and time.monotonic() < deadline:
            time.sleep(0.1)
        if left:
            outcome.note("processes", f"{what}: {[' '.join(one.cmdline())[:150] for one in left]}")
        for path in self.results():
            with h5py.File(path) as file:
                recall = float(file.attrs["run_recalls"][0])
                if recall < 1 or file.attrs.get("answers_shortened", 0):
                    outcome.note("files", f"{what}: {path.name} has a recall of {recall}")

    def results(self) -> Iterator[Path]:
        """Give the result files."""
        return self.folder.glob("results/**/*.hdf5")


def _is_unborn(said: str) -> bool:
    """Whether a worker could not begin: run.py was killed before it had handed over what to do."""
    return "EOFError: Ran out of input" in said and f'File "{ROOT}' not in said.replace(sys.prefix, "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill; return 1 where anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill_shards", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    chance, outcome = random.Random(args.seed), Outcome()
    with temporary_folder() as folder:
        measurement = Measurement(folder)
        began = time.monotonic()
        first = measurement.start()
        out, err = first.communicate()
        if first.returncode:
            raise SystemExit(f"the command alone: status {first.returncode}\n{out}{err}")
        span = time.monotonic() - began
        print(f"{args.kills} kills in {span:.1f} s", flush=True)
        kinds: Counter[str] = Counter()
        for case in range(args.kills):
            target = TARGETS[case % len(TARGETS)]
            kinds[target] += 1
            measurement.kill(target, chance.uniform(0, span), chance, outcome)
    for detail in outcome.details:
        print(f"--- {detail}")
    print(", ".join(f"{target} {number}" for target, number in kinds.items()))
    print(
        ", ".join(f"{name} {outcome.counts[name]}" for name in ("cases", "ended before", UNBORN, *PROBLEMS))
    )
    return any(outcome.counts[problem] for problem in PROBLEMS)


if __name__ == "__main__":
    sys.exit(main())

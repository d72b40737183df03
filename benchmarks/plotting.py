"""How long plot.py and create_website.py take over many results, and ann-benchmarks' own on the same files.

    python -m benchmarks.plotting [--files 1000] [--queries 10000] [--rounds 5] [--their-rounds 1]

The results are made up (made_results.py). Whole commands are timed, in turn: cold, with no metrics cached
(ours: the cache deleted; theirs: --recompute), and warm. The files are in the page cache, and the modules
compiled, for both sides. Where ANN_BENCHMARKS_CHECKOUT names a checkout of ann-benchmarks, and
ANN_BENCHMARKS_PYTHON a Python with what it needs, its commands get a copy of the same files, into which they
write. Memory is the largest sum, over the processes of a command, of what each has to itself and its part of
what they share, as seen 10 times a second.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ann_benchmarks.results.cache import SETTLED_NS
from benchmarks.made_results import DATASET, make_results

PROJECT = Path(__file__).parent.parent
CHECKOUT = os.environ.get("ANN_BENCHMARKS_CHECKOUT", "")
THEIR_PYTHON = os.environ.get("ANN_BENCHMARKS_PYTHON", sys.executable)
COMMANDS = {
    "plot.py": ["--dataset", DATASET, "-Y", "log"],
    "create_website.py": ["--outputdir", "site"],
}
SAMPLE_SECONDS = 0.1


@dataclass
class Way:
    """A command of one side, cold or warm, and what it took each time."""

    name: str
    folder: Path
    command: list[str]
    is_cold: bool
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    memory: int = 0

    def run(self, environment: dict[str, str]) -> None:
        """Run it once."""
        (self.folder / "site").mkdir(exist_ok=True)
        if self.is_cold and "--recompute" not in self.command:
            for cache in (self.folder / "results").rglob(".metrics-cache.json"):
                cache.unlink()
        with (self.folder / "said.txt").open("w") as said:
            begin, spent = time.perf_counter(), os.times()
            process = subprocess.Popen(
                self.command, cwd=self.folder, env=environment, stdout=said, stderr=subprocess.STDOUT
            )
            while process.poll() is None:
                self.memory = max(self.memory, memory_of(process.pid))
                with suppress(subprocess.TimeoutExpired):
                    process.wait(SAMPLE_SECONDS)
            wall, now = time.perf_counter() - begin, os.times()
        if process.returncode:
            sys.exit(f"error: {' '.join(self.command)}:\n{(self.folder / 'said.txt').read_text()[-2000:]}")
        self.wall.append(wall)
        self.cpu.append(now.children_user + now.children_system - spent.children_user - spent.children_system)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--their-rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where files are made (default: a temporary folder)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        ours, theirs = Path(folder, "ours"), Path(folder, "theirs")
        make_results(ours, args.files, args.queries)
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(Path(folder, "compiled"))}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        ways = [
            Way(name, ours, [sys.executable, str(PROJECT / name), *options], is_cold)
            for name, options in COMMANDS.items() for is_cold in (True, False)
        ]  # fmt: skip
        rivals = []
        if CHECKOUT:
            shutil.copytree(CHECKOUT, theirs, ignore=shutil.ignore_patterns("results", "data", ".git"))
            for name in ("data", "results"):
                shutil.copytree(ours / name, theirs / name)
            rivals = [
                Way(way.name, theirs, their_command(way.name, way.is_cold), way.is_cold) for way in ways
            ]
        time.sleep(SETTLED_NS / 1e9)  # younger files are not cached
        for way in [*ways, *rivals]:
            subprocess.run([*way.command[:2], "--help"], cwd=way.folder, env=environment, capture_output=True)
        for number in range(max(args.rounds, args.their_rounds)):
            for way in [
                *(ways if number < args.rounds else []),
                *(rivals if number < args.their_rounds else []),
            ]:
                way.run(environment)
        table(ways, rivals)


def their_command(name: str, is_cold: bool) -> list[str]:
    return [THEIR_PYTHON, name, *COMMANDS[name], *(["--recompute"] if is_cold else [])]


def memory_of(process: int) -> int:
    """Bytes that a process and its children have, shared pages counted once."""
    total = 0
    try:
        parent = psutil.Process(process)
        for each in (parent, *parent.children(recursive=True)):
            total += each.memory_full_info().pss
    except psutil.Error:
        pass  # it has ended
    return total


def table(ways: list[Way], rivals: list[Way]) -> None:
    columns = f"{'seconds':>20} {'CPU s':>6} {'MB':>5}"
    print(f"{'command':18} {'':5} {columns}{f'   ann-benchmarks: {columns}   ratio' if rivals else ''}")
    for number, way in enumerate(ways):
        print(f"{way.name:18} {'cold' if way.is_cold else 'warm':5} {told(way)}", end="")
        if rivals:
            ratio = statistics.median(rivals[number].wall) / statistics.median(way.wall)
            print(f"                   {told(rivals[number])}   {ratio:.1f}", end="")
        print()


def told(way: Way) -> str:
    """Medians; of the seconds also the smallest and the largest."""
    seconds = f"{statistics.median(way.wall):.2f} ({min(way.wall):.2f}-{max(way.wall):.2f})"
    return f"{seconds:>20} {statistics.median(way.cpu):6.2f} {way.memory / 1e6:5.0f}"


if __name__ == "__main__":
    main()

"""How long plot.py and create_website.py take over many results, and ann-benchmarks' own on the same files.

    python -m benchmarks.plotting [--files 1000] [--queries 10000] [--rounds 5] [--their-rounds 1]

The results are made up (made_results.py). Whole commands are timed, in turn: cold, with no metrics cached
(ours: the cache deleted; theirs: --recompute), and warm. The files are in the page cache, and the modules
compiled, for both sides. Where ANN_BENCHMARKS_CHECKOUT names a checkout of ann-benchmarks, and
ANN_BENCHMARKS_PYTHON a Python with what it needs, its commands get a copy of the same files, into which they
write. Memory is the largest sum, over the processes of a command, of what each has to itself and its part of
what they share, as seen 10 times a second.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil

from ann_benchmarks.results.file import SETTLED_NS
from benchmarks.harness import PROJECT, Cost, arguments, cost_of
from benchmarks.made_results import DATASET, make_results

CHECKOUT = os.environ.get("ANN_BENCHMARKS_CHECKOUT", "")
THEIR_PYTHON = os.environ.get("ANN_BENCHMARKS_PYTHON", sys.executable)
COMMANDS = {
    "plot.py": ["--dataset", DATASET, "-Y", "log"],
    "create_website.py": ["--outputdir", "site"],
}
SAMPLE_SECONDS = 0.1


@dataclass
class TimedCommand:
    """A command of one side, cold or warm, and what it took each time."""

    name: str
    folder: Path
    command: list[str]
    is_cold: bool
    costs: list[Cost] = field(default_factory=list)
    memory: int = 0

    def run(self, environment: dict[str, str]) -> None:
        """Run it once."""
        (self.folder / "site").mkdir(exist_ok=True)
        if self.is_cold and "--recompute" not in self.command:
            for cache in (self.folder / "results").rglob(".metrics-cache.json"):
                cache.unlink()
        output = self.folder / "output.txt"

        def command() -> None:
            with output.open("w") as file:
                process = subprocess.Popen(
                    self.command, cwd=self.folder, env=environment, stdout=file, stderr=subprocess.STDOUT
                )
            while process.poll() is None:
                self.memory = max(self.memory, memory_of(process.pid))
                with suppress(subprocess.TimeoutExpired):
                    process.wait(SAMPLE_SECONDS)
            if process.returncode:
                sys.exit(f"error: {' '.join(self.command)}:\n{output.read_text()[-2000:]}")

        self.costs.append(cost_of(command, resource.RUSAGE_CHILDREN))

    def __str__(self) -> str:
        wall, cpu = zip(*self.costs, strict=True)
        seconds = f"{median(wall):.2f} ({min(wall):.2f}-{max(wall):.2f})"
        return f"{seconds:>20} {median(cpu):6.2f} {self.memory / 1e6:5.0f}"


def main() -> None:
    their_folder = {"type": Path, "help": "where files are made (default: a temporary folder)"}
    args = arguments(__doc__, files=1000, queries=10_000, rounds=5, their_rounds=1, folder=their_folder)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        ours, theirs = Path(folder, "ours"), Path(folder, "theirs")
        make_results(ours, args.files, args.queries)
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(Path(folder, "compiled"))}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        variants = [(name, is_cold) for name in COMMANDS for is_cold in (True, False)]
        own = [
            TimedCommand(name, ours, [sys.executable, str(PROJECT / name), *COMMANDS[name]], is_cold)
            for name, is_cold in variants
        ]
        rivals = []
        if CHECKOUT:
            shutil.copytree(CHECKOUT, theirs, ignore=shutil.ignore_patterns("results", "data", ".git"))
            for name in ("data", "results"):
                shutil.copytree(ours / name, theirs / name)
            rivals = [
                TimedCommand(
                    name, theirs, [THEIR_PYTHON, name, *COMMANDS[name], *["--recompute"] * is_cold], is_cold
                )
                for name, is_cold in variants
            ]
        time.sleep(SETTLED_NS / 1e9)  # younger files are not cached
        for way in [*own, *rivals]:
            subprocess.run([*way.command[:2], "--help"], cwd=way.folder, env=environment, capture_output=True)
        for number in range(max(args.rounds, args.their_rounds)):
            for way in own * (number < args.rounds) + rivals * (number < args.their_rounds):
                way.run(environment)
    table(own, rivals)


def memory_of(process: int) -> int:
    """Bytes that a process and its children have, shared pages counted once."""
    with suppress(psutil.Error):  # it has ended
        parent = psutil.Process(process)
        return sum(each.memory_full_info().pss for each in (parent, *parent.children(recursive=True)))
    return 0


def table(own: list[TimedCommand], rivals: list[TimedCommand]) -> None:
    columns = f"{'seconds':>20} {'CPU s':>6} {'MB':>5}"
    print(f"{'command':18} {'':5} {columns}{f'   ann-benchmarks: {columns}   ratio' if rivals else ''}")
    for number, way in enumerate(own):
        print(f"{way.name:18} {'cold' if way.is_cold else 'warm':5} {way}", end="")
        if rivals:
            ratio = median(cost.wall for cost in rivals[number].costs) / median(
                cost.wall for cost in way.costs
            )
            print(f"                   {rivals[number]}   {ratio:.1f}", end="")
        print()


if __name__ == "__main__":
    main()

"""Results that somebody damaged or forged, and the commands that read them, tried with all of them.

For each case a file is made that differs from a good result in one thing: an attribute of the wrong kind, a
damaged structure, bytes that were changed, a field of a workload's record. Every command reads it next to a
good one. A case fails where a command raises anything but its own one-line message, is ended by a signal,
takes more than 10 s of CPU, or has no end. Cases are tried in groups, and a group that fails in halves.
"""

import contextlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ann_benchmarks.commands import compare, create_website, data_export, plot, report
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.records import SUFFIX

from .hostile_cases import Make, make_good

LIMIT = 10.0  # s of CPU for one file
HANGING = 120.0  # s, for however many, on a busy machine
GROUP = 40  # files that a command reads at once
COMMANDS: dict[str, tuple[Callable[[], object], list[str]]] = {
    "plot": (plot.main, ["--dataset", "d", "-o", "plot.svg"]),
    "plot --tiers": (plot.main, ["--dataset", "d", "-o", "tiers.png", "--tiers"]),
    "plot --monitoring": (plot.main, ["--monitoring", "ONE", "-o", "monitoring.png"]),
    "report": (report.main, ["--dataset", "d"]),
    "site": (create_website.main, ["--outputdir", "site", "--latex"]),
    "export": (data_export.main, ["--output", "out.csv"]),
    "compare": (compare.main, ["before", "."]),
    "compare markdown": (compare.main, ["before", ".", "--format", "markdown", "--at-recall", "0.1"]),
    "list": (compare.main, ["--list"]),
}


def run_main(command: str, one: Path | None = None) -> None:
    """Run a command in the current folder and this process; anything but its own message is an exception."""
    main, arguments = COMMANDS[command]
    sys.argv = [f"{command.split()[0]}.py", *(str(one) if word == "ONE" else word for word in arguments)]
    with contextlib.suppress(UserError), contextlib.suppress(SystemExit):
        main()


class Attempt:
    """Makes the files of cases, and has commands read some of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.good = make_good(folder / "good")
        (folder / "made").mkdir()

    def make(self, number: int, name: str, make: Make) -> Path:
        """Make the file of one case."""
        is_record = name.startswith("record")
        path = self.folder / "made" / f"{number}{SUFFIX if is_record else '.hdf5'}"
        shutil.copy(self.good, path)
        make(path)
        return path

    def lay(self, paths: Sequence[Path]) -> Path:
        """Return a folder in which these are results next to a good one, and good ones lie in `before`."""
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(self.folder / "good", work)
        for path in paths:
            place = work / f"results/d/10/h{path.name.partition('.')[0]}/x{''.join(path.suffixes)}"
            place.parent.mkdir(parents=True)
            place.symlink_to(path.resolve()) if path.is_symlink() or not path.is_file() else os.link(
                path, place
            )
            before = work / "before" / place.relative_to(work)
            before.parent.mkdir(parents=True)
            os.link(self.good, before.with_name("x.hdf5"))
        return work

    def fails(self, command: str, paths: Sequence[Path]) -> str:
        """Say how a command fails on these files, "" where it does not."""
        work = self.lay(paths)
        if "--monitoring" in command and len(paths) > 1:
            return "one by one"
        child = os.fork()
        if not child:
            status = 9
            most = int(LIMIT * (1 if len(paths) == 1 else 3))
            resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
            try:
                os.chdir(work)
                warnings.simplefilter("ignore")
                with Path("said").open("w", errors="replace") as said:
                    os.dup2(said.fileno(), 1)
                    os.dup2(said.fileno(), 2)
                run_main(command, next(work.glob("results/d/10/h*/*")))
                status = 0
            except BaseException:
                with contextlib.suppress(BaseException):
                    Path("traceback").write_text(traceback.format_exc(), errors="replace")
            os._exit(status)
        end = time.monotonic() + HANGING
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                if not status:
                    return ""
                if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
                    return f"more than {LIMIT:g} s of CPU"
                if os.WIFSIGNALED(status):
                    return f"signal {os.WTERMSIG(status)}"
                return (work / "traceback").read_text(errors="replace").strip()
            time.sleep(0.005)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return f"no end in {HANGING:g} s"

    def culprits(self, command: str, paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
        """Yield each file that makes the command fail, and how."""
        reason = self.fails(command, paths)
        if reason and len(paths) == 1:
            yield paths[0], reason
        elif reason:
            middle = len(paths) // 2
            yield from self.culprits(command, paths[:middle])
            yield from self.culprits(command, paths[middle:])


def attack(cases: Sequence[tuple[str, Make]], commands: Sequence[str]) -> dict[str, list[str]]:
    """Try cases with commands; return the cases that failed by command, each with the last line."""
    found: dict[str, list[str]] = {command: [] for command in commands}
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        attempt = Attempt(Path(folder))
        for start in range(0, len(cases), GROUP):
            names = {}
            for number, (name, make) in enumerate(cases[start : start + GROUP], start):
                # Some libraries cannot make some cases.
                with contextlib.suppress(
                    OSError, ValueError, TypeError, KeyError, RuntimeError, AttributeError
                ):
                    names[attempt.make(number, name, make)] = name
            for command in commands:
                for path, reason in attempt.culprits(command, list(names)):
                    found[command].append(f"{names[path]}: {reason}")
            shutil.rmtree(attempt.folder / "made")
            (attempt.folder / "made").mkdir()
    return found

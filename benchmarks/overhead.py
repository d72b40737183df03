"""The harness's share of a sweep: the time of run.py that is not the database's or the queries'.

    python -m benchmarks.overhead [OPTIONS OF run.py]

Without options: 9 points of pgvector HNSW by 1 and by 8 clients, 5 runs each. The times are those of the
phases that monitoring has stored in each result, against the wall time of the command. Asking is what the
runs themselves took; all that no line names is the harness's, and so is what lies between the runs.
"""

import os
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

from ann_benchmarks.data.datasets import get_dataset
from ann_benchmarks.monitoring import read_monitoring
from ann_benchmarks.results.file import read_attributes
from ann_benchmarks.run.options import make_parser
from benchmarks.harness import PROJECT, cost_of, empty_folder

DEFAULT = "--algorithm pgvector_hnsw --max-n-algorithms 1 --dataset clustered-50k-96-euclidean --clients 1,8"
NOT_OURS = ("start", "load", "build", "prewarm", "answers", "warm-up", "asking")


def main() -> None:
    """Run it in a folder of its own and print the shares."""
    options = sys.argv[1:] or DEFAULT.split()
    if {"-h", "--help"} & {*options}:
        print(__doc__)
        return
    with empty_folder() as folder:
        environment = {**os.environ, "ANN_BENCHMARKS_PG_DATA": str(folder / "server")}
        command = [sys.executable, str(PROJECT / "run.py"), "--local", *options]
        with get_dataset(make_parser().parse_args(options).dataset)[0]:
            pass  # it is made or downloaded: who sweeps has it
        run = partial(subprocess.run, command, env=environment, check=True, stdout=subprocess.DEVNULL)
        wall = cost_of(run).wall
        paths = sorted(Path("results").rglob("*.hdf5"))
        seconds = phases_of(paths)
    for phase in sorted(seconds, key=lambda phase: (phase not in NOT_OURS, -seconds[phase])):
        mark = "" if phase in NOT_OURS else "   (harness)"
        print(f"{phase:14} {seconds[phase]:7.1f} s {seconds[phase] / wall:7.2%}{mark}")
    others = wall - sum(seconds.values())
    print(f"{'all else':14} {others:7.1f} s {others / wall:7.2%}   (harness)")
    ours = wall - sum(seconds[phase] for phase in NOT_OURS)
    print(f"{len(paths)} points in {wall:.1f} s; the harness's share: {ours / wall:.2%}")


def phases_of(paths: list[Path]) -> Counter[str]:
    """Add up the seconds of each phase; that of a build, which each of its points has, once."""
    seconds: Counter[str] = Counter()
    builds: set[tuple[str, float]] = set()
    for path in paths:
        monitored, attrs = read_monitoring(path), read_attributes(path)
        assert monitored is not None
        for phase, place in monitored.stretches():
            begin, *_, end = monitored.seconds[place]
            if phase in ("start", "load", "build", "prewarm"):
                if (key := (phase, float(begin))) in builds:
                    continue
                builds.add(key)
            seconds[phase] += float(end - begin)
        seconds["asking"] += float(attrs["asking_seconds"])
        seconds["between runs"] -= float(attrs["asking_seconds"])
    seconds["between runs"] += seconds.pop("measure")
    return seconds


if __name__ == "__main__":
    main()

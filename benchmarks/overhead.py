"""All but the database and the queries takes a few percent of a sweep.

--options are further ones of run.py. Seconds are those of the phases that monitoring has stored in each
result, against the wall time of the command. Asking is what the runs themselves took; all else is the
harness's.
"""

import argparse
import shlex
from collections import Counter
from collections.abc import Iterator

from ann_benchmarks.monitoring import read_monitoring
from ann_benchmarks.results.file import read_attributes

from .harness import Row
from .serving import cost_of, empty_folder, run_command

GOAL = None
SWEEP = "--algorithm pgvector_hnsw --max-n-algorithms 1 --clients 1,8"
OPTIONS = {"dataset": "clustered-50k-96-euclidean", "options": SWEEP}
ONCE = ("start", "load", "build", "prewarm")  # of a build, which each of its points has
NOT_OURS = (*ONCE, "answers", "warm-up", "asking")


def cases(args: argparse.Namespace) -> Iterator[Row]:
    with empty_folder() as folder:
        words, place = ["run.py", "--local", "--dataset", args.dataset], f"{folder}/server"
        making = [*words, "--algorithm", "pgvector_exact", "--build-only"]
        run_command(folder, making, ANN_BENCHMARKS_PG_DATA=f"{folder}/other")  # the sweep has the dataset
        words += shlex.split(args.options)
        wall = cost_of(lambda: run_command(folder, words, ANN_BENCHMARKS_PG_DATA=place)).wall
        seconds: Counter[str] = Counter()
        builds = set()
        for path in (folder / "results").rglob("*.hdf5"):
            monitored = read_monitoring(path)
            assert monitored is not None
            for phase, stretch in monitored.stretches():
                begin, *_, end = monitored.seconds[stretch]
                if (phase, begin) not in builds:
                    seconds[phase] += float(end - begin)
                builds |= {(phase, begin)} if phase in ONCE else set()
            seconds["asking"] += float(read_attributes(path)["asking_seconds"])
    seconds["between runs"] = seconds.pop("measure") - seconds["asking"]
    seconds["all else"] = wall - sum(seconds.values())
    ours = wall - sum(seconds[phase] for phase in NOT_OURS)
    for phase in sorted(seconds, key=lambda phase: (phase not in NOT_OURS, -seconds[phase])):
        title = phase if phase in NOT_OURS else f"{phase} (harness)"
        yield Row(title, {"s": seconds[phase], "share": f"{seconds[phase] / wall:.2%}"})
    yield Row("the harness in all", {"s": ours, "share": f"{ours / wall:.2%}"})

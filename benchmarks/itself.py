"""An index against itself: how often rounds, or points measured once, tell two contenders apart.

Two algorithms of different names have the same arguments and so the same index. Whatever is said about them
beyond "no difference" is false.

With --slower, one of them searches deeper, so that its queries take about that many times as long: the depth
is measured first, and the ratio of all rounds is printed. What is not said then is missed. --windows are
numbers of rounds after which one might have stopped: every window of that length is judged alone. Where
points are measured one after the other, a window is the end of the first and the beginning of the second.

    python -m benchmarks.itself --repetitions 20 --rounds 12
    python -m benchmarks.itself --repetitions 4 --rounds 48 --windows 6 12 24 48 --slower 1.1
"""

import contextlib
import io
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import yaml
from tqdm import tqdm

from ann_benchmarks.common.output import say
from ann_benchmarks.results.contest import Contest, alone, contest
from ann_benchmarks.results.file import iter_result_paths, read_attributes
from ann_benchmarks.results.speeds import speed_of
from run import main as run

from .harness import arguments, empty_folder, spread

EF_SEARCH = 40
DEEPER = [EF_SEARCH, 46, 52, 58, 64]
CALIBRATION_ROUNDS = 24
WAYS = {"rounds": "--rounds", "runs, one after the other": "--runs"}  # by the option


def definitions(depths: Mapping[str, list[int]]) -> None:
    """Write algorithms that differ in their names alone, or in the depths of their search."""
    for name, every in depths.items():
        entry = {
            "name": name,
            "module": "ann_benchmarks.algorithms.pgvector_hnsw",
            "constructor": "PGVectorHNSW",
            "docker_tag": "ann-benchmarks-pgvector_hnsw",
            "base_args": ["@metric"],
            "run_groups": {"all": {"args": [{"M": 16, "efConstruction": 64}], "query_args": [every]}},
        }
        folder = Path("definitions", name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yml").write_text(yaml.safe_dump({"float": {"any": [entry]}}))


def measured(words: list[str]) -> tuple[float, dict[str, dict[str, Any]]]:
    """Measure all points once more; return the seconds that it took, and each result, by its place."""
    began = time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        run(words)
    found = re.search(r"rounds in (\d+) s", said.getvalue())
    results = {f"{path.parent.name}/{path.stem}": read_attributes(path) for path in iter_result_paths()}
    return float(found[1]) if found else time.monotonic() - began, results


def depth_of(slower: float, words: list[str]) -> int:
    """Return the depth at which a query takes nearest to this many times as long as at EF_SEARCH."""
    definitions({"depths": DEEPER})
    _, results = measured([*words, "--rounds", str(CALIBRATION_ROUNDS)])
    seconds = {int(name.rpartition("_")[2]): np.log(attrs["run_seconds"]) for name, attrs in results.items()}
    logs = [float(np.median(seconds[depth] - seconds[EF_SEARCH])) for depth in DEEPER]
    # Each depth visits some more of the graph: the time rises evenly over so few of them.
    slope = np.polyfit(DEEPER, np.exp(logs), 1)[0]
    depth = EF_SEARCH + round((slower - 1) / slope)
    say(f"times of a query at ef_search {DEEPER}: {np.exp(logs).round(3).tolist()}")
    say(f"ef_search {EF_SEARCH} is measured against {depth}")
    for path in [*iter_result_paths()]:
        path.unlink()
    Path("definitions", "depths", "config.yml").unlink()
    Path("definitions", "depths").rmdir()
    return depth


def windows(results: Mapping[str, dict[str, Any]], length: int, is_deeper: bool) -> Iterator[Contest]:
    """Yield what reports would say after this number of runs of each.

    If one of them searches deeper, each is judged at its own recall: at an equal one, they differ by less.
    """
    ordered = sorted(results.items(), key=lambda result: str(result[1]["started_at"]))
    runs = len(ordered[0][1]["run_seconds"])
    if all("rounds" in attrs for _, attrs in ordered):
        parts = [[slice(first, first + length)] * 2 for first in range(0, runs - length + 1, length)]
    else:
        parts = [[slice(runs - length, runs), slice(0, length)]]
    for both in parts:
        speeds = {}
        for (name, attrs), part in zip(ordered, both, strict=True):
            cut = {key: attrs[key][part] for key in ("run_seconds", "run_rounds") if key in attrs}
            recall = float(attrs["run_recalls"][0])
            speed = speed_of({**attrs, **cut, "recall_parts": []}, recall, 0.0, name)
            speeds[name.partition("-")[0]] = speed
        if is_deeper:
            fastest_first = sorted(speeds.items(), key=lambda item: item[1].level, reverse=True)
            yield Contest({name: alone(speed) for name, speed in fastest_first})
        else:
            yield contest({name: [speed] for name, speed in speeds.items()}, 0.0)


def main() -> None:
    """Measure in rounds and one after the other, and print how often something was said."""
    args = arguments(__doc__, repetitions=20, rounds=12, windows={"type": int, "nargs": "+"}, clients=1,
                     duration=1.0, slower=1.0, dataset="clustered-50k-96-euclidean")  # fmt: skip
    load = ["--clients", str(args.clients), "--duration", str(args.duration)]
    words = ["--local", "--definitions", "definitions", "--dataset", args.dataset, "--force", *load]
    ways = {way: [option, str(args.rounds)] for way, option in WAYS.items()}
    lengths = [length for length in args.windows or [args.rounds] if length <= args.rounds]
    with empty_folder():
        deeper = depth_of(args.slower, words) if args.slower != 1 else EF_SEARCH
        definitions({"one": [EF_SEARCH], "other": [deeper]})
        found: dict[tuple[str, int], list[tuple[float, bool, bool]]] = {}
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in tqdm(range(args.repetitions), unit="repetition", disable=None):
            for way, options in ways.items():
                took, results = measured([*words, *options])
                seconds[way].append(took)
                for length in lengths:
                    for contested in windows(results, length, is_deeper=args.slower != 1):
                        (ratio,) = contested.ratios().values()
                        is_one = next(iter(contested.standings)) == "one"
                        value = ratio.value if is_one else 1 / ratio.value
                        counts = is_one or args.slower == 1
                        verdict = (value, counts and ratio.is_sure, counts and not ratio.is_noise)
                        found.setdefault((way, length), []).append(verdict)
        for (way, length), every in found.items():
            sure, apart = (sum(row[place] for row in every) for place in (1, 2))
            each = fmean(seconds[way]) * length / args.rounds
            # A deeper search has a higher recall, too, so that neither is called the fastest for it.
            fastest = f"either called the fastest {sure} times, " if args.slower == 1 else ""
            say(
                f"{length} {way}: ratio {spread(value for value, *_ in every)}; {fastest}"
                f"an interval without 1 {apart} times of {len(every)}; {each:.0f} s each"
            )


if __name__ == "__main__":
    main()

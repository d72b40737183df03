"""An index against itself: how often rounds, or points measured once, tell two equal contenders apart.

Two algorithms of different names have the same arguments and so the same index. Whatever is said about them
beyond "no difference" is false. With --slower, one of them searches deeper, and what is not said is missed.

    python -m benchmarks.itself --repetitions 20 --rounds 12
    python -m benchmarks.itself --repetitions 10 --rounds 24 --slower 1.1
"""

import contextlib
import io
import re
import time
from pathlib import Path

import yaml
from tqdm import tqdm

from ann_benchmarks.common.output import say
from ann_benchmarks.results.contest import Contest, contest
from ann_benchmarks.results.file import iter_result_paths, read_attributes
from ann_benchmarks.results.speeds import speed_of
from run import main as run

from .harness import arguments, empty_folder, spread

EF_SEARCH = 40


def definitions(slower: float) -> None:
    """Write two algorithms that differ in their names alone, or in the depth of their search."""
    for name, ef_search in (("one", EF_SEARCH), ("other", round(slower * EF_SEARCH))):
        entry = {
            "name": name,
            "module": "ann_benchmarks.algorithms.pgvector_hnsw",
            "constructor": "PGVectorHNSW",
            "docker_tag": "ann-benchmarks-pgvector_hnsw",
            "base_args": ["@metric"],
            "run_groups": {"all": {"args": [{"M": 16, "efConstruction": 64}], "query_args": [[ef_search]]}},
        }
        folder = Path("definitions", name)
        folder.mkdir(parents=True)
        (folder / "config.yml").write_text(yaml.safe_dump({"float": {"any": [entry]}}))


def judged() -> Contest:
    """Return what reports would say of the results, at whatever recall they have."""
    speeds = {}
    for path in iter_result_paths():
        attrs = read_attributes(path)
        recall = float(attrs["run_recalls"][0])
        speeds[path.parent.name] = [speed_of(attrs | {"recall_parts": []}, recall, 0.0, path.parent.name)]
    return contest(speeds, 0.0)


def measure(words: list[str]) -> float:
    """Run both once more; return the seconds that it took."""
    began = time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        run(words)
    found = re.search(r"rounds in (\d+) s", said.getvalue())
    return float(found[1]) if found else time.monotonic() - began


def main() -> None:
    """Measure in rounds and one after the other, and print how often something was said."""
    args = arguments(__doc__, repetitions=20, rounds=12, clients=1, duration=1.0, slower=1.0,
                     dataset="clustered-50k-96-euclidean")  # fmt: skip
    load = ["--clients", str(args.clients), "--duration", str(args.duration)]
    words = ["--local", "--definitions", "definitions", "--dataset", args.dataset, "--force", *load]
    ways = {
        f"{args.rounds} rounds": [*words, "--rounds", str(args.rounds)],
        f"{args.rounds} runs, one point after the other": [*words, "--runs", str(args.rounds)],
    }
    with empty_folder():
        definitions(args.slower)
        found: dict[str, list[tuple[float, bool, bool]]] = {way: [] for way in ways}
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in tqdm(range(args.repetitions), unit="repetition", disable=None):
            for way, words in ways.items():
                seconds[way].append(measure(words))
                contested = judged()
                (ratio,) = contested.ratios().values()
                value = ratio.value if next(iter(contested.standings)) == "one-c1" else 1 / ratio.value
                found[way].append((value, ratio.is_sure, not ratio.is_noise))
        for way, every in found.items():
            sure, apart = (sum(row[place] for row in every) for place in (1, 2))
            say(
                f"{way}: ratio {spread(value for value, *_ in every)}; called the fastest {sure} times of"
                f" {len(every)}, an interval without 1 {apart} times; {spread(seconds[way], 0)} s each"
            )


if __name__ == "__main__":
    main()

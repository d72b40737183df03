"""Results with their metrics, read from result files or from the cache."""

import math
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.host import usable_cores
from ann_benchmarks.common.text import DAMAGE, clean_text
from ann_benchmarks.fields.series import Series, series_from, series_of
from ann_benchmarks.statistics.intervals import FEWEST_RUNS, Interval, fifth_interval, share_interval
from ann_benchmarks.statistics.percentiles import PERCENTILES, QUERIES

from .attributes import checked_attributes
from .cache import MetricsCache, each
from .environment import environment_names, environment_of
from .file import TRUTH_ATTRIBUTE, Result, Stamp, file_stamp, is_settled, read_result
from .measurement import COUNTS, PARTS, Measurement, number_of, recall_counts, recall_parts
from .metrics import FIFTH, KNN, RECALL, all_metrics, compute_all, standard_metrics
from .remarks import unusable_distances
from .truth import Truth, TruthError, Truths, filter_of

FEWEST_FILES = 16  # for which a process is worth being started
MOST_PROCESSES = 8
ROUNDING = 1e-9  # of a recall
MEMORY = 2**30  # bytes that all processes together may need; each needs three times its largest file


@dataclass(frozen=True)
class Run:
    """One result: what was run, its metrics by name (nan where unknown) and the file's other attributes."""

    dataset: str
    count: int
    distance: str
    series: Series
    parameters: str
    metrics: dict[str, float]
    attrs: dict[str, Any] = field(default_factory=dict)
    path: Path = field(default=Path(), compare=False)  # of its file, where it is known

    @property
    def batch(self) -> bool:
        """Whether all queries were given to the algorithm at once."""
        return self.series.batch

    @cached_property
    def algorithm(self) -> str:
        """The name of its curve."""
        return self.series.label

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What is known of where it was measured."""
        return environment_of(self.attrs)

    def dump(self) -> dict[str, Any]:
        """Return all of it as JSON holds it, with the name of the curve."""
        fields = {name: getattr(self, name) for name in FIELDS}
        return {**fields, "series": self.series.values, "algorithm": self.algorithm, "batch": self.batch}


FIELDS = tuple(name for name in Run.__dataclass_fields__ if name != "path")


LeftOut = dict[Path, UserError | OSError]  # files that are not results of this dataset, and why


def measure(path: Path, dataset: str, truths: Truths) -> Run:
    """Read one result file and compute its metrics; UserError if it is damaged or fits no dataset."""
    result = read_result(path, with_neighbors=False)
    series = series_of(result.attrs, clean_text(path.parent.name))
    truth = truths.read(series.filter)
    count = result.attrs["count"]
    true = truth.covering(len(result.distances), count)
    return judged(result, series, dataset, true, truth.marks(count))


def judged(result: Result, series: Series, dataset: str, truth: Truth, marks: Collection[str]) -> Run:
    """Return a result with its metrics by the true distances of its queries, which have these marks.

    UserError if it was measured on others.
    """
    attrs = result.attrs
    if attrs.get(TRUTH_ATTRIBUTE) not in (None, *marks):
        raise UserError("it was measured on other vectors of the same name: measure it again with run.py")
    m = Measurement(truth, result.distances, result.times, attrs)
    metrics = compute_all(m)
    target = number_of(attrs, "target_recall")
    if metrics[RECALL] < target - ROUNDING and metrics[KNN] >= target - ROUNDING:  # an earlier definition
        attrs = {name: value for name, value in attrs.items() if name != "target_recall"}
        attrs["target_missed"] = target
    return Run(
        dataset=dataset,
        count=attrs["count"],
        distance=str(attrs.get("distance", "unknown")),
        series=series,
        parameters=str(attrs.get("name", result.path.stem)),
        metrics=metrics,
        attrs=attrs | query_attributes(m),
    )


def query_attributes(m: Measurement) -> dict[str, Any]:
    """Return what is derived from each query's recall, as attributes, whoever has written the file."""
    fifth = fifth_interval(m.recalls)
    bounds = {} if math.isnan(fifth.low) else {f"{FIFTH}_low": fifth.low, f"{FIFTH}_high": fifth.high}
    if "recall_low" in m.attrs:  # perhaps with the slack of earlier versions
        mean = share_interval(m.recalls)
        bounds |= {"recall_low": mean.low, "recall_high": mean.high}
    return {PARTS: recall_parts(m.recalls), COUNTS: recall_counts(m.recalls, m.count), **bounds}


def measured(path: Path, truths: Truths) -> Run | UserError | OSError:
    """Return what `measure` does or raises."""
    try:
        return measure(path, truths.dataset, truths)
    except (UserError, OSError) as error:
        return error


def fitting_processes(sizes: Sequence[int]) -> int:
    """How many processes to read files of these sizes with, in bytes."""
    in_memory = MEMORY // (3 * max(sizes, default=1))
    return max(min(usable_cores(), MOST_PROCESSES, len(sizes) // FEWEST_FILES, in_memory), 1)


def from_cache(value: Any) -> Run | None:
    """Rebuild a run from a cache entry, or return None if it is not one."""
    try:
        series = series_from(value["series"])
        attrs = checked_attributes(value["attrs"])
        run = Run(**{name: value[name] for name in FIELDS} | {"series": series, "attrs": attrs})
        numbers = [run.metrics[name] for name in standard_metrics]
    except (UserError, *DAMAGE):
        return None
    texts = (run.dataset, run.distance, run.parameters)
    is_run = type(run.count) is int and all(isinstance(text, str) for text in texts)
    return run if is_run and all(isinstance(number, (int, float)) for number in numbers) else None


def skipped(what: object, reason: object) -> None:
    """Say on stderr what was left out, and why."""
    tqdm.write(clean_text(f"skipped {what}: {str(reason).removeprefix(f'{what} ')}"), file=sys.stderr)


def load_runs(
    paths: Iterable[Path],
    recompute: bool = False,
    processes: int | None = None,
    left_out: LeftOut | None = None,
) -> Iterator[Run]:
    """Yield the run of each result file that can be read; say on stderr which cannot, and why.

    `left_out` is given those that cannot.

    `recompute` computes every metric anew. Many files are read by several processes, by default one a core.
    Datasets are not downloaded: the results of one that is missing are left out, which is said once for all.
    Where an algorithm was measured in several environments, the series of each is named by its own.
    """
    found: dict[Path, Run] = {}
    said: set[str] = set()  # of truths that are missing, which many results share
    located = []
    for path in paths:
        if len(path.parts) >= 5 and path.parts[-3].isdecimal():
            located.append(path)
        else:
            skipped(path, "it does not lie in results/DATASET/COUNT/ALGORITHM/")
    with tqdm(total=len(located), desc="metrics", unit="file", disable=None, leave=False) as bar:
        for dataset, members in groupby(located, lambda path: path.parts[-4]):
            try:
                for path, outcome in load_dataset(dataset, list(members), recompute, processes):
                    bar.update()
                    if isinstance(outcome, Run):
                        found[path] = outcome
                    else:
                        if not isinstance(outcome, TruthError) or str(outcome) not in said:
                            skipped(path, outcome)
                            said.add(str(outcome))
                        if left_out is not None:
                            left_out[path] = outcome
            except TruthError as error:
                skipped(f"results/{dataset}", error)
    runs = list(found.values())
    kinds = [(run.dataset, run.count, run.series.algorithm, run.series.version) for run in runs]
    names = environment_names([run.attrs for run in runs], kinds)
    for path, run, name in zip(found, runs, names, strict=True):
        if text := unusable_distances(run.attrs):
            tqdm.write(clean_text(f"{path}: {text}"), file=sys.stderr)
        yield replace(run, series=run.series.replaced(environment=name), path=path)


def load_dataset(
    dataset: str, paths: Sequence[Path], recompute: bool, processes: int | None
) -> Iterator[tuple[Path, Run | UserError | OSError]]:
    """Yield the run of each result file of a dataset, or why it has none; TruthError where none can have one.

    What an entry of the cache is valid for is looked up before anything is read: what changes later is found
    to have changed.
    """
    truths = Truths(dataset)
    cache = MetricsCache(paths[0].parents[2])
    stamps: dict[Path, Stamp] = {}
    for path in paths:
        with suppress(OSError):  # it is gone, which reading it will show
            stamps[path] = file_stamp(path)
    filters = {path: cache.filter_of(path, stamp) or filter_of(path) for path, stamp in stamps.items()}
    judges = {path: stamp for path, name in filters.items() if (stamp := truths.stamp(name)) is not None}
    known: dict[Path, Run] = {}
    if not recompute:
        cached = ((path, from_cache(cache.get(path, stamps[path], judge))) for path, judge in judges.items())
        known = {path: run for path, run in cached if run}
    unknown = [path for path in paths if path not in known]
    settled = {path for path in unknown if path in judges and is_settled(stamps[path], judges[path])}
    if unknown:
        truths.read("")
    for name in {filters[path] for path in unknown if path in judges}:
        with suppress(TruthError):  # each of its results says so
            truths.read(name)
    number = processes or fitting_processes([int(stamps[path][1]) for path in unknown if path in stamps])
    try:
        with closing(each(partial(measured, truths=truths), unknown, number)) as outcomes:
            for path in paths:
                outcome = known.get(path) or next(outcomes)
                if isinstance(outcome, Run) and path in settled and outcome.series.filter == filters[path]:
                    cache.put(path, stamps[path], judges[path], outcome.dump())
                yield path, outcome
    finally:
        cache.save()


def interval(run: Run, metric: str) -> Interval | None:
    """Return the 95% interval of a metric that the result file holds, within what the metric can be.

    Those of percentiles are of something else in files that do not state the number of latencies.
    """
    known = all_metrics[metric]
    if known.bounds is None or (not known.is_share and (number(run, "run_count") or 0) < FEWEST_RUNS):
        return None
    if metric in PERCENTILES and (QUERIES not in run.attrs or math.isnan(run.metrics[metric])):
        return None
    low, high = (number(run, f"{known.bounds.attribute}_{end}") for end in ("low", "high"))
    if low is None or high is None or low > high:
        return None
    most = 1.0 if known.is_share else math.inf
    return Interval(max(low * known.bounds.scale, 0.0), min(high * known.bounds.scale, most))


def number(run: Run, attribute: str) -> float | None:
    """Return an attribute that is a finite number, or None."""
    value = run.attrs.get(attribute)
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None

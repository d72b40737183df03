"""The figures that a report's answer rests on: of each series, the fastest point at the target recall."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from ann_benchmarks.results.comparable import clients
from ann_benchmarks.results.runs import Run, interval

from .manifest import ClaimedPoint


def claimed_points(runs: Iterable[Run], names: Mapping[Path, str], target: float) -> list[ClaimedPoint]:
    """Return a point of each series that reaches the target recall; `names` are the files in the bundle.

    The points of a series have the same clients, tier and filter. A throughput that was given is no claim.
    """
    fastest: dict[tuple[str, int, str, bool], Run] = {}
    for run in runs:
        recall, qps = run.metrics["recall"], run.metrics["qps"]
        if run.series.is_open or not (target <= recall <= 1 and 0 < qps < math.inf):
            continue
        key = (run.dataset, run.count, run.algorithm, run.batch)
        if key not in fastest or qps > fastest[key].metrics["qps"]:
            fastest[key] = run
    return [_claim(fastest[key], names) for key in sorted(fastest)]


def _claim(run: Run, names: Mapping[Path, str]) -> ClaimedPoint:
    bounds, p99 = interval(run, "qps"), run.metrics["p99"]
    return ClaimedPoint(
        dataset=run.dataset,
        series=run.algorithm,
        count=run.count,
        batch=run.batch,
        clients=clients(run),
        recall=float(run.metrics["recall"]),
        qps=float(run.metrics["qps"]),
        file=names[run.path],
        qps_low=bounds.low if bounds else None,
        qps_high=bounds.high if bounds else None,
        p99=float(p99) if math.isfinite(p99) else None,
        filter=run.series.filter,
        tier=str(run.attrs.get("tier", "")),
    )

"""What the indexes of a comparison take: how long they took to build, and how large they are."""

from collections.abc import Callable, Mapping

from ann_benchmarks.common.numbers import KIB, size_text, three_digits
from ann_benchmarks.results.comparable import Comparison
from ann_benchmarks.results.runs import Run, number
from ann_benchmarks.views.parts import Statement, listed

from .builds import IndexNames


def costs(comparison: Comparison) -> list[Statement]:
    """Say how long the indexes of a comparison took to build, and how large they are."""
    runs = list(comparison.fastest.values())
    names = IndexNames(comparison.runs)
    seconds = {names.of(run): took for run in runs if (took := index_seconds(run)) > 0}
    sizes = {
        run.series.family: run.metrics["indexsize"] * KIB for run in runs if run.metrics["indexsize"] > 0
    }
    which = f"For the indexes that are the fastest with {comparison.client_text}: " if len(runs) > 1 else ""
    found = []
    if seconds:
        ranked = ranked_costs(seconds, lambda s: f"{three_digits(s)} s", "as long")
        single = " These are single builds, at different times." if len(seconds) > 1 else ""
        found.append(Statement("Building the index", which + ranked + single))
    if sizes:
        found.append(Statement("Size of the index", ranked_costs(sizes, size_text, "as large")))
    return found


def ranked_costs(costs: Mapping[str, float], write: Callable[[float], str], how: str) -> str:
    """Write costs, the smallest first, the others as multiples of it."""
    least = min(costs.values())
    alike: dict[tuple[str, str], list[str]] = {}  # names, by what is written of them
    for name, cost in sorted(costs.items(), key=lambda item: item[1]):
        alike.setdefault((write(cost), three_digits(cost / least)), []).append(name)
    texts = [
        f"{listed(names)} {text}" + (f", {times} times {how}" if times != "1" else "")
        for (text, times), names in alike.items()
    ]
    return "; ".join(texts) + "."


def index_seconds(run: Run) -> float:
    """Return how long the index took without the loading or, if no other time is known, with it."""
    return number(run, "index_build_time") or run.metrics["build"]

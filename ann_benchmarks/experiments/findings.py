"""Whether what others have found is found here, too."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ann_benchmarks.reporting.content import Finding
from ann_benchmarks.results.metrics import ROUNDING, all_metrics
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import Run

from .results import Measured
from .schema import Claim

# Of what is no metric of plot.py, the ends of names whose smaller values are the better ones.
COSTS = ("p50", "p95", "p99", "p999", "seconds_to_reach", "index_size", "table_size", "index_build_time",
         "load_time", "clustering_time")  # fmt: skip


@dataclass(frozen=True)
class Value:
    """A figure, and its 95% interval where that is known."""

    value: float
    low: float = math.nan
    high: float = math.nan


def judged(claim: Claim, measured: Sequence[Measured]) -> Finding:
    """Look for a finding in what was measured."""
    about = {"says": claim.says, "published": claim.published}
    if claim.not_testable:
        return Finding(**about, measured="", verdict="not testable here", why=claim.not_testable)
    try:
        found, details = COMPARED[claim.compare](claim, measured)
    except LookupError as error:
        return Finding(**about, measured="", verdict="not measured", why=str(error.args[0]))
    is_there = (claim.least is None or found.value >= claim.least) and (
        claim.most is None or found.value <= claim.most
    )
    bounds = [bound for bound in (claim.least, claim.most) if bound is not None]
    wanted = " and ".join(
        f"at {name} {bound:g}" for name in ("least", "most") if (bound := getattr(claim, name)) is not None
    )
    unsure = any(found.low < bound < found.high for bound in bounds)
    return Finding(
        **about,
        measured=f"{written(found, claim.unit)}; {details}".removesuffix("; "),
        verdict="reproduced" if is_there else "not reproduced",
        why=f"{wanted} was looked for" + (", which lies within the interval: not sure" if unsure else ""),
    )


def written(found: Value, unit: str) -> str:
    """Write a value with its interval."""
    text = figure(found.value)
    if math.isfinite(found.low):
        text += f" (95%: {figure(found.low)} to {figure(found.high)})"
    return f"{text} {unit}".rstrip()


def figure(value: float) -> str:
    """Write a number with three digits, or all that are before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def ratio(claim: Claim, measured: Sequence[Measured]) -> tuple[Value, str]:
    """Return the value of one selection over that of another; intervals as of logarithms of normal values."""
    above = best(claim, claim.of, measured)
    below = best(replace(claim, metric=claim.to_metric or claim.metric), claim.to or claim.of, measured)
    quotient = above.value / below.value
    half = math.hypot(*(math.log(v.high / v.low) / 2 if v.low > 0 else math.nan for v in (above, below)))
    low, high = (quotient * math.exp(sign * half) for sign in (-1, 1))
    return Value(quotient, low, high), f"{figure(above.value)} to {figure(below.value)}"


def spread(claim: Claim, measured: Sequence[Measured]) -> tuple[Value, str]:
    """Return the largest over the smallest value, of the best in each group."""
    groups = {str(m.attrs.get(claim.over)) for m in selected(claim.of, measured)}
    values = [best(claim, {**claim.of, claim.over: group}, measured).value for group in sorted(groups)]
    if len(values) < 2:
        raise LookupError(f"{len(values)} of {claim.over} measured, of which a spread needs two")
    return Value(max(values) / min(values)), f"from {figure(min(values))} to {figure(max(values))}"


def value(claim: Claim, measured: Sequence[Measured]) -> tuple[Value, str]:
    """Return the value of a selection."""
    found = best(claim, claim.of, measured)
    return found, ""


COMPARED: Mapping[str, Callable[[Claim, Sequence[Measured]], tuple[Value, str]]] = {
    "ratio": ratio,
    "spread": spread,
    "value": value,
}


def best(claim: Claim, selection: Mapping[str, Any], measured: Sequence[Measured]) -> Value:
    """Return the best value of a selection, of those with the recall that is named; LookupError if none."""
    chosen = selected(selection, measured)
    if not chosen:
        raise LookupError(f"nothing measured of {dict(selection)}")
    if claim.at_recall is not None:
        chosen = [m for m in chosen if recall_of(m) >= claim.at_recall - ROUNDING]
        if not chosen:
            raise LookupError(f"no recall of {claim.at_recall:g} reached by {dict(selection)}")
    values = [v for m in chosen if math.isfinite((v := value_of(m.outcome, claim.metric)).value)]
    if not values:
        raise LookupError(f"no {claim.metric} known of {dict(selection)}")
    known = all_metrics.get(claim.metric)
    lower = claim.metric.rpartition(".")[2] in COSTS if known is None else not known.higher_is_better
    return (min if lower else max)(values, key=lambda v: v.value)


def recall_of(measured: Measured) -> float:
    """Return a point's recall; of a workload that of its last phase."""
    outcome = measured.outcome
    if isinstance(outcome, Run):
        return outcome.metrics["k-nn"]
    return next((p.recall for p in reversed(outcome.phases) if p.recall is not None), math.nan)


def value_of(outcome: Run | Record, metric: str) -> Value:
    """Return a metric or a numeric attribute of a point; of a workload, a path: writing.queries.p99."""
    if isinstance(outcome, Record):
        return value_of_record(outcome, metric)
    attrs = outcome.attrs
    found = outcome.metrics.get(metric, attrs.get(metric, math.nan))
    number = float(found) if isinstance(found, (int, float)) else math.nan
    names = {"qps": ("qps_low", "qps_high"), "k-nn": ("recall_low", "recall_high")}.get(metric, ("", ""))
    low, high = (float(attrs.get(name, math.nan)) for name in names)
    return Value(number, low, high)


def value_of_record(record: Record, path: str) -> Value:
    """Follow a path from the name of a phase to a number; nan where it leads nowhere."""
    phase, *steps = path.split(".")
    at: Any = record.phase(phase)
    holder: Any = None
    for step in steps:
        holder, at = at, at.get(step) if isinstance(at, dict) else getattr(at, step, None)
    if not isinstance(at, (int, float)):
        return Value(math.nan)
    bounds = (holder.low, holder.high) if steps[-1] == "per_second" else (math.nan, math.nan)
    return Value(float(at), *bounds)


def selected(selection: Mapping[str, Any], measured: Iterable[Measured]) -> list[Measured]:
    """Return those that a selection means."""
    return [m for m in measured if all(matches(m, key, wanted) for key, wanted in selection.items())]


def matches(measured: Measured, key: str, wanted: Any) -> bool:
    """Whether a point has the wanted value, or one of several."""
    if key in ("build", "query"):
        return is_part(
            wanted, measured.job.definition.arguments if key == "build" else measured.query_arguments
        )
    known: dict[str, Any] = {
        "step": measured.step,
        "algorithm": measured.job.definition.algorithm,
        "dataset": measured.job.dataset,
        "clients": measured.attrs.get("clients", 1),
        "disk": measured.attrs.get("tier_disk", ""),
        "cpus": measured.attrs.get("tier_cpus", ""),
        "order": measured.attrs.get("query_order", ""),
    }
    if isinstance(measured.outcome, Record):
        record = measured.outcome
        known |= {
            "clients": record.clients,
            "writers": record.writers,
            "workload": record.workload,
            "rate": record.rate,
        }
    has = known.get(key, measured.attrs.get(key, ""))
    return has in wanted if isinstance(wanted, list) else has == wanted or str(has) == str(wanted)


def is_part(wanted: Any, arguments: Sequence[Any]) -> bool:
    """Whether build or query arguments hold what is wanted: some of a mapping's values, or a whole list."""
    if isinstance(wanted, dict):
        given = [argument for argument in arguments if isinstance(argument, dict)]
        return any(all(each.get(k) == v for k, v in wanted.items()) for each in given)
    return list(arguments) == (wanted if isinstance(wanted, list) else [wanted])

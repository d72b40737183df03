"""Whether what others have found is found here, too."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ann_benchmarks.jobs.job import Job
from ann_benchmarks.reporting.content import Finding
from ann_benchmarks.results.metrics import ROUNDING, all_metrics
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import Run

from .schema import Claim

# Ends of the names whose smaller values are better; for the metrics of plot.py their registry says it.
COSTS = ("p50", "p95", "p99", "p999", "seconds_to_reach", "index_size", "table_size", "index_build_time",
         "load_time", "clustering_time")  # fmt: skip


@dataclass(frozen=True)
class StepPoint:
    """One point or workload of a step, which a selection may mean."""

    step: str
    job: Job
    query_arguments: Sequence[Any]
    outcome: Run | Record

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Attributes of the result."""
        return self.outcome.attrs

    @property
    def recall(self) -> float:
        """Its recall; for a workload, that of its last phase with one."""
        if isinstance(self.outcome, Run):
            return self.outcome.metrics["k-nn"]
        return next((p.recall for p in reversed(self.outcome.phases) if p.recall is not None), math.nan)

    def matches(self, key: str, value: Any) -> bool:
        """Whether it has a value that a selection names, or one of several."""
        arguments = {"build": self.job.definition.arguments, "query": self.query_arguments}
        if key in arguments:
            return is_part(value, arguments[key])
        known: dict[str, Any] = {
            "step": self.step,
            "algorithm": self.job.definition.algorithm,
            "dataset": self.job.dataset,
            "clients": self.attrs.get("clients", 1),
            "disk": self.attrs.get("tier_disk", ""),
            "cpus": self.attrs.get("tier_cpus", ""),
            "order": self.attrs.get("query_order", ""),
        }
        if isinstance(self.outcome, Record):
            known |= {
                name: getattr(self.outcome, name) for name in ("clients", "writers", "workload", "rate")
            }
        has = known.get(key, self.attrs.get(key, ""))
        return has in value if isinstance(value, list) else has == value or str(has) == str(value)


@dataclass(frozen=True)
class Value:
    """A figure, and its 95% interval where that is known."""

    value: float
    low: float = math.nan
    high: float = math.nan

    def text(self, unit: str) -> str:
        """Write it with its interval and unit."""
        text = figure(self.value)
        if math.isfinite(self.low):
            text += f" (95%: {figure(self.low)} to {figure(self.high)})"
        return f"{text} {unit}".rstrip()


def figure(value: float) -> str:
    """Write a number with three digits, or all that are before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def judged(claim: Claim, points: Sequence[StepPoint]) -> Finding:
    """Look for a finding among the points that were measured."""
    if claim.not_testable:
        return Finding(claim.says, claim.published, "", "not testable here", claim.not_testable)
    try:
        found, details = COMPARED[claim.compare](claim, points)
    except LookupError as error:
        return Finding(claim.says, claim.published, "", "not measured", str(error.args[0]))
    bounds = {"least": claim.least, "most": claim.most}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    missed = found.value < given.get("least", -math.inf) or found.value > given.get("most", math.inf)
    why = f"expected {' and '.join(f'at {name} {bound:g}' for name, bound in given.items())}"
    if any(found.low < bound < found.high for bound in given.values()):
        why += ", which lies within the interval: not sure"
    measured = f"{found.text(claim.unit)}; {details}".removesuffix("; ")
    verdict = "not reproduced" if missed or math.isnan(found.value) else "reproduced"
    return Finding(claim.says, claim.published, measured, verdict, why)


def ratio(claim: Claim, points: Sequence[StepPoint]) -> tuple[Value, str]:
    """Return the value of one selection over that of another, as if their logarithms were normal."""
    above = best(claim, claim.of, points)
    below_claim = replace(claim, metric=claim.to_metric or claim.metric)
    below = best(below_claim, claim.to or claim.of, points)
    if not below.value:
        raise LookupError(f"{below_claim.metric} is 0, by which nothing can be divided")
    quotient = above.value / below.value
    half = math.hypot(*(math.log(v.high / v.low) / 2 if v.low > 0 else math.nan for v in (above, below)))
    low, high = (quotient * math.exp(sign * half) for sign in (-1, 1))
    return Value(quotient, low, high), f"{figure(above.value)} to {figure(below.value)}"


def spread(claim: Claim, points: Sequence[StepPoint]) -> tuple[Value, str]:
    """Return the largest over the smallest of the best values of each group."""
    groups = {str(point.attrs.get(claim.over)) for point in selected(claim.of, points)}
    values = [best(claim, {**claim.of, claim.over: group}, points).value for group in sorted(groups)]
    if len(values) < 2:
        raise LookupError(f"{len(values)} values of {claim.over} measured: a spread needs two")
    if not min(values):
        raise LookupError(f"the least {claim.metric} is 0, by which nothing can be divided")
    return Value(max(values) / min(values)), f"from {figure(min(values))} to {figure(max(values))}"


COMPARED: Mapping[str, Callable[[Claim, Sequence[StepPoint]], tuple[Value, str]]] = {
    "ratio": ratio,
    "spread": spread,
    "value": lambda claim, points: (best(claim, claim.of, points), ""),
}


def best(claim: Claim, selection: Mapping[str, Any], points: Sequence[StepPoint]) -> Value:
    """Return the best value of the selected points with the recall of the claim; LookupError if none."""
    chosen = selected(selection, points)
    if not chosen:
        raise LookupError(f"nothing measured of {dict(selection)}")
    if claim.at_recall is not None:
        chosen = [point for point in chosen if point.recall >= claim.at_recall - ROUNDING]
        if not chosen:
            raise LookupError(f"no recall of {claim.at_recall:g} reached by {dict(selection)}")
    found = [value_of(point.outcome, claim.metric) for point in chosen]
    values = [one for one in found if math.isfinite(one.value)]
    if not values:
        raise LookupError(f"no {claim.metric} known of {dict(selection)}")
    known = all_metrics.get(claim.metric)
    lower = claim.metric.rpartition(".")[2] in COSTS if known is None else not known.higher_is_better
    return (min if lower else max)(values, key=lambda one: one.value)


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


def selected(selection: Mapping[str, Any], points: Iterable[StepPoint]) -> list[StepPoint]:
    """Return the points that a selection means."""
    return [point for point in points if all(point.matches(*each) for each in selection.items())]


def is_part(value: Any, arguments: Sequence[Any]) -> bool:
    """Whether build or query arguments hold some values of a mapping, or are a whole list."""
    if isinstance(value, dict):
        given = [argument for argument in arguments if isinstance(argument, dict)]
        return any(all(each.get(k) == v for k, v in value.items()) for each in given)
    return list(arguments) == (value if isinstance(value, list) else [value])

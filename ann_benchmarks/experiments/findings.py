"""Whether what others have found is found here, too."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ann_benchmarks.common.numbers import three_digits
from ann_benchmarks.common.text import from_json
from ann_benchmarks.fields.rows import FIELDS, chosen_fields
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.reporting.content import Finding
from ann_benchmarks.results.at_recall import (
    AtRecall,
    indexes_at_recall,
    is_known,
    ratio_of_throughputs,
    uninterpolated,
)
from ann_benchmarks.results.metrics import all_metrics
from ann_benchmarks.results.records import Rate, Record
from ann_benchmarks.results.runs import Run
from ann_benchmarks.statistics.contests import ratio_once
from ann_benchmarks.statistics.differences import ERROR_RATE
from ann_benchmarks.statistics.speeds import ROUNDING

from .schema import Claim

# Ends of the names whose smaller values are better; for the metrics of plot.py their registry says it.
COSTS = ("p50", "p95", "p99", "p999", "seconds_to_reach", "index_size", "table_size", "index_build_time",
         "load_time", "clustering_time")  # fmt: skip
NOTHING = (None, "", 0, "none")  # each stands for the absence of a filter, shard, pooler or tier


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

    def matches(self, key: str, value: Any) -> bool:
        """Whether it has a value that a selection names, or one of several."""
        arguments = {"build": self.job.definition.arguments, "query": self.query_arguments}
        if key in arguments:
            return is_part(value, arguments[key])
        if key == "setting":
            return all(self.job.definition.settings.get(name) == str(one) for name, one in value.items())
        series = self.job.series
        known = {
            field.id: self.attrs.get(field.attribute, getattr(series, field.name))
            for field in FIELDS.values()
        }
        known |= {"step": self.step, "dataset": self.job.dataset, "clients": known["clients"] or 1}
        if isinstance(self.outcome, Record):
            known |= {
                name: getattr(self.outcome, name) for name in ("clients", "writers", "workload", "rate")
            }
        has = known.get(key, self.attrs.get(key, ""))
        if has in NOTHING:
            return any(one in NOTHING for one in (value if isinstance(value, list) else [value]))
        return has in value if isinstance(value, list) else has == value or str(has) == str(value)


@dataclass(frozen=True)
class Value:
    """A figure, and its 95% interval where that is known.

    `at` is what shows a throughput, and `rate` a workload's: ratios are judged by these.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    at: AtRecall | None = None
    rate: Rate | None = None

    def text(self, unit: str) -> str:
        """Write it with its interval and unit."""
        text, low, high = map(three_digits, (self.value, self.low, self.high))
        interval = f"(95%: {low} to {high})" if math.isfinite(self.low) else ""
        return " ".join(filter(None, (text, interval, unit)))


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
    """Return the value of one selection over that of another, judged as in all reports."""
    below_claim = replace(claim, metric=claim.to_metric or claim.metric)
    above = best(claim, claim.of, points)
    below = best(below_claim, claim.to or claim.of, points)
    details = f"{three_digits(above.value)} to {three_digits(below.value)}"
    return judged_ratio(above, below, below_claim.metric, details)


def spread(claim: Claim, points: Sequence[StepPoint]) -> tuple[Value, str]:
    """Return the largest over the smallest of the best values of each group."""
    groups = {str(point.attrs.get(claim.over)) for point in selected(claim.of, points)}
    found = [best(claim, {**claim.of, claim.over: group}, points) for group in sorted(groups)]
    if len(found) < 2:
        raise LookupError(f"{len(found)} values of {claim.over} measured: a spread needs two")
    least, most = min(found, key=lambda one: one.value), max(found, key=lambda one: one.value)
    details = f"from {three_digits(least.value)} to {three_digits(most.value)}"
    return judged_ratio(most, least, claim.metric, details, ERROR_RATE / math.comb(len(found), 2))


def judged_ratio(
    above: Value, below: Value, metric: str, details: str, error_rate: float = ERROR_RATE
) -> tuple[Value, str]:
    """Return a ratio of two values and its details.

    It has an interval for two throughputs or two rates of workloads: the noise of others is not known. That
    has no lower end where the second side may be faster.
    """
    if not below.value:
        raise LookupError(f"{metric} is 0, by which nothing can be divided")
    if above.at and below.at:
        found = ratio_of_throughputs(above.at, below.at, error_rate)
    elif above.rate and below.rate and above.value > 0:
        found = ratio_once(above.rate.estimate, below.rate.estimate, error_rate)
    else:
        return Value(above.value / below.value), details
    low, high = found.interval or (math.nan, math.nan)
    known = Value(found.value, low if found.is_fair else 0.0, high)
    return known, details if found.rounds else f"{details}, {found.how}"


COMPARED: Mapping[str, Callable[[Claim, Sequence[StepPoint]], tuple[Value, str]]] = {
    "ratio": ratio,
    "spread": spread,
    "value": lambda claim, points: (best(claim, claim.of, points), ""),
}


def selection_text(selection: Mapping[str, Any]) -> str:
    """Write a selection as a reader of reports would."""
    return ", ".join(f"{key} {value}" for key, value in selection.items())


def best(claim: Claim, selection: Mapping[str, Any], points: Sequence[StepPoint]) -> Value:
    """Return the best value of the selected points at the recall of the claim; LookupError if none.

    A throughput is that at the recall, as indexes stand there; all else is that of the points next to it.
    """
    chosen = selected(selection, points)
    if not chosen:
        raise LookupError(f"nothing measured of {selection_text(selection)}")
    runs = [point.outcome for point in chosen if isinstance(point.outcome, Run)]
    records = [point.outcome for point in chosen if isinstance(point.outcome, Record)]
    if claim.at_recall is None:
        standings = [uninterpolated(run) for run in runs if is_known(run)]
    else:
        standings = indexes_at_recall(runs, claim.at_recall)
        records = [record for record in records if workload_may_reach(record, claim.at_recall)]
        if not standings and not records:
            raise LookupError(f"no recall of {claim.at_recall:g} reached by {selection_text(selection)}")
    found = [value_at(at, claim.metric) for at in standings]
    found += [value_of_record(record, claim.metric) for record in records]
    values = [one for one in found if math.isfinite(one.value)]
    if not values:
        raise LookupError(f"no {claim.metric} known of {selection_text(selection)}")
    known = all_metrics.get(claim.metric)
    lower = claim.metric.rpartition(".")[2] in COSTS if known is None else not known.higher_is_better
    return (min if lower else max)(values, key=lambda one: one.value)


def workload_may_reach(record: Record, recall: float) -> bool:
    """Whether the interval of its recall, in the last phase with one, allows a recall."""
    last = next((phase for phase in reversed(record.phases) if phase.recall is not None), None)
    return last is not None and max(last.recall or 0.0, last.recall_high or 0.0) >= recall - ROUNDING


def value_at(at: AtRecall, metric: str) -> Value:
    """Return the throughput at a recall, or another metric or numeric attribute of the point next to it."""
    if metric == "qps":
        low, high = at.interval or (math.nan, math.nan)
        return Value(at.qps, low, high, at)
    attrs = at.run.attrs
    if metric.startswith("wait_events."):
        return Value(waiting_share(attrs, metric.removeprefix("wait_events.").split("+")))
    found = at.run.metrics.get(metric, attrs.get(metric, math.nan))
    number = float(found) if isinstance(found, (int, float)) else math.nan
    names = ("recall_low", "recall_high") if metric == "recall" else ("", "")
    bounds = [float(attrs.get(name, math.nan)) for name in names]
    return Value(number, bounds[0], bounds[1])


def waiting_share(attrs: Mapping[str, Any], names: Collection[str]) -> float:
    """Return the share of samples in which sessions waited for events or types of events; nan if unknown."""
    shares = from_json(attrs.get("wait_events"), dict[str, Any]())
    waited = [share for event, share in shares.items() if {event, *event.split(":")} & {*names}]
    return float(sum(waited)) if shares else math.nan


def value_of_record(record: Record, path: str) -> Value:
    """Follow a path such as writing.queries.p99 from the name of a phase to a number, or to nan."""
    phase, *steps = path.split(".")
    at: Any = record.phase(phase)
    holder: Any = None
    for step in steps:
        holder, at = at, at.get(step) if isinstance(at, dict) else getattr(at, step, None)
    if not isinstance(at, (int, float)):
        return Value(math.nan)
    if isinstance(holder, Rate) and steps[-1] == "per_second":
        return Value(float(at), holder.low, holder.high, rate=holder)
    return Value(float(at))


def selected(selection: Mapping[str, Any], points: Iterable[StepPoint]) -> list[StepPoint]:
    """Return the points that a selection means: of one server without pooler, unless it names others."""
    named = {**{field.id: field.default for field in chosen_fields("servers") if field.label}, **selection}
    return [point for point in points if all(point.matches(*each) for each in named.items())]


def is_part(value: Any, arguments: Sequence[Any]) -> bool:
    """Whether build or query arguments hold some values of a mapping, or are a whole list."""
    if isinstance(value, dict):
        given = [argument for argument in arguments if isinstance(argument, dict)]
        return any(all(each.get(k) == v for k, v in value.items()) for each in given)
    return list(arguments) == (value if isinstance(value, list) else [value])

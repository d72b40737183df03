"""What each index costs on each server that it was measured on, and whether it keeps an objective there."""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import three_digits
from ann_benchmarks.results.at_recall import AtRecall, at_recall, is_known, may_reach
from ann_benchmarks.results.built import built_index
from ann_benchmarks.results.comparable import family, is_open
from ann_benchmarks.results.equal_recall import WITHIN
from ann_benchmarks.results.intervals import Interval
from ann_benchmarks.results.runs import Run, interval, number
from ann_benchmarks.results.series import Series

from .prices import PriceList, Quote
from .servers import MeasuredServer, capacity_of, server_of
from .target import Kept, ServiceTarget, all_of, at_least, at_most

MILLISECONDS = 1e3


@dataclass(frozen=True)
class ServerCost:
    """An index on a server under one load: what it does there, whether that suffices, and the price.

    `rate` is in queries/s; at one that was given, `is_given`, there is no interval. `why` says what is not
    kept, and `unpriced` why there is no quote. `moved_to` is the recall of a rate between those of results,
    which has the latencies of none of them; None for the rate of `run` itself.
    """

    run: Run
    server: MeasuredServer
    rate: float
    rate_interval: Interval | None
    is_bound: bool
    is_given: bool
    kept: Kept
    why: str
    quote: Quote | None
    unpriced: str
    moved_to: float | None = None

    @property
    def recall(self) -> float:
        """The recall at this rate."""
        return self.run.metrics["recall"] if self.moved_to is None else self.moved_to

    @property
    def algorithm(self) -> str:
        """What a comparison is between."""
        return family(self.run)

    @property
    def price(self) -> float:
        """The price of a month, infinite where it is not known."""
        return math.inf if self.quote is None else self.quote.price

    def queries(self, prices: PriceList) -> float | None:
        """Return the queries for one unit of the currency, at this rate all month; None without a price."""
        return None if self.quote is None else self.rate * prices.seconds / self.quote.price

    def queries_interval(self, prices: PriceList) -> Interval | None:
        """Return the interval of that, which is that of the rate."""
        if self.quote is None or self.rate_interval is None:
            return None
        times = prices.seconds / self.quote.price
        return Interval(self.rate_interval.low * times, self.rate_interval.high * times)


@dataclass(frozen=True)
class _Outcome:
    run: Run
    rate: float
    rate_interval: Interval | None
    is_bound: bool
    verdicts: Sequence[tuple[Kept, str]]  # with what they are about
    moved_to: float | None = None

    @property
    def kept(self) -> Kept:
        return all_of([kept for kept, _ in self.verdicts])

    @property
    def why(self) -> str:
        """What is not kept, or not surely."""
        kept = self.kept
        return "; ".join(text for one, text in self.verdicts if one == kept < Kept.YES)


def is_plain(run: Run) -> bool:
    """Whether nothing but clients, rate and tier is special: no batch, cold start or skewed queries."""
    of = run.series
    usual = Series(
        of.algorithm, of.version, clients=of.clients, rate=of.rate, objective=of.objective, driver=of.driver,
        tier_method=of.tier_method, tier_cpus=of.tier_cpus, tier_disk=of.tier_disk,
        tier_memory=of.tier_memory, environment=of.environment, filter=of.filter,
        post_filter=of.post_filter, settings=of.settings,
    )  # fmt: skip
    return of == usual and is_known(run)


def server_costs(runs: Iterable[Run], target: ServiceTarget, prices: PriceList) -> list[ServerCost]:
    """Return the cost of each index on each server under each load, the cheapest first.

    Runs of one index, server and number of clients are one entry: in a closed loop at the recall, else at
    the highest rate that suffices.
    """
    groups: dict[Hashable, list[Run]] = {}
    for run in runs:
        if is_plain(run):
            groups.setdefault((server_of(run), is_open(run), _index(run)), []).append(run)
    found = [_cost(group, target, prices) for group in groups.values()]
    return sorted(found, key=lambda cost: (cost.price, not cost.server.is_simulated, -cost.kept, -cost.rate))


def _index(run: Run) -> Hashable:
    """Return what identifies an index and how it is queried, whatever the rate."""
    series = replace(run.series, rate=None, objective="")
    return run.dataset, run.count, series.label, *built_index(run)[1:]


def _cost(group: Sequence[Run], target: ServiceTarget, prices: PriceList) -> ServerCost:
    found = _open_outcome(group, target) if is_open(group[0]) else _closed_outcome(group, target)
    server = server_of(found.run)
    quote, unpriced = None, ""
    try:
        quote = prices.quote(capacity_of(found.run))
    except UserError as error:
        unpriced = str(error)
    return ServerCost(
        run=found.run,
        server=server,
        rate=found.rate,
        rate_interval=found.rate_interval,
        is_bound=found.is_bound,
        is_given=is_open(found.run),
        kept=found.kept,
        why=found.why,
        quote=quote,
        unpriced=unpriced,
        moved_to=found.moved_to,
    )


def _closed_outcome(group: Sequence[Run], target: ServiceTarget) -> _Outcome:
    """Return the throughput at the recall, of the results that keep the latency where some do."""
    reaching = [run for run in group if may_reach(run, target.recall)]
    if not reaching:
        return _short_of_recall(group)
    if target.latency is None:
        chosen = [list(group)]  # those below the recall show the line that leads to it
    else:
        kept = [(run, _latency(run, target)[0]) for run in reaching]
        chosen = [[run for run, verdict in kept if verdict >= least] for least in (Kept.YES, Kept.UNSURE)]
    standing = [at for runs in chosen for at in at_recall({0: runs}, target.recall).values()]
    outcomes = [_closed_at(at, target) for at in standing]
    if not outcomes:  # nothing keeps the latency
        best = min(reaching, key=lambda run: _milliseconds(run, target))
        rate, bounds = best.metrics["qps"], interval(best, "qps")
        return _Outcome(best, rate, bounds, False, [_latency(best, target), *_rates(rate, bounds, target)])
    return max(outcomes, key=lambda outcome: (outcome.kept, outcome.rate))


def _closed_at(at: AtRecall, target: ServiceTarget) -> _Outcome:
    verdicts = _rates(at.qps, at.interval, target)
    if at.is_bound:  # at the target itself, it may be faster
        verdicts = [(max(kept, Kept.UNSURE), text) for kept, text in verdicts]
    if at.standing.reach == WITHIN:
        verdicts.append(_within(at.run))
    if target.latency is not None:
        verdicts.append(_latency(at.run, target))
    moved_to = target.recall if at.is_moved else None
    return _Outcome(at.run, at.qps, at.interval, at.is_bound, verdicts, moved_to)


def _open_outcome(group: Sequence[Run], target: ServiceTarget) -> _Outcome:
    """Return the highest rate that suffices, of those at which the queries came."""
    reaching = [run for run in group if may_reach(run, target.recall)]
    if not reaching:
        return _short_of_recall(group)
    outcomes = []
    for run in reaching:
        rate = number(run, "rate") or run.series.rate or run.metrics["qps"]
        verdicts = _rates(rate, Interval(rate, rate), target)
        if run.attrs.get("queries_unanswered") or run.attrs.get("steady_state") is False:
            verdicts.append((Kept.NO, f"the rate of {three_digits(rate)} queries/s was not kept"))
        if run.metrics["recall"] < target.recall:
            verdicts.append(_within(run))
        if target.latency is not None:
            verdicts.append(_latency(run, target))
        outcomes.append(_Outcome(run, rate, None, False, verdicts))
    return max(outcomes, key=lambda outcome: (outcome.kept, outcome.rate))


def _short_of_recall(group: Sequence[Run]) -> _Outcome:
    best = max(group, key=lambda run: run.metrics["recall"])
    verdict = Kept.NO, f"recall {best.metrics['recall']:.4f}"
    return _Outcome(best, best.metrics["qps"], interval(best, "qps"), False, [verdict])


def _within(run: Run) -> tuple[Kept, str]:
    return Kept.UNSURE, f"recall {run.metrics['recall']:.4f} (its interval reaches the target)"


def _rates(rate: float, bounds: Interval | None, target: ServiceTarget) -> list[tuple[Kept, str]]:
    if target.rate is None:
        return []
    return [(at_least(rate, bounds, target.rate), f"{three_digits(rate)} queries/s")]


def _latency(run: Run, target: ServiceTarget) -> tuple[Kept, str]:
    """Say whether a result keeps the latency; one that too few queries show is not kept."""
    assert target.latency is not None
    name, value = target.latency.percentile, _milliseconds(run, target)
    if not math.isfinite(value):
        return Kept.NO, f"{name} is not known, for want of queries"
    bound = target.latency.seconds * MILLISECONDS
    return at_most(value, interval(run, name), bound), f"{name} {three_digits(value)} ms"


def _milliseconds(run: Run, target: ServiceTarget) -> float:
    """Return the percentile of the objective, infinite where it is not known."""
    assert target.latency is not None
    value = run.metrics[target.latency.percentile]
    return value if math.isfinite(value) else math.inf

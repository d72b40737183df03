"""What a service must achieve, and what each index costs on each server that it was measured on."""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import three_digits
from ann_benchmarks.load.request import Objective
from ann_benchmarks.results.at_recall import AtRecall, built_index, find_at_recall, is_known, may_reach
from ann_benchmarks.results.runs import Run, interval, number
from ann_benchmarks.statistics.intervals import Interval
from ann_benchmarks.statistics.speeds import WITHIN

from .prices import PriceList, Quote, read_prices
from .servers import MeasuredServer, measured_server, needed_capacity

MILLISECONDS = 1e3
Verdict = tuple["Kept", str]  # with what it is about


class Kept(IntEnum):
    """Whether an objective is kept: beyond noise or not, or noise hides it."""

    NO = 0
    UNSURE = 1
    YES = 2

    def __str__(self) -> str:
        return ("no", "not sure", "yes")[self]


@dataclass(frozen=True)
class ServiceTarget:
    """A recall, the bound of a percentile of the latencies, and queries/s; None: no bound."""

    recall: float
    latency: Objective | None = None
    rate: float | None = None

    @property
    def is_recall_alone(self) -> bool:
        """Whether a server keeps it however slow it is."""
        return self.latency is None and self.rate is None

    def __str__(self) -> str:
        parts = [f"a recall of at least {self.recall:g}"]
        if self.latency is not None:
            bound = three_digits(1e3 * self.latency.seconds)
            parts.append(f"{self.latency.percentile} of at most {bound} ms")
        if self.rate is not None:
            parts.append(f"at least {three_digits(self.rate)} queries/s")
        return ", ".join(parts[:-1]) + (" and " if parts[1:] else "") + parts[-1]


@dataclass(frozen=True)
class CostRequest:
    """Prices, and what beside the recall a server must achieve that is priced with them."""

    prices: PriceList
    latency: Objective | None = None
    rate: float | None = None

    def target(self, recall: float) -> ServiceTarget:
        """Return all that must be achieved."""
        return ServiceTarget(recall, self.latency, self.rate)


def cost_request(prices: Path | None, latency: Objective | None, rate: float | None) -> CostRequest | None:
    """Return what servers are priced with, None without prices; UserError for an objective without any."""
    if prices is not None:
        return CostRequest(read_prices(prices), latency, rate)
    if latency is not None or rate is not None:
        option = "--slo" if latency is not None else "--target-rate"
        raise UserError(f"{option} says what a server must achieve that is priced: add --prices FILE")
    return None


def judge_at_most(value: float, interval: Interval | None, bound: float) -> Kept:
    """Whether a figure is at most a bound, with its interval where that is known."""
    if interval is None:
        return Kept.UNSURE if value <= bound else Kept.NO
    if interval.low > bound:
        return Kept.NO
    return Kept.YES if interval.high <= bound else Kept.UNSURE


def judge_at_least(value: float, interval: Interval | None, bound: float) -> Kept:
    """Whether a figure is at least a bound, with its interval where that is known."""
    opposite = None if interval is None else Interval(-interval.high, -interval.low)
    return judge_at_most(-value, opposite, -bound)


@dataclass(frozen=True)
class ServerCost:
    """An index on a server under one load: what it does there, whether that suffices, and the price.

    `rate` is in queries/s; one that was given has no interval. `unpriced` says why a quote is lacking.
    `moved_to` is the recall of a rate between those of results, which has the latencies of none of them; None
    for the rate of `run` itself.
    """

    run: Run
    rate: float
    rate_interval: Interval | None
    verdicts: Sequence[Verdict]
    is_bound: bool = False
    moved_to: float | None = None
    quote: Quote | None = None
    unpriced: str = ""

    @property
    def server(self) -> MeasuredServer:
        """Where it was measured."""
        return measured_server(self.run)

    @property
    def is_given(self) -> bool:
        """Whether queries came at a rate that was given."""
        return self.run.series.is_open

    @property
    def kept(self) -> Kept:
        """Whether everything is kept."""
        return min((kept for kept, _ in self.verdicts), default=Kept.YES)

    @property
    def reason(self) -> str:
        """What is not kept, or not surely."""
        kept = self.kept
        return "; ".join(text for one, text in self.verdicts if one == kept < Kept.YES)

    @property
    def recall(self) -> float:
        """The recall at this rate."""
        return self.run.metrics["recall"] if self.moved_to is None else self.moved_to

    @property
    def algorithm(self) -> str:
        """What a comparison is between."""
        return self.run.series.family

    @property
    def place(self) -> str:
        """The index and its server."""
        return f"{self.algorithm} on {self.server.name}"

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


def is_plain(run: Run) -> bool:
    """Whether nothing but clients, rate and tier is special: no batch, cold start or skewed queries."""
    loads = "clients", "rate", "objective", "driver"
    return is_known(run) and run.series.is_plain_but_for(
        "algorithm", "settings", "strategy", *loads, "filter", "tier", "environment"
    )


def server_costs(runs: Iterable[Run], target: ServiceTarget, prices: PriceList) -> list[ServerCost]:
    """Return the cost of each index on each server under each load, the cheapest first.

    Runs of one index, server and number of clients are one entry: in a closed loop at the recall, else at
    the highest rate that suffices.
    """
    groups: dict[Hashable, list[Run]] = {}
    for run in runs:
        if is_plain(run):
            groups.setdefault((measured_server(run), run.series.is_open, _index(run)), []).append(run)
    found = []
    for group in groups.values():
        cost = _open_cost(group, target) if group[0].series.is_open else _closed_cost(group, target)
        try:
            found.append(replace(cost, quote=prices.quote(needed_capacity(cost.run))))
        except UserError as error:
            found.append(replace(cost, unpriced=str(error)))
    return sorted(found, key=lambda cost: (cost.price, not cost.server.is_simulated, -cost.kept, -cost.rate))


def _index(run: Run) -> Hashable:
    """Return what identifies an index and how it is queried, whatever the rate."""
    series = run.series.drop("rate", "objective")
    return run.dataset, run.count, series.label, *built_index(run)[1:]


def _closed_cost(group: Sequence[Run], target: ServiceTarget) -> ServerCost:
    """Return the throughput at the recall, of the results that keep the latency where some do."""
    reaching = [run for run in group if may_reach(run, target.recall)]
    if not reaching:
        return _short_of_recall(group)
    if target.latency is None:
        chosen = [list(group)]  # those below the recall show the line that leads to it
    else:
        kept = [(run, _latency(run, target)[0]) for run in reaching]
        chosen = [[run for run, verdict in kept if verdict >= least] for least in (Kept.YES, Kept.UNSURE)]
    standing = [at for runs in chosen for at in find_at_recall({0: runs}, target.recall).values()]
    costs = [_closed_at(at, target) for at in standing]
    if not costs:  # nothing keeps the latency
        best = min(reaching, key=lambda run: _milliseconds(run, target))
        rate, bounds = best.metrics["qps"], interval(best, "qps")
        return ServerCost(best, rate, bounds, [_latency(best, target), *_rates(rate, bounds, target)])
    return max(costs, key=lambda cost: (cost.kept, cost.rate))


def _closed_at(at: AtRecall, target: ServiceTarget) -> ServerCost:
    verdicts = _rates(at.qps, at.interval, target)
    if at.is_bound:  # at the target itself, it may be faster
        verdicts = [(max(kept, Kept.UNSURE), text) for kept, text in verdicts]
    if at.standing.reach == WITHIN:
        verdicts.append(_within(at.run))
    if target.latency is not None:
        verdicts.append(_latency(at.run, target))
    moved_to = target.recall if at.is_moved else None
    return ServerCost(at.run, at.qps, at.interval, verdicts, at.is_bound, moved_to)


def _open_cost(group: Sequence[Run], target: ServiceTarget) -> ServerCost:
    """Return the highest rate that suffices, of those at which the queries came."""
    reaching = [run for run in group if may_reach(run, target.recall)]
    if not reaching:
        return _short_of_recall(group)
    costs = []
    for run in reaching:
        rate = number(run, "rate") or run.series.rate or run.metrics["qps"]
        verdicts = _rates(rate, Interval(rate, rate), target)
        if run.attrs.get("queries_unanswered") or run.attrs.get("steady_state") is False:
            verdicts.append((Kept.NO, f"the rate of {three_digits(rate)} queries/s was not kept"))
        if run.metrics["recall"] < target.recall:
            verdicts.append(_within(run))
        if target.latency is not None:
            verdicts.append(_latency(run, target))
        costs.append(ServerCost(run, rate, None, verdicts))
    return max(costs, key=lambda cost: (cost.kept, cost.rate))


def _short_of_recall(group: Sequence[Run]) -> ServerCost:
    best = max(group, key=lambda run: run.metrics["recall"])
    verdict = Kept.NO, f"recall {best.metrics['recall']:.4f}"
    return ServerCost(best, best.metrics["qps"], interval(best, "qps"), [verdict])


def _within(run: Run) -> Verdict:
    return Kept.UNSURE, f"recall {run.metrics['recall']:.4f} (its interval reaches the target)"


def _rates(rate: float, bounds: Interval | None, target: ServiceTarget) -> list[Verdict]:
    if target.rate is None:
        return []
    return [(judge_at_least(rate, bounds, target.rate), f"{three_digits(rate)} queries/s")]


def _latency(run: Run, target: ServiceTarget) -> Verdict:
    """Say whether a result keeps the latency; one that too few queries show is not kept."""
    assert target.latency is not None
    name, value = target.latency.percentile, _milliseconds(run, target)
    if not math.isfinite(value):
        return Kept.NO, f"{name} is not known, for want of queries"
    bound = target.latency.seconds * MILLISECONDS
    return judge_at_most(value, interval(run, name), bound), f"{name} {three_digits(value)} ms"


def _milliseconds(run: Run, target: ServiceTarget) -> float:
    """Return the percentile of the objective, infinite where it is not known."""
    assert target.latency is not None
    value = run.metrics[target.latency.percentile]
    return value if math.isfinite(value) else math.inf

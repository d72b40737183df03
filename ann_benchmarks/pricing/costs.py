"""What a service must achieve, and what each index costs on each server that it was measured on."""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import three_digits
from ann_benchmarks.load.request import Objective
from ann_benchmarks.results.at_recall import AtRecall, built_index, find_at_recall, is_known, may_reach
from ann_benchmarks.results.runs import Run, interval, number
from ann_benchmarks.results.sessions import session_noise
from ann_benchmarks.statistics.intervals import Interval, interval_text
from ann_benchmarks.statistics.judging import Doubts, Judgement
from ann_benchmarks.statistics.speeds import EXACT

from .prices import PriceList, Quote, read_prices
from .servers import MeasuredServer, measured_server, needed_capacity

MILLISECONDS = 1e3
MOST_TIMES = 3.0  # the bound: further off, a figure helps nobody
Verdict = tuple[Judgement, str]  # with what it is about


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
    def kept(self) -> Judgement:
        """Whether everything is kept."""
        return min((kept for kept, _ in self.verdicts), default=Judgement.YES)

    @property
    def reason(self) -> str:
        """What is not kept, or not surely."""
        kept = self.kept
        return "; ".join(text for one, text in self.verdicts if one == kept < Judgement.YES)

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


def is_plain(run: Run) -> bool:
    """Whether nothing but clients, rate and tier is special: no batch, cold start or skewed queries."""
    loads = "clients", "rate", "objective", "driver"
    return is_known(run) and run.series.is_plain_but_for(
        "algorithm", "settings", "strategy", *loads, "filter", "tier", "environment"
    )


def server_costs(
    runs: Iterable[Run], target: ServiceTarget, prices: PriceList, doubts: Doubts | None = None
) -> list[ServerCost]:
    """Return the cost of each index on each server under each load, the cheapest first.

    Runs of one index, server and number of clients are one entry: in a closed loop at the recall, else at
    the highest rate that suffices. All of them are judged together.
    """
    groups: dict[Hashable, list[Run]] = {}
    for run in filter(is_plain, runs):
        groups.setdefault((measured_server(run), run.series.is_open, _index(run)), []).append(run)
    doubts = doubts or study_doubts(run for group in groups.values() for run in group)
    service = _Service(target, doubts.shared(len(groups)))
    found = []
    for group in groups.values():
        cost = service.open_cost(group) if group[0].series.is_open else service.closed_cost(group)
        try:
            found.append(replace(cost, quote=prices.quote(needed_capacity(cost.run))))
        except UserError as error:
            found.append(replace(cost, unpriced=str(error)))
    return sorted(found, key=lambda cost: (cost.price, not cost.server.is_simulated, -cost.kept, -cost.rate))


def study_doubts(runs: Iterable[Run]) -> Doubts:
    """Return the doubts of all statements about results."""
    return Doubts(session_noise(runs))


def _index(run: Run) -> Hashable:
    """Return what identifies an index and how it is queried, whatever the rate."""
    series = run.series.drop("rate", "objective")
    return run.dataset, run.count, series.label, *built_index(run)[1:]


@dataclass(frozen=True)
class _Service:
    """What a service must achieve, and the doubts of saying that it does."""

    target: ServiceTarget
    doubts: Doubts

    def closed_cost(self, group: Sequence[Run]) -> ServerCost:
        """Return the throughput at the recall, of the results that keep the latency where some do."""
        reaching = [run for run in group if may_reach(run, self.target.recall)]
        if not reaching:
            return _short_of_recall(group)
        # Those below the recall show the line that leads to it.
        chosen = [list(group)]
        if self.target.latency is not None:
            kept = [(run, self._latency(run)[0][0]) for run in group]
            sure = Judgement.YES, Judgement.UNSURE
            chosen = [[run for run, verdict in kept if verdict >= least] for least in sure]
        costs = [
            self._closed_at(at, runs)
            for runs in chosen
            for at in find_at_recall({0: runs}, self.target.recall).values()
        ]
        if not costs:  # nothing keeps the latency
            best = min(reaching, key=lambda run: _milliseconds(run, self.target))
            rate, bounds = best.metrics["qps"], interval(best, "qps")
            return ServerCost(best, rate, bounds, [*self._latency(best), *self._rate(rate, bounds)])
        return max(costs, key=lambda cost: (cost.kept, cost.rate))

    def _closed_at(self, at: AtRecall, runs: Sequence[Run]) -> ServerCost:
        verdicts = self._rate(at.qps, at.interval)
        if at.is_bound:  # at the target itself, it may be faster
            verdicts = [(max(kept, Judgement.UNSURE), text) for kept, text in verdicts]
        if at.standing.reach != EXACT:
            verdicts.append((max(self._recall(run)[0] for run in runs), self._recall(at.run)[1]))
        moved_to = self.target.recall if at.is_moved else None
        return ServerCost(
            at.run, at.qps, at.interval, [*verdicts, *self._latency(at.run)], at.is_bound, moved_to
        )

    def open_cost(self, group: Sequence[Run]) -> ServerCost:
        """Return the highest rate that suffices, of those at which the queries came."""
        reaching = [run for run in group if may_reach(run, self.target.recall)]
        if not reaching:
            return _short_of_recall(group)
        costs: list[tuple[bool, ServerCost]] = []
        for run in reaching:
            rate = number(run, "rate") or run.series.rate or run.metrics["qps"]
            verdicts = self._rate(rate, Interval(rate, rate))
            is_steady = not run.attrs.get("queries_unanswered") and run.attrs.get("steady_state") is not False
            if not is_steady:
                # Another session may keep it, which matters where it would suffice.
                is_clear = not verdicts or verdicts[0][0] == Judgement.NO
                kept = Judgement.NO if is_clear else Judgement.UNSURE
                verdicts = [(kept, f"the rate of {three_digits(rate)} queries/s was not kept")]
            verdicts += [self._recall(run), *self._latency(run)]
            costs.append((is_steady, ServerCost(run, rate, None, verdicts)))
        return max(costs, key=lambda found: (found[1].kept, found[0], found[1].rate))[1]

    def _recall(self, run: Run) -> Verdict:
        """Whether the recall of all such queries suffices."""
        value, bounds = run.metrics["recall"], interval(run, "recall")
        kept = self.doubts.alike_sessions.judge_least(value, bounds, self.target.recall)
        text = f"recall {value:.4f}{interval_text(bounds, '{:.4f}'.format)}: more queries tell"
        return max(kept, Judgement.UNSURE), text

    def _rate(self, rate: float, bounds: Interval | None) -> list[Verdict]:
        least = self.target.rate
        if least is None:
            return []
        kept, text = self.doubts.judge_least(rate, bounds, least), f"{three_digits(rate)} queries/s"
        low = self.doubts.interval(rate, bounds).low
        return [(kept, text + _sure_at(kept, bounds, least, rate / low if low else math.inf))]

    def _latency(self, run: Run) -> list[Verdict]:
        """Say whether a result keeps the latency; one that too few queries show is not kept."""
        if self.target.latency is None:
            return []
        name, value = self.target.latency.percentile, _milliseconds(run, self.target)
        if not math.isfinite(value):
            return [(Judgement.NO, f"{name} is not known, for want of queries")]
        bound, bounds = self.target.latency.seconds * MILLISECONDS, interval(run, name)
        kept, text = self.doubts.judge_most(value, bounds, bound), f"{name} {three_digits(value)} ms"
        return [
            (kept, text + _sure_at(kept, bounds, bound, value / self.doubts.interval(value, bounds).high))
        ]


def _sure_at(kept: Judgement, known: Interval | None, bound: float, times: float) -> str:
    """Say which figure would settle it, as times the bound, where it is not settled and that is not far."""
    is_near = kept == Judgement.UNSURE and known is not None and 1 / MOST_TIMES < times < MOST_TIMES
    return f", sure at {three_digits(bound * times)}" if is_near else ""


def _short_of_recall(group: Sequence[Run]) -> ServerCost:
    best = max(group, key=lambda run: run.metrics["recall"])
    verdict = Judgement.NO, f"recall {best.metrics['recall']:.4f}"
    return ServerCost(best, best.metrics["qps"], interval(best, "qps"), [verdict])


def _milliseconds(run: Run, target: ServiceTarget) -> float:
    """Return the percentile of the objective, infinite where it is not known."""
    assert target.latency is not None
    value = run.metrics[target.latency.percentile]
    return value if math.isfinite(value) else math.inf

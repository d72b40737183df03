"""What servers cost: the cheapest that keeps an objective, a table for people, rows for other programs."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ann_benchmarks.common.numbers import UNKNOWN, counted, figure_text, three_digits
from ann_benchmarks.pricing.costs import (
    CostRequest,
    ServerCost,
    ServiceTarget,
    is_plain,
    server_costs,
    study_doubts,
)
from ann_benchmarks.pricing.prices import LOCAL, PriceList, Quote
from ann_benchmarks.pricing.servers import STORAGE_MARGIN, capacity_text
from ann_benchmarks.results.at_recall import LOWER_BOUND
from ann_benchmarks.results.metrics import all_metrics
from ann_benchmarks.results.runs import Run, interval
from ann_benchmarks.results.sessions import session_text
from ann_benchmarks.statistics.intervals import interval_text
from ann_benchmarks.statistics.judging import Doubts, Judgement

from .builds import IndexNames
from .parts import Statement, Table, known_table, listed

NOT_PLAIN = "in batch mode, from cold caches, of skewed queries, with a payload or on several servers"
HOW_SWEPT = "python -m tiers sweep measures simulated servers"
MOST_NAMED = 5
MOST_ROWS = 40
FIELDS = (
    *("dataset", "count", "filter", "algorithm", "index", "server", "is_simulated", "cpus", "memory_bytes"),
    *("iops", "bandwidth", "clients", "rate_was_given", "parameters", "recall", "qps", "qps_low", "qps_high"),
    *("p50_ms", "p95_ms", "p99_ms", "p999_ms", "objective", "kept", "why", "instance", "storage"),
    *("storage_gb", "currency", "month", "unpriced", "prices", "prices_date", "prices_source"),
)
PERCENTILES = ("p50", "p95", "p99", "p999")


@dataclass(frozen=True)
class CostAnswer:
    """What the results of one dataset, number of neighbours and filter cost, the cheapest first."""

    dataset: str
    count: int
    filter: str
    target: ServiceTarget
    prices: PriceList
    costs: Sequence[ServerCost]
    others: int  # results that are not priced, because something else is special about them
    doubts: Doubts

    @property
    def title(self) -> str:
        """Which results it is about."""
        return f"{self.dataset}, k = {self.count}"

    @property
    def percentile(self) -> str:
        """The percentile of latencies that matters."""
        return "p99" if self.target.latency is None else self.target.latency.percentile

    @property
    def statements(self) -> list[Statement]:
        """The answer first, then what it rests on."""
        said = {
            "Cheapest server": cheapest(self),
            "Without a price": list_unpriced(self),
            "Prices": origin(self),
        }
        return [Statement(about, text) for about, text in said.items() if text]


def cost_answers(runs: Iterable[Run], target: float, request: CostRequest) -> list[CostAnswer]:
    """Return what the results of each dataset, number of neighbours and filter cost at a recall."""
    places: dict[tuple[str, int, str], list[Run]] = {}
    for run in runs:
        places.setdefault((run.dataset, run.count, run.series.filter), []).append(run)
    aim, prices = request.target(target), request.prices
    found = []
    for place, here in sorted(places.items()):
        plain = list(filter(is_plain, here))
        doubts = study_doubts(plain)
        costs = server_costs(plain, aim, prices, doubts)
        others = len(here) - len(plain)
        found.append(CostAnswer(*place, aim, prices, costs, others, doubts.shared(len(costs))))
    return found


def cheapest(answer: CostAnswer) -> str:
    """Name the cheapest server that keeps the objective, and how sure that is."""
    priced = [cost for cost in answer.costs if cost.quote]
    sure, unsure = ([one for one in priced if one.kept == kept] for kept in (Judgement.YES, Judgement.UNSURE))
    objective = f"the objective ({answer.target})"
    if not sure and not unsure:
        return nothing_kept(answer, objective)
    found = (sure or unsure)[0]
    kind = "simulated server" if found.server.is_simulated else "measured server"
    lead = f"The cheapest {kind} that keeps {objective} is"
    if not sure:
        lead = f"No priced server certainly keeps {objective}. The cheapest {kind} that may keep it is"
    sentences = [f"{lead} {offer(found, answer.prices)}.", f"There {pace(found, answer.percentile)}."]
    if not sure:
        is_single = not found.rate_interval and not found.is_given
        sentences.append(f"In doubt: {found.reason}.")
        sentences += ["Three runs (run.py --runs 3) give the intervals."] if is_single else []
    elif cheaper := [cost for cost in unsure if cost.price < found.price]:
        names = [f"{cost.place}, {answer.prices.money(cost.price)} ({cost.reason})" for cost in cheaper]
        sentences.append(f"Cheaper, but perhaps not keeping it: {some(names)}.")
    if not answer.target.is_recall_alone:
        together = len(answer.costs)
        rows = f", and {counted(together, 'row')} are judged together" if together > 1 else ""
        sentences.append(f"{session_text(answer.doubts.sessions).capitalize()}{rows}.")
    if answer.target.latency is not None and not found.is_given:
        sentences.append(
            "Its latencies are those of clients that wait for each answer before they send the next query."
            " Queries that come at a rate can wait longer, which"
            f" run.py --slo {answer.target.latency} measures."
        )
    if answer.target.is_recall_alone:
        sentences.append(
            "Only the recall counts here, however slow a server is: --slo and --target-rate add what it must"
            " achieve."
        )
    if not any(cost.server.is_simulated for cost in answer.costs):
        sentences.append(f"No simulated server was measured: {HOW_SWEPT}.")
    elif all(cost.kept > Judgement.NO for cost in answer.costs) and may_be_smaller(answer, found):
        sentences.append("No server that was measured misses the objective: a smaller one may be cheaper.")
    return " ".join(sentences)


def may_be_smaller(answer: CostAnswer, found: ServerCost) -> bool:
    """Whether the prices have an instance that costs less."""
    return found.quote is not None and any(
        instance.price < found.quote.instance.price for instance in answer.prices.instances
    )


def nothing_kept(answer: CostAnswer, objective: str) -> str:
    """Say that no server is known to keep the objective at a price."""
    if not answer.costs:
        return f"No result can be priced: each is {NOT_PLAIN}."
    if any(cost.kept > Judgement.NO for cost in answer.costs):
        return f"No server that keeps {objective} has a price."
    best: dict[str, ServerCost] = {}
    for cost in sorted(answer.costs, key=lambda cost: -cost.rate):
        best.setdefault(cost.algorithm, cost)
    missed = some([f"{cost.place} ({cost.reason})" for cost in best.values()])
    return f"No server that was measured keeps {objective}. The most that each algorithm does: {missed}."


def list_unpriced(answer: CostAnswer) -> str:
    """Say which servers have no price, and why."""
    reasons: dict[str, list[str]] = {}
    for cost in answer.costs:
        if cost.unpriced:
            reasons.setdefault(cost.unpriced, []).append(cost.place)
    texts = [f"{some(names)}, because {reason}" for reason, names in reasons.items()]
    texts += [f"{counted(answer.others, 'result')} {NOT_PLAIN}"] if answer.others else []
    return f"{'; '.join(texts)}." if texts else ""


def origin(answer: CostAnswer) -> str:
    """Say whose prices these are, of which date, and what they are not."""
    prices = answer.prices
    processors = sorted({cost.server.processor for cost in answer.costs if cost.server.processor})
    measured = f" Measured on: {listed(processors)}." if processors else ""
    return (
        f"{prices.label}, as of {prices.date}, from {prices.source}. A price is that of the cheapest instance"
        " with at least the CPUs and memory of the measured server, and of storage for the table, the index"
        f" and {STORAGE_MARGIN:.0%} more, with at least the limits of its disk. It is for a server of this"
        " size: the instance itself was not measured, and its processor and disk may be faster or slower."
        f"{measured}"
    )


def cost_table(answer: CostAnswer) -> list[Table]:
    """Return the table of servers, the cheapest first; none where nothing can be priced."""
    costs, prices, percentile = answer.costs[:MOST_ROWS], answer.prices, answer.percentile
    if not costs:
        return []
    names, write = IndexNames(cost.run for cost in answer.costs), all_metrics[percentile].write
    cells: dict[str, list[str]] = {}
    for cost in costs:
        quote, run = cost.quote, cost.run
        tail = write(run.metrics[percentile]) + interval_text(interval(run, percentile), write)
        row = {
            "Server": cost.server.name,
            "Index": names.find(run),
            "Load": load_text(cost),
            "A month": prices.money(cost.price) if quote else UNKNOWN,
            "Keeps it": f"{cost.kept}{f': {cost.reason}' if cost.reason else ''}",
            "QPS": LOWER_BOUND * cost.is_bound + figure_text(cost.rate) + interval_text(cost.rate_interval),
            f"{percentile} (ms)": tail if cost.moved_to is None else UNKNOWN,
            "Has": capacity_text(cost.server),
            "Priced as": f"{quote.instance.name}, {storage_text(quote)}" if quote else UNKNOWN,
        }
        for name, cell in row.items():
            cells.setdefault(name, []).append(cell)
    load = f", {cells['Load'][0]}" if len(set(cells["Load"])) == 1 else ""
    rest = len(answer.costs) - MOST_ROWS
    more = f"; {counted(rest, 'more row')} in report.json" if rest > 0 else ""
    caption = f"Servers by price{load}: which keep {answer.target}{more}. {prices.label}, {prices.date}"
    words = frozenset({"Server", "Index", "Load", "Keeps it", "Has", "Priced as"})
    return [known_table(cells, caption, words, ["Load"])]


def cost_data(answer: CostAnswer) -> list[dict[str, Any]]:
    """Return what is known of each server as plain values, by the fields above; None: not known."""
    names, prices, target = IndexNames(cost.run for cost in answer.costs), answer.prices, str(answer.target)
    nothing: tuple[None, None] = (None, None)
    rows = []
    for cost in answer.costs:
        server, quote, run = cost.server, cost.quote, cost.run
        values = (
            *(answer.dataset, answer.count, answer.filter, cost.algorithm, names.find(run), server.name),
            *(server.is_simulated, server.cpus, server.memory, server.iops, server.bandwidth),
            *(run.series.clients, cost.is_given, run.parameters, cost.recall, cost.rate),
            *(cost.rate_interval or nothing),
            *(run.metrics[name] if cost.moved_to is None else None for name in PERCENTILES),
            *(target, str(cost.kept), cost.reason),
            *((quote.instance.name, quote.volume.name, quote.volume.gigabytes) if quote else (None,) * 3),
            *(prices.currency, quote.price if quote else None, cost.unpriced),
            *(prices.label, prices.date, prices.source),
        )
        rows.append(dict(zip(FIELDS, values, strict=True)))
    return rows


def costs_as_json(answers: Sequence[CostAnswer]) -> dict[str, Any] | None:
    """Return all of it for report.json, with the prices; None without any."""
    if not answers:
        return None
    return {
        "prices": asdict(answers[0].prices) | {"path": answers[0].prices.path.name},
        "answers": [
            {
                "dataset": answer.dataset,
                "count": answer.count,
                "filter": answer.filter,
                "objective": str(answer.target),
                "statements": [asdict(one) for one in answer.statements],
                "servers": cost_data(answer),
            }
            for answer in answers
        ],
    }


def offer(cost: ServerCost, prices: PriceList) -> str:
    """Write a server with its index and price."""
    assert cost.quote is not None
    instance, volume, price = cost.quote.instance, cost.quote.volume, prices.money
    of_storage = f", {price(volume.price)}" if volume.price else ""
    return (
        f"{cost.server.name} ({capacity_text(cost.server)}) with {cost.algorithm}:"
        f" {price(cost.price)} a month as {instance.name} ({counted(instance.vcpus, 'vCPU')},"
        f" {instance.memory:g} GB, {price(instance.price)}) and {storage_text(cost.quote)}{of_storage}"
    )


def storage_text(quote: Quote) -> str:
    """Write the storage that is rented."""
    volume = quote.volume
    if volume.name == LOCAL:
        return f"its {LOCAL} of {volume.gigabytes:,g} GB"
    more = [f"{volume.more_iops:,g} more IOPS"] if volume.more_iops else []
    more += [f"{volume.more_throughput:,g} more MB/s"] if volume.more_throughput else []
    return f"{volume.gigabytes:,g} GB of {volume.name}" + (f" with {listed(more)}" if more else "")


def pace(cost: ServerCost, percentile: str) -> str:
    """Write what an index does on a server."""
    bound = LOWER_BOUND * cost.is_bound
    rate = f"{bound}{three_digits(cost.rate)} queries/s{interval_text(cost.rate_interval, three_digits)}"
    found = f"it answers {rate} {load_text(cost)}, recall {cost.recall:.3f}"
    if cost.moved_to is not None:  # nothing has measured its latencies
        return f"{found}, a figure between measured points"
    value, bounds = cost.run.metrics[percentile], interval(cost.run, percentile)
    tail = f", {percentile} {three_digits(value)} ms{interval_text(bounds, three_digits)}"
    return found + tail * math.isfinite(value)


def load_text(cost: ServerCost) -> str:
    """Write who sends the queries."""
    clients = counted(cost.run.series.clients or 1, "client")
    return f"with {clients}{', at a given rate' * cost.is_given}"


def some(texts: Sequence[str]) -> str:
    """List texts, each once, not too many of them."""
    texts = list(dict.fromkeys(texts))
    more = f" and {len(texts) - MOST_NAMED} more" if len(texts) > MOST_NAMED else ""
    return f"{'; '.join(texts[:MOST_NAMED])}{more}"

"""Costs in a report: the section with its table, and the same for other programs as CSV and JSON."""

import csv
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ann_benchmarks.common.numbers import UNKNOWN, counted
from ann_benchmarks.pricing.costs import ServerCost
from ann_benchmarks.pricing.prices import PriceList
from ann_benchmarks.pricing.servers import capacity_text
from ann_benchmarks.statistics.intervals import Interval
from ann_benchmarks.views.parts import known_table

from .builds import IndexNames
from .cost_words import load_text, percentile_text, queries_text, rate_text, storage_text
from .costs import CostAnswer
from .document import Block, Heading, Items, Line, Paragraph, Strong

FILE = "costs.csv"
MOST_ROWS = 40
FIELDS = (
    *("dataset", "count", "filter", "algorithm", "index", "server", "is_simulated", "cpus", "memory_bytes"),
    *("iops", "bandwidth", "clients", "rate_was_given", "parameters", "recall", "qps", "qps_low", "qps_high"),
    *("p50_ms", "p95_ms", "p99_ms", "p999_ms", "objective", "kept", "why", "instance", "storage"),
    *("storage_gb", "currency", "month", "queries_per_unit", "queries_per_unit_low", "queries_per_unit_high"),
    *("unpriced", "prices", "prices_date", "prices_source"),
)


def cost_blocks(answers: Sequence[CostAnswer]) -> list[Block]:
    """Return the section: for each dataset, number of neighbours and filter the sentences, then the table."""
    blocks: list[Block] = []
    for answer in answers:
        title = "What it costs"
        if len({(one.dataset, one.count) for one in answers}) > 1:
            title += f": {answer.dataset}, k = {answer.count}"
        title += f", under the filter {answer.filter}" if answer.filter else ""
        items: list[Line] = [[Strong(f"{one.about}:"), f" {one.text}"] for one in answer.statements]
        blocks += [Heading(2, title), Items(items), *cost_table(answer)]
    if answers:
        blocks += [Paragraph(note, is_note=True) for note in answers[0].prices.notes]
    return blocks


def cost_table(answer: CostAnswer) -> list[Block]:
    """Return the table of servers, the cheapest first."""
    costs = answer.costs[:MOST_ROWS]
    if not costs:
        return []
    names, prices = IndexNames(cost.run for cost in answer.costs), answer.prices
    percentile = "p99" if answer.target.latency is None else answer.target.latency.percentile
    loads = [load_text(cost) for cost in costs]
    columns = {
        "Server": [cost.server.name for cost in costs],
        "Index": [names.of(cost.run) for cost in costs],
        **({"Load": loads} if len(set(loads)) > 1 else {}),
        "A month": [prices.money(cost.price) if cost.quote else UNKNOWN for cost in costs],
        "Keeps it": [f"{cost.kept}{f': {cost.why}' if cost.why else ''}" for cost in costs],
        "QPS": [rate_text(cost) for cost in costs],
        f"{percentile} (ms)": [percentile_text(cost, percentile) for cost in costs],
        f"Queries per {prices.currency}": [queries_cell(cost, prices) for cost in costs],
        "Has": [capacity_text(cost.server) for cost in costs],
        "Priced as": [
            f"{cost.quote.instance.name}, {storage_text(cost.quote)}" if cost.quote else UNKNOWN
            for cost in costs
        ],
    }
    words = frozenset({"Server", "Index", "Load", "Keeps it", "Has", "Priced as"})
    rest = len(answer.costs) - MOST_ROWS
    more = f"; {counted(rest, 'more row')} in {FILE}" if rest > 0 else ""
    load = f", {loads[0]}" if len(set(loads)) == 1 else ""
    caption = f"Servers by price{load}: which keep {answer.target}{more}. {prices.label}, {prices.date}"
    return [known_table(columns, caption, words)]


def queries_cell(cost: ServerCost, prices: PriceList) -> str:
    """Write the queries for one unit of the currency, with their interval."""
    value = cost.queries(prices)
    return UNKNOWN if value is None else queries_text(value, cost.queries_interval(prices))


def write_costs(path: Path, answers: Sequence[CostAnswer]) -> None:
    """Write a line for each server, index and load."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        for answer in answers:
            writer.writerows(cost_data(answer))


def cost_data(answer: CostAnswer) -> list[dict[str, Any]]:
    """Return what is known of each server as plain values, by the fields above."""
    names = IndexNames(cost.run for cost in answer.costs)
    return [row_of(cost, answer, names.of(cost.run)) for cost in answer.costs]


def row_of(cost: ServerCost, answer: CostAnswer, index: str) -> dict[str, Any]:
    """Return the fields of one server; None for what is not known."""
    prices, server, quote, metrics = answer.prices, cost.server, cost.quote, cost.run.metrics
    nothing: tuple[None, None] = (None, None)
    rates: Interval | tuple[None, None] = cost.rate_interval or nothing
    queries: Interval | tuple[None, None] = cost.queries_interval(prices) or nothing
    values = (
        *(
            answer.dataset,
            answer.count,
            answer.filter,
            cost.algorithm,
            index,
            server.name,
            server.is_simulated,
        ),
        *(server.cpus, server.memory, server.iops, server.bandwidth, cost.run.series.clients, cost.is_given),
        *(cost.run.parameters, cost.recall, cost.rate, *rates),
        *(metrics[name] if cost.moved_to is None else None for name in ("p50", "p95", "p99", "p999")),
        *(str(answer.target), str(cost.kept), cost.why),
        *((quote.instance.name, quote.volume.name, quote.volume.gigabytes) if quote else (None,) * 3),
        *(prices.currency, quote.price if quote else None, cost.queries(prices), *queries),
        *(cost.unpriced, prices.label, prices.date, prices.source),
    )
    return dict(zip(FIELDS, values, strict=True))


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

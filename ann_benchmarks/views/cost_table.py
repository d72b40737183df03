"""What each server costs: a table for people, and rows for other programs."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ann_benchmarks.common.numbers import UNKNOWN, counted, figure_text
from ann_benchmarks.pricing.servers import capacity_text
from ann_benchmarks.results.at_recall import LOWER_BOUND
from ann_benchmarks.results.metrics import all_metrics
from ann_benchmarks.results.runs import interval
from ann_benchmarks.statistics.intervals import interval_text

from .builds import IndexNames
from .costs import CostAnswer, load_text, storage_text
from .parts import Table, known_table

MOST_ROWS = 40
FIELDS = (
    *("dataset", "count", "filter", "algorithm", "index", "server", "is_simulated", "cpus", "memory_bytes"),
    *("iops", "bandwidth", "clients", "rate_was_given", "parameters", "recall", "qps", "qps_low", "qps_high"),
    *("p50_ms", "p95_ms", "p99_ms", "p999_ms", "objective", "kept", "why", "instance", "storage"),
    *("storage_gb", "currency", "month", "unpriced", "prices", "prices_date", "prices_source"),
)
PERCENTILES = ("p50", "p95", "p99", "p999")


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

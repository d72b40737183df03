"""Servers, loads and prices in words, for the sentences and the table of costs."""

import math
from collections.abc import Sequence

from ann_benchmarks.common.numbers import UNKNOWN, counted, figure_text, three_digits
from ann_benchmarks.pricing.costs import ServerCost, ServiceTarget
from ann_benchmarks.pricing.prices import LOCAL, PriceList, Quote
from ann_benchmarks.pricing.servers import capacity_text
from ann_benchmarks.results.at_recall import LOWER_BOUND
from ann_benchmarks.results.metrics import all_metrics
from ann_benchmarks.results.runs import interval
from ann_benchmarks.statistics.intervals import Interval, interval_text
from ann_benchmarks.views.parts import listed

MOST_NAMED = 5
LARGE = ((1e9, " billion"), (1e6, " million"))


def offer(cost: ServerCost, prices: PriceList) -> str:
    """Write a server with its index and price."""
    assert cost.quote is not None
    instance, volume = cost.quote.instance, cost.quote.volume
    price = prices.money
    with_storage = storage_text(cost.quote)
    if volume.price:
        with_storage += f", {price(volume.price)}"
    return (
        f"{cost.server.name} ({capacity_text(cost.server)}) with {cost.algorithm}:"
        f" {money(cost, prices)} a month as {instance.name} ({counted(instance.vcpus, 'vCPU')},"
        f" {instance.memory:g} GB, {price(instance.price)}) and {with_storage}"
    )


def storage_text(quote: Quote) -> str:
    """Write the storage that is rented."""
    volume = quote.volume
    if volume.name == LOCAL:
        return f"its {LOCAL} of {volume.gigabytes:,g} GB"
    more = [f"{volume.more.iops:,g} more IOPS"] if volume.more.iops else []
    more += [f"{volume.more.throughput:,g} more MB/s"] if volume.more.throughput else []
    return f"{volume.gigabytes:,g} GB of {volume.name}" + (f" with {listed(more)}" if more else "")


def pace(cost: ServerCost, target: ServiceTarget) -> str:
    """Write what an index does on a server."""
    bound = LOWER_BOUND * cost.is_bound
    rate = f"{bound}{three_digits(cost.rate)} queries/s{interval_text(cost.rate_interval, three_digits)}"
    found = f"it answers {rate} {load_text(cost)}, recall {cost.recall:.3f}"
    if cost.moved_to is not None:  # whose latencies nothing has measured
        return f"{found}, a figure between measured points"
    name = "p99" if target.latency is None else target.latency.percentile
    value, bounds = cost.run.metrics[name], interval(cost.run, name)
    tail = f", {name} {three_digits(value)} ms{interval_text(bounds, three_digits)}" * math.isfinite(value)
    return f"{found}{tail}"


def load_text(cost: ServerCost) -> str:
    """Write who sends the queries."""
    clients = counted(cost.run.series.clients or 1, "client")
    return f"with {clients}{', at a given rate' * cost.is_given}"


def money(cost: ServerCost, prices: PriceList) -> str:
    """Write the price of a month."""
    return prices.money(cost.price)


def queries_text(value: float, bounds: Interval | None = None) -> str:
    """Write a large number of queries with three digits, and its interval in the same unit."""
    size, name = next(((size, name) for size, name in LARGE if value >= size), (1.0, ""))
    interval = None if bounds is None else [end / size for end in bounds]
    return f"{three_digits(value / size)}{interval_text(interval, three_digits)}{name}"


def some(texts: Sequence[str]) -> str:
    """List texts, each once, not too many of them."""
    texts = list(dict.fromkeys(texts))
    more = f" and {len(texts) - MOST_NAMED} more" if len(texts) > MOST_NAMED else ""
    return f"{'; '.join(texts[:MOST_NAMED])}{more}"


def percentile_text(cost: ServerCost, name: str) -> str:
    """Write a percentile with its interval, as tables have it."""
    if cost.moved_to is not None:
        return UNKNOWN
    write = all_metrics[name].write
    return write(cost.run.metrics[name]) + interval_text(interval(cost.run, name), write)


def rate_text(cost: ServerCost) -> str:
    """Write a throughput with its interval, as tables have it."""
    return f"{LOWER_BOUND * cost.is_bound}{figure_text(cost.rate)}{interval_text(cost.rate_interval)}"

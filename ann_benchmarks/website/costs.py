"""The columns of what the server of a result costs."""

from collections.abc import Callable
from functools import cache

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.pricing.prices import Capacity, PriceList, Quote
from ann_benchmarks.pricing.servers import needed_capacity
from ann_benchmarks.results.intervals import Interval
from ann_benchmarks.results.runs import Run, interval

from .columns import SiteColumn, Value


def price_columns(prices: PriceList | None) -> list[SiteColumn]:
    """Return the instance that fits the server of a result, its price, and queries for it; else none.

    The queries are those of a month at the throughput of the result itself, at its own recall.
    """
    if prices is None:
        return []
    quote_for = cache(prices.quote)

    def priced(value: Callable[[Quote], Value]) -> Callable[[Run], Value]:
        def of_run(run: Run) -> Value:
            found = _quote(run, quote_for)
            return None if found is None else value(found)

        return of_run

    def queries(run: Run) -> float | None:
        found = _quote(run, quote_for)
        return None if found is None else run.metrics["qps"] * prices.seconds / found.price

    def bounds(run: Run) -> Interval | None:
        found, rate = _quote(run, quote_for), interval(run, "qps")
        if found is None or rate is None or run.series.is_open:
            return None
        return Interval(*(end * prices.seconds / found.price for end in rate))

    code = prices.currency
    return [
        SiteColumn("instance", "Instance of this size", "words", priced(lambda q: q.instance.name), True),
        SiteColumn("month", f"Price of a month ({code})", "number", priced(lambda q: q.price)),
        SiteColumn("queriespermoney", f"Queries per {code}", "number", queries, bounds=bounds),
        SiteColumn("prices", "Prices", "words", priced(lambda _: f"{prices.label}, {prices.date}")),
    ]


def _quote(run: Run, quote_for: Callable[[Capacity], Quote]) -> Quote | None:
    try:
        return quote_for(needed_capacity(run))
    except UserError:
        return None

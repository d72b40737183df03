"""The columns of what the server of a result costs."""

from collections.abc import Callable, Mapping
from functools import cache

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.pricing.prices import PriceList, Quote
from ann_benchmarks.pricing.servers import needed_capacity
from ann_benchmarks.results.runs import Run, interval
from ann_benchmarks.statistics.intervals import Interval

from .columns import SiteColumn, Value


def price_columns(prices: Mapping[int, PriceList]) -> list[SiteColumn]:
    """Return the instance that fits the server of a result, its price, and queries for it; else none.

    `prices` has the list for each result by its identity. The queries are those of a month at the throughput
    of the result itself, at its own recall.
    """
    lists = {id(one): one for one in prices.values()}
    if not lists:
        return []
    quotes = {key: cache(one.quote) for key, one in lists.items()}
    codes = {one.currency for one in lists.values()}
    code = codes.pop() if len(codes) == 1 else "unit of the currency"

    def priced(value: Callable[[Run, Quote, PriceList], Value]) -> Callable[[Run], Value]:
        def written(run: Run) -> Value:
            listed = prices.get(id(run))
            if listed is None:
                return None
            try:
                return value(run, quotes[id(listed)](needed_capacity(run)), listed)
            except UserError:  # no instance fits, or what it must have is not known
                return None

        return written

    queries = priced(lambda run, quote, listed: run.metrics["qps"] * listed.seconds / quote.price)

    def bounds(run: Run) -> Interval | None:
        found, rate = queries(run), interval(run, "qps")
        if not isinstance(found, float) or rate is None or run.series.is_open:
            return None
        return Interval(*(end * found / run.metrics["qps"] for end in rate))

    def row(id: str, label: str, kind: str, value: Callable[[Run, Quote, PriceList], Value]) -> SiteColumn:
        return SiteColumn(id, label, kind, priced(value), kind == "words")

    return [
        row("instance", "Instance of this size", "words", lambda _, quote, __: quote.instance.name),
        row("month", f"Price of a month ({code})", "number", lambda _, quote, __: quote.price),
        SiteColumn("queriespermoney", f"Queries per {code}", "number", queries, bounds=bounds),
        row(
            "prices",
            "Prices",
            "words",
            lambda _, __, listed: f"{listed.label}, {listed.date}, {listed.currency}",
        ),
    ]

"""Which index is predicted to be the fastest at each number of rows, and where that changes: sentences."""

import math
from itertools import pairwise

from ann_benchmarks.common.numbers import three_digits
from ann_benchmarks.results.runs import number
from ann_benchmarks.sizing.growth import Prediction
from ann_benchmarks.statistics.intervals import interval_text

from .parts import Statement, listed
from .sizes import SHAPES, Sizes, grid


def size_statements(sizes: Sizes) -> list[Statement]:
    """Say which index will be the fastest at each number of rows, and where that changes."""
    found, reach = [], max(one.farthest for one in sizes.forecasts)
    for rows in sizes.rows:
        texts = [text for clients in sizes.clients if (text := fastest_text(sizes, rows, clients))]
        known = "; ".join(texts) or f"not known: from these samples, laws were tested up to {reach:,.0f} rows"
        found.append(Statement(f"At {rows:,.0f} rows", f"{known}{memory_text(sizes, rows)}."))
    changes = [text for clients in sizes.clients for text in change_texts(sizes, clients)]
    return [*found, Statement("Change", f"{'; '.join(changes)}.")] if changes else found


def fastest_text(sizes: Sizes, rows: float, clients: int) -> str:
    """Say which index is predicted to be the fastest with some clients; "" if none is known.

    A lead is only named if its interval has one, and no check has refuted the predictions it rests on.
    """
    ranked = sizes.ranked(rows, clients)
    if not ranked:
        return ""
    load = f"with {clients} client{'s' * (clients > 1)}"
    (best, ours), *others = ranked
    speed = f"{SHAPES['seconds'].text(ours)} queries/s"
    silent = [one.name for one in sizes.forecasts if one.name not in [known.name for known, _ in ranked]]
    speed += f" ({listed(silent)}: not known)" if silent else ""
    if not others:
        return f"{load}, {best.name} is predicted to answer {speed}"
    ratios = {other.name: ratio(ours, theirs) for other, theirs in others}
    refuted = [one.name for one, _ in ranked if sizes.is_refuted(one, clients)]
    level = [
        name for name, found in ratios.items() if found.low <= 1 or name in refuted or best.name in refuted
    ]
    if level:
        why = f" (the check missed {listed(refuted)})" if refuted else ""
        return f"{load}, {listed([best.name, *level], 'or')} may be the fastest{why}; {best.name}: {speed}"
    name, lead = next(iter(ratios.items()))
    times = f"{three_digits(lead.value)} times as fast as {name}{interval_text(lead[1:], three_digits)}"
    return f"{load}, {best.name} is predicted to be the fastest, {times}: {speed}"


def memory_text(sizes: Sizes, rows: float) -> str:
    """Say which indexes exceed this machine's memory, with their table; "" if none does."""
    large = []
    for one in sizes.forecasts:
        memory, parts = (
            number(one.largest, "memory_bytes"),
            [one.predict(law, rows) for law in ("size", "table")],
        )
        if memory and sum(part.value for part in parts if part) > memory:
            large.append(one.name)
    return f"; index and table of {listed(large)} exceed this machine's memory" if large else ""


def ratio(ours: Prediction, theirs: Prediction) -> Prediction:
    """Return how many times as long the other takes; errors of two indexes are taken to be independent."""
    value = theirs.value / ours.value
    down = math.hypot(math.log(ours.high / ours.value), math.log(theirs.value / theirs.low))
    up = math.hypot(math.log(ours.value / ours.low), math.log(theirs.high / theirs.value))
    return Prediction(value, value * math.exp(-down), value * math.exp(up))


def change_texts(sizes: Sizes, clients: int) -> list[str]:
    """Say from which number of rows on another index is predicted to be the fastest."""
    bests = [
        (rows, ranked[0][0].name)
        for rows in grid(sizes, sizes.samples[-1])
        if (ranked := sizes.ranked(rows, clients))
    ]
    load = f"with {clients} client{'s' * (clients > 1)}"
    return [
        f"{load}, {name} may overtake {before} from about {float(f'{rows:.1g}'):,.0f} rows on"
        for (_, before), (rows, name) in pairwise(bests)
        if name != before
    ]

"""Which index is predicted to be the fastest at each number of rows, and where that changes: sentences."""

import math
from itertools import pairwise

from ann_benchmarks.common.numbers import three_digits
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
        found.append(Statement(f"At {rows:,.0f} rows", f"{known}."))
    changes = [text for clients in sizes.clients for text in change_texts(sizes, clients)]
    return [*found, Statement("Change", f"{'; '.join(changes)}.")] if changes else found


def fastest_text(sizes: Sizes, rows: float, clients: int) -> str:
    """Say which index is predicted to be the fastest with some clients; "" if none is known."""
    ranked = sizes.ranked(rows, clients)
    if not ranked:
        return ""
    load = f"with {clients} client{'s' * (clients > 1)}"
    (best, ours), *others = ranked
    speed = f"{SHAPES['seconds'].text(ours)} queries/s"
    if not others:
        return f"{load}, {best.name} is predicted to answer {speed}"
    ratios = {other.name: ratio(ours, theirs) for other, theirs in others}
    level = [name for name, found in ratios.items() if found.low <= 1]
    if level:
        return f"{load}, {listed([best.name, *level], 'or')} may be the fastest; {best.name}: {speed}"
    name, next_one = next(iter(ratios.items()))
    lead = (
        f"{three_digits(next_one.value)} times as fast as {name}{interval_text(next_one[1:], three_digits)}"
    )
    return f"{load}, {best.name} is predicted to be the fastest, {lead}: {speed}"


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

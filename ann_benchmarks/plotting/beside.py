"""One's own figures beside those of another machine, as a table in Markdown."""

from collections.abc import Mapping, Sequence

from ann_benchmarks.common.numbers import figure_text, plain_number

from .lines import ordered
from .points import Point
from .published import PublishedPoints

THEIRS = "another machine"
NONE = "-"


def table_beside(
    own: Mapping[str, Sequence[Point]],
    others: PublishedPoints,
    x: str,
    y: str,
    normalise: bool = False,
    same: Mapping[str, str] | None = None,
) -> str:
    """Return a row for each curve and x, with one's own y, the published one and own / published.

    Curves belong together by `same` (own name: published name), by their names or, where one is published
    alone, all to that. With `normalise` every y is over the first of its curve. An interval is in brackets.
    """
    theirs = {name: ordered(points, normalise) for name, points in others.series.items()}
    mine = {name: ordered(points, normalise) for name, points in own.items()}
    alone = next(iter(theirs)) if len(theirs) == 1 else None
    pairs = [(name, (same or {}).get(name, name if name in theirs else alone)) for name in mine]
    pairs += [(name, name) for name in theirs if name not in {other for _, other in pairs}]
    told: set[str] = set()
    what = f"{y} / first" if normalise else y
    lines = [
        f"| Curve | {x} | own {what} | {what}, {THEIRS} | own / {THEIRS} |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, other in pairs:
        left = {point.x: point for point in mine.get(name, ())}
        right = {point.x: point for point in theirs.get(other or "", ())}
        title = name if other in (name, None) else f"{name} ({other})"
        for at in sorted(left if other in told else {*left, *right}):
            a, b = left.get(at), right.get(at)
            ratio = figure_text(a.y / b.y) if a and b and b.y else NONE
            lines.append(f"| {escaped(title)} | {plain_number(at)} | {cell(a)} | {cell(b)} | {ratio} |")
        told.add(other or "")
    return "\n".join([*lines, "", note(others, normalise), ""])


def cell(point: Point | None) -> str:
    """Write a figure, with its interval where there is one."""
    if point is None:
        return NONE
    bounds = point.y_interval
    sure = f" ({figure_text(bounds.low)} to {figure_text(bounds.high)})" if bounds else ""
    return figure_text(point.y) + sure


def escaped(text: str) -> str:
    """Write text that may stand in a cell."""
    return text.replace("|", "\\|")


def note(others: PublishedPoints, normalise: bool) -> str:
    """Say whose the other figures are, and what the ratio means."""
    means = (
        "each figure is over the first of its curve, so that shapes are compared and not machines"
        if normalise
        else "the ratio compares machines as much as what ran on them"
    )
    return f"Published: {others.label}: {means}. {others.origin}".strip()

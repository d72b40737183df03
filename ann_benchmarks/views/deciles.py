"""Figures by decile of matches: a table of a row for each strategy and decile, and a chart."""

import math
from collections.abc import Iterable, Mapping, Sequence

from ann_benchmarks.common.numbers import milliseconds, share_text
from ann_benchmarks.results.filtered import Decile, UnderFilter

from .figures import SHARES, Axis, Chart, Curve, Panel, Style
from .parts import Table
from .points import Point

DECILE_COLUMNS = ("Strategy", "Matches", "Queries", "Recall", "Completeness", "p50 (ms)", "p99 (ms)")
DECILE_PANELS = {"recall": "Recall", "completeness": "Completeness", "p50": "p50 (ms)", "p99": "p99 (ms)"}


def decile_tables(sets: Iterable[UnderFilter]) -> list[Table]:
    """Return for each filter set whose filters differ much in matches a row for each strategy and decile."""
    tables = []
    for one in sets:
        rows = [
            [name, f"{decile.least:,} to {decile.most:,}", f"{decile.queries:,}", share_text(decile.recall),
             share_text(decile.completeness), milliseconds(decile.p50), milliseconds(decile.p99)]
            for name, deciles in one.deciles.items()
            for decile in deciles
        ]  # fmt: skip
        if rows:
            caption = f"{one.name}: by decile of matches"
            tables.append(Table(DECILE_COLUMNS, rows, caption, ("Strategy", "Matches")))
    return tables


def decile_chart(lines: Mapping[str, Sequence[Decile]], title: str, styles: Mapping[str, Style]) -> Chart:
    """Return the lines of one filter set; the x axis has the mean of a decile's least and most matches."""
    panels = []
    for metric, heading in DECILE_PANELS.items():
        is_time = metric in ("p50", "p99")
        curves = []
        for name, deciles in lines.items():
            xs = [math.sqrt(max(one.least, 1) * max(one.most, 1)) for one in deciles]
            ys = [getattr(one, metric) * (1e3 if is_time else 1) for one in deciles]
            curves.append(Curve(name, list(map(Point, xs, ys)), styles[name]))
        is_known = any(math.isfinite(point.y) for curve in curves for point in curve.points)
        x = Axis("Rows that match a query's filter", "log")
        y = Axis("", "log") if is_time else Axis("", "linear", limits=SHARES)
        absent = "" if is_known or not is_time else "too few queries were counted"
        panels.append(Panel(curves, x, y, heading, absent=absent))
    return Chart(title, panels, 2, "x", size=(4.2, 2.6))

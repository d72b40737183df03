"""Recall by query, and figures by decile of matches: charts, tables, and where the mean hides a tail."""

import math
from collections.abc import Iterable, Mapping, Sequence

from ann_benchmarks.common.numbers import milliseconds, percent_text, share_text
from ann_benchmarks.results.filtered import Decile, UnderFilter
from ann_benchmarks.results.metrics import all_metrics
from ann_benchmarks.results.runs import Run, interval
from ann_benchmarks.results.tails import RecallTail, evenly_missed
from ann_benchmarks.statistics.intervals import interval_text

from .figures import SHARES, Axis, Chart, Curve, Panel, Style
from .parts import Table
from .points import Point

FIFTH, WORST = "recall-p5", "recall-worst"
RANGES = 10  # of recall in a table
FEW_STEPS = 20  # of recall, drawn with marks
DECILE_COLUMNS = ("Strategy", "Matches", "Queries", "Recall", "Completeness", "p50 (ms)", "p99 (ms)")
DECILE_PANELS = {"recall": "Recall", "completeness": "Completeness", "p50": "p50 (ms)", "p99": "p99 (ms)"}
COMPARED = "compare two lines only where their mean recalls are nearly equal"


def recall_chart(tails: Sequence[RecallTail], title: str, styles: Mapping[str, Style]) -> Chart:
    """Return the share of queries with a recall below x. A series whose queries miss nothing has no line.

    The y axis is logarithmic, because a tail is a small share of the queries.
    """
    curves = [
        Curve(
            f"{tail.run.algorithm}, mean recall {share_text(tail.mean)}",
            [Point(*place) for place in tail.below],
            styles[tail.run.algorithm],
            "step" if tail.steps <= FEW_STEPS else "fine step",
        )
        for tail in tails
    ]
    axes = (
        Axis("Recall of a query", "linear", is_share=True),
        Axis("Share of queries below it", "log", write=percent_text),
    )
    return Chart(title, [Panel(curves, *axes)], note=f"lower is better; {COMPARED}")


def recall_tables(tails: Sequence[RecallTail], target: float) -> list[Table]:
    """Return a row for each series: mean, 5th percentile, worst query, and the queries by recall."""
    tables = []
    for steps in sorted({tail.steps for tail in tails}):
        of_steps = [tail for tail in tails if tail.steps == steps]
        ranges = [
            f"{least} to {most}" if least != most else f"{most}"
            for least, most, _ in of_steps[0].count_in_ranges(RANGES)
        ]
        columns = ["Curve", "Recall", *(all_metrics[name].title for name in (FIFTH, WORST)), *ranges]
        rows = [
            [
                tail.run.algorithm,
                share_text(tail.mean),
                share_text(tail.run.metrics[FIFTH]) + interval_text(interval(tail.run, FIFTH), share_text),
                share_text(tail.run.metrics[WORST]),
                *(f"{number:,}" for _, _, number in tail.count_in_ranges(RANGES)),
            ]
            for tail in of_steps
        ]
        what = f"{steps} neighbours" if steps == tails[0].run.count else f"{steps} equal steps of recall"
        caption = (
            f"Recall by query next to a recall of {target:g}: the last columns have the number of queries by"
            f" how many of {what} they found"
        )
        tables.append(Table(columns, rows, caption, ("Curve",)))
    return tables


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


def hidden_tail(run: Run) -> str:
    """Say how much the worst 5% of the queries found where the mean recall hides it; "" where it does not.

    It does where the 5th percentile, with its interval, lies below that of misses that are spread evenly.
    """
    fifth, bounds = run.metrics[FIFTH], interval(run, FIFTH)
    if bounds is None or run.series.filter:
        return ""
    low, high = (round(end * run.count) for end in bounds)
    if high >= evenly_missed(run.count, run.metrics["recall"]):
        return ""
    return f"5% of its queries find at most {round(fifth * run.count)} of {run.count} ({low} to {high})"

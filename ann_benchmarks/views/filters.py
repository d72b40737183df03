"""Strategies under filters: which is the fastest where, what defaults return, and figures by decile."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from ann_benchmarks.common.numbers import (
    UNKNOWN,
    figure_text,
    milliseconds,
    percent_text,
    share_text,
    three_digits,
)
from ann_benchmarks.results.at_recall import LOWER_BOUND
from ann_benchmarks.results.filtered import (
    AHEAD,
    COMPLETE,
    Decile,
    FastestStrategy,
    UnderFilter,
    group_by_filter,
)
from ann_benchmarks.results.metrics import all_metrics
from ann_benchmarks.results.runs import Run, interval
from ann_benchmarks.statistics.differences import ERROR_RATE
from ann_benchmarks.statistics.intervals import interval_text

from .chosen import Choice, choose_filtered
from .figures import SHARES, Axis, Chart, Curve, Panel, Style
from .parts import Part, Statement, Table, known_table, listed
from .points import Point

COLUMNS = (
    *("Filter", "Share of rows", "Strategy", "QPS", "p99 (ms)", "First / this", "Fastest"),
    *("Recall at defaults", "Completeness at defaults"),
)
WORDS = frozenset({"Filter", "Strategy", "Fastest", "How sure"})
READING = (
    "In brackets: 95% intervals. QPS are those at the recall and the completeness; the p99 is that of the"
    " measured result closest to it. First / this: the QPS of the first strategy under this filter over"
    " those of this one; the intervals of these ratios hold for all rows together. One that includes 1 is"
    " noise."
)
NOT_SURELY = (
    "Ahead, but not surely: the strategies were measured once, at different times, or in too few rounds."
    " To be certain, measure them in the same rounds (run.py --rounds)."
)
DECILE_COLUMNS = ("Strategy", "Matches", "Queries", "Recall", "Completeness", "p50 (ms)", "p99 (ms)")
DECILE_PANELS = {"recall": "Recall", "completeness": "Completeness", "p50": "p50 (ms)", "p99": "p99 (ms)"}
NO_DEFAULTS = "No result was measured at default settings, so what the defaults lose is not shown."


@dataclass(frozen=True)
class FilterView:
    """The filter sets of one load, and what is known of the fastest strategy under each, by its name."""

    choice: Choice
    target: float
    sets: Sequence[UnderFilter]
    fastest: Mapping[str, FastestStrategy]

    @property
    def strategies(self) -> list[str]:
        """All that were measured under any filter, by name."""
        return sorted({name for one in self.sets for name in one.strategies})

    @cached_property
    def kinds(self) -> dict[str, list[UnderFilter]]:
        """The filter sets of each kind, in their order."""
        return {kind: list(group) for kind, group in groupby(self.sets, lambda one: one.kind)}

    @property
    def required(self) -> str:
        """What a strategy has to reach."""
        return f"a recall of {self.target:g} and a completeness of {COMPLETE:g}"

    @property
    def has_defaults(self) -> bool:
        """Whether any result was measured at default settings."""
        return any(one.defaults for one in self.sets)

    @property
    def is_unsure(self) -> bool:
        """Whether a strategy is ahead without being surely the fastest."""
        return any(known.state == AHEAD for known in self.fastest.values())


def view_filters(runs: Sequence[Run], target: float, error_rate: float = ERROR_RATE) -> FilterView:
    """Return the filtered results of the load with the most points; what is said of them errs at the rate."""
    choice = choose_filtered(runs)
    sets = group_by_filter(choice.runs, target)
    return FilterView(choice, target, sets, {one.name: one.fastest(error_rate / len(sets)) for one in sets})


def fastest_text(known: Sequence[FastestStrategy]) -> str:
    """Say what is known of the fastest under filters alike in this, and how far the next is behind."""
    times = [one.next.value for one in known if one.next and len(one.names) == 1]
    if not times:
        return known[0].state
    # Estimates: the smallest of them is no lower bound.
    ratios = " to ".join(dict.fromkeys(map(three_digits, (min(times), max(times)))))
    return f"{known[0].state}, {ratios} times as fast as the next"


# Tables.


def filter_tables(view: FilterView) -> list[Part]:
    """Return for each kind of filter a row for each strategy under each of its sets, and notes."""
    parts: list[Part] = []
    for kind, sets in view.kinds.items():
        rows = [row for one in sets for row in strategy_rows(one, view.fastest[one.name])]
        columns = {name: [row[name] for row in rows] for name in COLUMNS}
        parts.append(known_table(columns, f"{kind}: at {view.required}", WORDS & columns.keys()))
    notes = {
        READING: True,
        NOT_SURELY: view.is_unsure,
        NO_DEFAULTS: not view.has_defaults,
    }
    return [*parts, *(text for text, is_needed in notes.items() if is_needed)]


def strategy_rows(one: UnderFilter, fastest: FastestStrategy) -> Iterator[dict[str, str]]:
    """Yield a row for each strategy: the fastest first, then those that do not reach the recall."""
    p99 = all_metrics["p99"]

    def figure(run: Run | None, metric: str, write: Callable[[float], str]) -> str:
        if run is None:
            return UNKNOWN
        return write(run.metrics[metric]) + interval_text(interval(run, metric), write)

    for name in [*one.standings, *one.missed]:
        row = {"Filter": one.name, "Share of rows": percent_text(one.selectivity), "Strategy": name}
        if name in one.missed:
            metrics = one.missed[name].metrics
            best = f"recall {metrics['recall']:.3f}, completeness {metrics['completeness']:.3f}"
            row["Fastest"] = f"not reached: {best}"
        else:
            at, ratio = one.standings[name], fastest.ratios.get(name)
            qps = figure_text(at.qps) + interval_text(at.interval)
            row["QPS"] = LOWER_BOUND * at.is_bound + qps
            row["p99 (ms)"] = figure(at.run, "p99", p99.write)
            row["First / this"] = three_digits(ratio.value) if ratio else "1"
            row["First / this"] += interval_text(ratio.interval if ratio else None, three_digits)
            row["Fastest"] = fastest.state if name in fastest.names else ""
            if name in fastest.higher:
                row["Fastest"] = "slower, at a higher recall"
        row["Recall at defaults"] = figure(one.defaults.get(name), "recall", share_text)
        row["Completeness at defaults"] = figure(one.defaults.get(name), "completeness", share_text)
        yield dict.fromkeys(COLUMNS, UNKNOWN) | row


def fastest_table(view: FilterView) -> Table:
    """Return a row for each filter set: which strategies are or may be the fastest, and how sure that is."""
    rows = []
    for one in view.sets:
        known = view.fastest[one.name]
        names = ", ".join(known.names) or UNKNOWN
        rows.append([one.name, percent_text(one.selectivity), names, fastest_text([known])])
    columns = ("Filter", "Rows that pass", "Fastest", "How sure")
    return Table(columns, rows, f"The fastest strategy at {view.required}", WORDS & {*columns})


# Sentences.


def filter_statements(runs: Sequence[Run], target: float, error_rate: float) -> list[Statement]:
    """Return what filtered results of the load and the server with the most points say, if there are any."""
    view = view_filters([run for run in runs if not run.batch] or runs, target, error_rate)
    if not view.sets:
        return []

    def verdict(one: UnderFilter) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        known = view.fastest[one.name]
        return known.state, tuple(known.names), tuple(known.higher)

    sentences = [f"At {view.required}, with {view.sets[0].compared.client_text}."]
    for kind, sets in view.kinds.items():
        groups = (list(group) for _, group in groupby(sets, verdict))
        parts = [
            f"{shares_text(group)} {strategies_text([view.fastest[one.name] for one in group])}"
            for group in groups
        ]
        sentences.append(f"Under {kind}: {'; '.join(parts)}.")
    sentences += [NOT_SURELY] * view.is_unsure
    sentences += [f"{text[0].upper()}{text[1:]}." for text in view.choice.left_out]
    about = Statement("Which strategy under filters", " ".join(sentences))
    return [about, *default_statements(view)]


def shares_text(sets: Sequence[UnderFilter]) -> str:
    """Name shares of rows, from the first to the last."""
    first, last = percent_text(sets[0].selectivity), percent_text(sets[-1].selectivity)
    return f"at {first} of the rows" if len(sets) == 1 else f"from {first} to {last} of the rows"


def strategies_text(known: Sequence[FastestStrategy]) -> str:
    """Say which strategies are or may be the fastest under filters that are alike in this."""
    names = known[0].names
    subject = f"{listed(names)} {'is ' * (len(names) == 1)}".lstrip()
    higher = listed(list(dict.fromkeys(name for one in known for name in one.higher)))
    slower = f" (slower, but measured at higher recalls only: {higher})" if higher else ""
    return subject + fastest_text(known) + slower


def default_statements(view: FilterView) -> list[Statement]:
    """Say what is lost at default settings: where fewer rows or true neighbours come back than required."""
    sentences = []
    names = sorted({name for one in view.sets for name in one.defaults})
    for name in names:
        for kind, sets in view.kinds.items():
            losses = [
                f"{rows_returned(run)} at {percent_text(one.selectivity)} of the rows"
                f" (recall {run.metrics['recall']:.3f})"
                for one in sets
                if (run := one.defaults.get(name)) and loses(run, view.target)
            ]
            if losses:
                sentences.append(f"Under {kind}, {name} at its defaults returns {listed(losses)}.")
    nothing = f"{listed(names)} at the defaults lose nothing beyond noise."
    return [Statement("Default settings", " ".join(sentences) or nothing)] if names else []


def loses(run: Run, target: float) -> bool:
    """Whether completeness or recall is below what is required, by more than the sample of queries tells."""
    for metric, required in (("completeness", COMPLETE), ("recall", target)):
        bounds = interval(run, metric)
        if (bounds.high if bounds else run.metrics[metric]) < required:
            return True
    return False


def rows_returned(run: Run) -> str:
    """Say how many rows came back: of k, where each query had as many matches, else as a share."""
    complete, rows = run.metrics["completeness"], run.metrics["candidates"]
    if abs(rows / run.count - complete) < 1e-6:
        return f"{f'{rows:.1f}' if rows >= 0.95 else f'{rows:.2g}'} of {run.count} rows"
    return f"{100 * complete:.3g}% of the rows that there are to return"


# By decile of matches.


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

"""Recall by query: a chart, tables, and what an answer says where the mean hides a tail."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from ann_benchmarks.common.numbers import percent_text, share_text
from ann_benchmarks.results.intervals import interval_text
from ann_benchmarks.results.metrics import all_metrics
from ann_benchmarks.results.runs import Run, interval
from ann_benchmarks.results.tails import RecallTail, evenly_missed, nearly_equal

from .figures import Axis, Chart, Curve, Panel, Style
from .parts import Statement, Table, listed
from .points import Point

FIFTH, WORST = "recall-p5", "recall-worst"
RANGES = 10  # of recall in a table
FEW_STEPS = 20  # of recall, drawn with marks
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
            for least, most, _ in of_steps[0].in_ranges(RANGES)
        ]
        columns = ["Curve", "Recall", *(all_metrics[name].title for name in (FIFTH, WORST)), *ranges]
        rows = [
            [
                tail.run.algorithm,
                share_text(tail.mean),
                share_text(tail.run.metrics[FIFTH]) + interval_text(interval(tail.run, FIFTH), share_text),
                share_text(tail.run.metrics[WORST]),
                *(f"{number:,}" for _, _, number in tail.in_ranges(RANGES)),
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


def tail_statements(runs: Iterable[Run]) -> list[Statement]:
    """Say of which results, without a filter, the mean recall hides a tail; nothing where none does.

    It does where the 5th percentile, with its interval, lies below that of misses that are spread evenly.
    """
    chosen = [run for run in runs if not run.series.filter and interval(run, FIFTH)]
    hidden = [text for run in chosen if (text := _hidden(run))]
    if not hidden:
        return []
    sentences = [f"5% of the queries found {'; '.join(hidden)}.", *_compared(chosen)]
    return [Statement("Tail of the recall", " ".join(sentences))]


def _hidden(run: Run) -> str:
    """Say how much the worst 5% of the queries found, in a sentence without its beginning; "" if no tail."""
    fifth, bounds, mean = run.metrics[FIFTH], interval(run, FIFTH), run.metrics["recall"]
    even = evenly_missed(run.count, mean)
    if bounds is None or round(bounds.high * run.count) >= even:
        return ""
    low, high = (round(end * run.count) for end in bounds)
    worst = round(run.metrics[WORST] * run.count)
    return (
        f"at most {round(fifth * run.count)} of their {run.count} neighbours with {run.series.family} (95%"
        f" interval {low} to {high}; the worst query {worst}), although the mean recall is {mean:.3f}: with"
        f" misses spread evenly it would be {even}"
    )


def _compared(runs: Sequence[Run]) -> list[str]:
    """Say whose tail is shorter, of results with nearly the same mean recall."""
    sentences = []
    for first, second in combinations(runs, 2):
        means = first.metrics["recall"], second.metrics["recall"]
        if not nearly_equal(*means):
            continue
        better, worse = sorted((first, second), key=lambda run: run.metrics[FIFTH], reverse=True)
        above, below = interval(better, FIFTH), interval(worse, FIFTH)
        if above and below and above.low > below.high:
            recalls = listed([f"{run.metrics['recall']:.3f}" for run in (better, worse)])
            sentences.append(
                f"At nearly the same mean recall ({recalls}), {better.series.family} has a shorter tail than"
                f" {worse.series.family}."
            )
    return sentences

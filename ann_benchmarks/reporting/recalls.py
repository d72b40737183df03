"""Recall by query: its picture, its table, and what an answer says where the mean hides a tail."""

from collections.abc import Iterable, Sequence
from itertools import combinations

from ann_benchmarks.common.numbers import share_text
from ann_benchmarks.plotting.lines import COMPARED, create_recall_figure
from ann_benchmarks.plotting.styles import assign_styles, told_apart
from ann_benchmarks.results.metrics import all_metrics
from ann_benchmarks.results.runs import Run, interval
from ann_benchmarks.results.tails import RecallTail, evenly_missed, nearly_equal, tails_at
from ann_benchmarks.statistics.intervals import Interval, interval_text
from ann_benchmarks.views.chosen import of_one_load
from ann_benchmarks.views.parts import Statement, Table, listed

from .content import MOST_ROWS, Shown, part_blocks
from .document import Block, Picture

FIFTH, WORST = "recall-p5", "recall-worst"
RANGES = 10  # of recall in a table


def recall_picture(shown: Shown) -> list[Block]:
    """Draw the share of queries below each recall, a line a series."""
    tails, below = _tails(shown)
    path = shown.file("recalls")
    names = [tail.run.algorithm for tail in tails[:MOST_ROWS]]
    styles = {**assign_styles(names), **shown.styles}
    create_recall_figure(tails[:MOST_ROWS], path, shown.title, told_apart(styles, names))
    caption = (
        f"Recall by query, of each curve's result next to a recall of {shown.target:g}: the share of queries"
        f" below each recall. Lower is better; {COMPARED}."
    )
    return [Picture(path.name, caption), *below]


def recall_table(shown: Shown) -> list[Block]:
    """Return a row for each series: mean, 5th percentile, worst query, and the queries by recall."""
    tails, below = _tails(shown)
    blocks: list[Block] = []
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
        of_what = f"{steps} neighbours" if steps == tails[0].run.count else f"{steps} equal steps of recall"
        caption = (
            f"Recall by query next to a recall of {shown.target:g}: the last columns have the number of"
            f" queries by how many of {of_what} they found"
        )
        blocks.append(Table(columns, rows, caption, ("Curve",)))
    return [*blocks, *below]


def _tails(shown: Shown) -> tuple[list[RecallTail], list[Block]]:
    """Return the tails of the load with the most points, and what was left out."""
    choice = of_one_load(shown.runs)
    left_out = [text for text in choice.notes if text.startswith("left out")]
    return tails_at(choice.runs, shown.target), part_blocks(left_out)


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
        if _bounds(better).low > _bounds(worse).high:
            recalls = listed([f"{run.metrics['recall']:.3f}" for run in (better, worse)])
            sentences.append(
                f"At nearly the same mean recall ({recalls}), {better.series.family} has a shorter tail than"
                f" {worse.series.family}."
            )
    return sentences


def _bounds(run: Run) -> Interval:
    found = interval(run, FIFTH)
    assert found is not None
    return found

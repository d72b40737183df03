"""What views are made of: tables and sentences, in Markdown too, and how ratios are written."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ann_benchmarks.common.numbers import UNKNOWN, figure_text, three_digits
from ann_benchmarks.results.at_recall import LOWER_BOUND, AtRecall, describe_measuring
from ann_benchmarks.results.runs import Run
from ann_benchmarks.results.sessions import session_text
from ann_benchmarks.statistics.contests import Ratio
from ann_benchmarks.statistics.differences import SESSIONS
from ann_benchmarks.statistics.intervals import interval_text

SPECIAL = re.compile(r"[\\`*\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_])")  # a _ within a word is plain
MOST_NAMED = 4  # contenders that a sentence names before it counts the others
TOO_WIDE = 1000  # times its lower bound: such an interval tells nothing
CHANGES_MORE = f"and {session_text(SESSIONS)}"


@dataclass(frozen=True)
class Table:
    """A table of cells; the columns named in `words` hold text, all others hold figures."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    words: Collection[str] = ()


Part = Table | str  # a note is a sentence or more


@dataclass(frozen=True)
class Statement:
    """One answer: what it is about, and a sentence or more."""

    about: str
    text: str


def known_table(
    columns: Mapping[str, Sequence[str]], caption: str, words: Collection[str], shared: Collection[str] = ()
) -> Table:
    """Return a table without the columns in which nothing is known, or that are `shared` by all rows."""
    kept = {
        name: cells
        for name, cells in columns.items()
        if set(cells) != {UNKNOWN} and not (name in shared and len(set(cells)) == 1)
    }
    return Table(tuple(kept), list(zip(*kept.values(), strict=True)), caption, words)


def table_text(table: Table) -> str:
    """Return a table in Markdown, below its caption."""
    sides = ["---" if name in table.words else "---:" for name in table.columns]
    rows = [f"| {' | '.join(map(escaped, row))} |" for row in (table.columns, *table.rows)]
    rows.insert(1, f"| {' | '.join(sides)} |")
    caption = f"{escaped(table.caption)}\n\n" if table.caption else ""
    return caption + "\n".join(rows)


def escaped(text: str) -> str:
    """Return one line of Markdown in which each character means itself."""
    return SPECIAL.sub(lambda match: f"\\{match[0]}", one_line(text))


def one_line(text: str) -> str:
    """Return text without the ends of lines."""
    return " ".join(text.split("\n")).replace("\r", " ")


def listed(texts: Sequence[str], last: str = "and") -> str:
    """Join texts as in a sentence, with this word before the last one."""
    return f" {last} ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def first_names(names: Sequence[str]) -> list[str]:
    """Return names, of many the first ones and how many others there are."""
    if len(names) <= MOST_NAMED + 1:
        return list(names)
    return [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} others"]


def qps_text(at: AtRecall) -> str:
    """Write the queries/s at a recall, or the bound that they are, as tables have them."""
    return f"{LOWER_BOUND * at.is_bound}{figure_text(at.qps)}"


def speedup_text(found: Ratio, is_bound: bool, is_of_bound: bool) -> str:
    """Write a ratio of throughputs, or the bound that it is where one side has only higher recalls."""
    if not found.is_fair:
        return UNKNOWN if is_bound else f"at most {three_digits(found.value)}"
    bound = LOWER_BOUND * (is_bound and not is_of_bound)
    low, high = found.interval
    interval = interval_text(found.interval, three_digits) if high < TOO_WIDE * low else " (too noisy to say)"
    return f"{bound}{three_digits(found.value)}{interval}{found.note}"


def notes_on(ratios: Mapping[int, Ratio], runs: Sequence[Run], base: Run) -> Iterator[str]:
    """Say how sure ratios of throughputs to the base are; their keys are the places of results."""
    if ratios:
        yield "The intervals of QPS speedups hold for all rows together; one that contains 1 is noise."
    once = [describe_measuring(base, runs[place]) for place, found in ratios.items() if not found.rounds]
    for how in dict.fromkeys(once):
        yield f"Some indexes were {how}, {CHANGES_MORE}."

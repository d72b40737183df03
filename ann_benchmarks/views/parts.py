"""What views are made of: tables and sentences, in Markdown too, and how ratios are written."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ann_benchmarks.common.numbers import UNKNOWN, three_digits
from ann_benchmarks.results.at_recall import LOWER_BOUND, how_measured
from ann_benchmarks.results.contest import FEWEST_ROUNDS, Ratio
from ann_benchmarks.results.intervals import interval_text
from ann_benchmarks.results.runs import Run

SPECIAL = re.compile(r"[\\`*\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_])")  # a _ within a word is plain


@dataclass(frozen=True)
class Table:
    """A table of cells; the columns named in `words` hold text, all others hold figures."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    words: frozenset[str] = field(default_factory=frozenset)


Part = Table | str  # a note is a sentence or more


@dataclass(frozen=True)
class Statement:
    """One answer: what it is about, and a sentence or more."""

    about: str
    text: str


def known_table(columns: Mapping[str, Sequence[str]], caption: str, words: frozenset[str]) -> Table:
    """Return a table without the columns in which nothing is known."""
    kept = {name: cells for name, cells in columns.items() if set(cells) != {UNKNOWN}}
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


def doubt(first: Run, second: Run) -> tuple[str, str]:
    """Say how two results were measured whose ratio is not sure, and what follows from that."""
    how = how_measured(first, second)
    if "too few" in how:
        return how, f": {FEWEST_ROUNDS} are the least"
    return how, ", which changes more than these intervals show: the same rounds compare more surely"


def certainty_of_all(ratios: Iterable[Ratio], doubts: Iterable[str]) -> str:
    """Say why ratios are not sure."""
    single = any(found.interval is None for found in ratios)
    return f"{'single runs, ' * single}{listed(list(dict.fromkeys(doubts)))}"


def listed(texts: Sequence[str]) -> str:
    """Join texts as in a sentence."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def speedup_text(found: Ratio, is_bound: bool, is_of_bound: bool) -> str:
    """Write a ratio of throughputs, or the bound that it is where one side has only higher recalls."""
    if not found.is_fair:
        return UNKNOWN if is_bound else f"at most {three_digits(found.value)}"
    bound = LOWER_BOUND * (is_bound and not is_of_bound)
    return f"{bound}{three_digits(found.value)}{interval_text(found.interval, three_digits)}{found.where}"


def notes_on(ratios: Mapping[int, Ratio], runs: Sequence[Run], base: Run) -> Iterator[str]:
    """Say how sure ratios of throughputs to the base are; their keys are the places of results."""
    if any(found.interval for found in ratios.values()):
        yield "The intervals of QPS speedups hold for all rows together; one that contains 1 is noise."
    once = [doubt(base, runs[place])[0] for place, found in ratios.items() if not found.rounds]
    for how in dict.fromkeys(once):
        yield f"Some indexes were {how}, which changes more than these intervals show."

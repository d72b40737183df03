"""What the reader of a report came for, in six lines and a table: which index, how sure, where it holds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from ann_benchmarks.common.numbers import KIB, size_text, three_digits
from ann_benchmarks.common.text import from_json
from ann_benchmarks.data.datasets.samples import sampled
from ann_benchmarks.results.at_recall import may_reach
from ann_benchmarks.results.comparable import (
    Comparison,
    comparisons,
    is_on_tier,
    least_memory,
    ram,
    shared_place,
)
from ann_benchmarks.results.measurement import EXACT_SEARCH, NOT_INSTALLED, TIERS_LEFT_OUT
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import Run, number
from ann_benchmarks.statistics.differences import ERROR_RATE
from ann_benchmarks.statistics.intervals import FEWEST_RUNS
from ann_benchmarks.views.choice import choose, contested, find_equals, lead_text
from ann_benchmarks.views.contenders import Recipe, build_seconds, contender_table, find_recipe
from ann_benchmarks.views.filters import filter_statements
from ann_benchmarks.views.memory import MemoryNeed, memory_in_short, memory_parts, needs
from ann_benchmarks.views.parts import Part, Statement, Table, first_names, listed
from ann_benchmarks.views.workloads import insert_statements, write_statements

RATE_WAS_GIVEN = "The throughput was given and says nothing about the algorithms: compare their latencies."
WHOLE_SCAN = 0.5  # share of the rows that a query reads, from which on its time grows with them


@dataclass(frozen=True)
class Answer:
    """All answers about one dataset and number of neighbours: `statements` are the first screen.

    `table` has a row for each index. `recipes` are the SQL of the index that is named, and of the runner-up.
    """

    dataset: str
    count: int
    statements: Sequence[Statement]
    recipes: Sequence[Recipe] = ()
    table: Table | None = None
    details: Sequence[Part] = ()


def find_answers(runs: Iterable[Run], records: Iterable[Record], target: float) -> list[Answer]:
    """Return what the results of each dataset and count say at a recall; samples of others say nothing."""
    runs, records = list(runs), list(records)
    found = []
    places = {(run.dataset, run.count) for run in runs} | {(rec.dataset, rec.count) for rec in records}
    wholes = {(dataset, count) for dataset, count in places if sampled(dataset)[1] == 1}
    for dataset, count in sorted(wholes or places):
        here = [run for run in runs if (run.dataset, run.count) == (dataset, count)]
        written = [record for record in records if (record.dataset, record.count) == (dataset, count)]
        about_writes = [*insert_statements(written), *write_statements(written)]
        answer = speed_answer(here, bool(written), target) if here else Answer(dataset, count, [])
        found.append(replace(answer, statements=[*answer.statements, *about_writes]))
    return found


def statements(runs: Sequence[Run], has_writes: bool, target: float) -> list[Statement]:
    """Return the sentences of the answer of results on one dataset."""
    return list(speed_answer(runs, has_writes, target).statements)


def speed_answer(runs: Sequence[Run], has_writes: bool, target: float) -> Answer:
    """Return what results on one dataset say: first of strategies under filters, where there are any.

    The speed of algorithms is that without a filter, and is left out where nothing was measured so.
    """
    under = filter_statements(runs, target, ERROR_RATE / 2)
    plain = [run for run in runs if not run.series.filter] if under else runs
    rate = ERROR_RATE / 2 if under else ERROR_RATE
    compared = comparisons(plain, target)
    reaching = [comparison for comparison in compared if comparison.fastest]
    need = needs(runs, target)
    left = unmeasured(runs, compared, bool(need), has_writes)
    known = Answer(runs[0].dataset, runs[0].count, [*under, *left], details=memory_parts(need))
    if not reaching:
        if not plain:
            return known
        why = nothing_reached(plain, target) if compared else RATE_WAS_GIVEN
        about = Statement("Recall" if compared else "Speed", why)
        return replace(known, statements=[*under, about, *left])
    shown = contested(plain, target)
    scarce = [least for one in shown if (least := least_memory(plain, target, one))]
    rate /= len(shown) + len(scarce)  # all statements together err at the rate
    choice = choose(plain, shown, need, rate)
    lines = [Statement("In short", choice.text)]
    recipes: list[Recipe] = []
    if choice.names:
        found = {name: run for one in reversed(shown) for name, run in one.fastest.items()}
        runs_of = [found[name] for name in choice.names]
        recipes = [recipe for run in runs_of[:2] if (recipe := find_recipe(run))]
        lines += [
            Statement("Holds for", describe_scope(shown, scarce, choice.names[0], rate)),
            Statement("Rows", describe_growth(runs_of[0], shown, rate)),
            Statement("Cost", describe_cost(runs_of[0], need)),
        ]
    table = contender_table(reaching, list_short(plain, target), need, rate)
    return replace(known, statements=[*under, *lines, *left], recipes=recipes, table=table)


def describe_scope(
    shown: Sequence[Comparison], scarce: Sequence[Comparison], name: str, error_rate: float
) -> str:
    """Say for which recall, clients and memory an index is the answer, and which is with the least memory."""
    first = shown[0]
    loads = listed([f"{one.clients}" for one in shown[:-1]] + [shown[-1].client_text])
    if (place := shared_place(shown)) is None:
        loads, place = "; ".join(f"{one.client_text}{one.place_text}" for one in shown), ""
    text = f"recall {first.target:g} at k = {first.runs[0].count}, {loads}{place}."
    least = []
    for one in scarce:
        equals = find_equals(one, error_rate)
        who = "the same index" if name in equals else listed(first_names(equals), "or")
        least.append(", ".join(filter(None, [who, lead_text(one, error_rate)])))
    much = listed(list(dict.fromkeys(size_text(ram(one.runs[0])) for one in scarce)))
    found = "; ".join(dict.fromkeys(least))
    if not least:
        return text
    names = scarce[0].fastest
    measured = "all" if len(names) == len(shown[-1].fastest) else listed(first_names([*names]))
    return f"{text} With {much} of RAM, the least measured for {measured}: {found}."


def describe_growth(run: Run, shown: Sequence[Comparison], error_rate: float) -> str:
    """Say for how many rows the answer was measured, and what is known to change with more of them.

    The time of an index that reads a fixed share of the rows is taken to grow with them, and that of another
    one not at all: its lead lasts at least that long.
    """
    rows, size, name = number(run, "rows"), run.metrics["indexsize"] * KIB, run.series.family
    if not rows:
        return "not stored: the results say nothing about larger tables."
    memory = number(run, "tier_ram") or number(run, "memory_bytes")
    limit = ""
    if (share := read_share(run)) >= WHOLE_SCAN:
        leads = [
            found.interval.low
            for one in shown
            if next(iter(one.standings)) == name
            for other, found in one.contest.ratios(error_rate).items()
            if found.is_sure and read_share(one.fastest[other]) < WHOLE_SCAN
        ]
        limit = f", {f'{share:.0%}' if share < 1 else 'all'} of which a query reads: "
        lost = f"from about {rounded(min(leads) * rows)} on, its lead may be gone" if leads else ""
        limit += lost or "it slows down with more"
    elif memory and size:
        limit = f"; the index fills {size_text(memory)} of memory at about {rounded(memory / size * rows)}"
    return f"{rows:,.0f}{limit}. Measure again at {rounded(10 * rows)}."


def read_share(run: Run) -> float:
    """Return which share of the rows a query reads, 0 where it is not known."""
    return 1.0 if run.attrs.get(EXACT_SEARCH) else number(run, "scanned_share") or 0.0


def rounded(count: float) -> str:
    """Write a number of rows with two digits."""
    return f"{float(f'{count:.2g}'):,.0f}"


def describe_cost(run: Run, need: Sequence[MemoryNeed]) -> str:
    """Say what the index takes: to build, on disk, in memory, and what limits the last statement."""
    seconds, size = build_seconds(run), run.metrics["indexsize"] * KIB
    built = [f"built once, in {three_digits(seconds)} s"] if seconds else []
    built += [f"{size_text(size)} on disk"] if size else []
    parts = [", ".join(built)] if built else []
    if own := [one for one in need if one.algorithm == run.series.family]:
        parts.append(memory_in_short(own))
    elif note := run.attrs.get(TIERS_LEFT_OUT):
        parts.append(str(note).partition(":")[0])
    return f"{'; '.join(parts) or 'not known'}."


def nothing_reached(runs: Sequence[Run], target: float) -> str:
    """Say that no result reaches the recall."""
    highest = max(runs, key=lambda run: run.metrics["recall"])
    return (
        f"No result reaches a recall of {target:g}. The highest is {highest.metrics['recall']:.4f}, by"
        f" {highest.algorithm}. --target-recall lowers the target."
    )


def list_short(runs: Sequence[Run], target: float) -> dict[str, float]:
    """Return the highest recall of each algorithm that does not reach the target under any conditions."""
    highest: dict[str, float] = {}
    for run in runs:
        highest[run.series.family] = max(highest.get(run.series.family, 0.0), run.metrics["recall"])
    reaching = {run.series.family for run in runs if may_reach(run, target)}
    return {name: highest[name] for name in sorted(highest) if name not in reaching}


def unmeasured(
    runs: Sequence[Run], compared: Sequence[Comparison], has_memory: bool, has_writes: bool
) -> list[Statement]:
    """Say what these results leave open, and what measures it."""
    open_questions = []
    families = {run.series.family for run in runs}
    alone = [c for c in compared if len({run.series.family for run in c.runs}) < len(families)]
    if len(compared) == 1 and compared[0].clients == 1:
        open_questions.append("many clients (run.py --clients 1,32)")
    elif compared and all(comparison.clients > 1 for comparison in compared):
        open_questions.append("one client (run.py --clients 1)")
    if alone:
        loads = listed(list(dict.fromkeys(comparison.client_text for comparison in alone)))
        open_questions.append(f"all indexes under the same conditions, with {loads}")
    if not has_memory and not any(is_on_tier(run) or TIERS_LEFT_OUT in run.attrs for run in runs):
        open_questions.append("memory (run.py --tiers mini)")
    if not has_writes:
        open_questions.append("writes")
    known = set(chain(*(run.attrs for run in runs)))
    if "plan" in known and "query_sql" not in known:
        open_questions.append("the SQL, which earlier versions did not store (--force)")
    if all(int(number(run, "run_count") or 0) < FEWEST_RUNS for run in runs):
        open_questions.append(f"how certain this is (run.py --runs {FEWEST_RUNS})")
    for command, names in not_installed(runs).items():
        open_questions.append(f"not installed: {listed(names)} ({command})")
    return [Statement("Not measured", f"{'; '.join(open_questions)}.")] if open_questions else []


def not_installed(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Return the algorithms without a result that were not installed, by the command that installs them."""
    found: dict[str, list[str]] = {}
    measured = {run.series.name for run in runs}
    for run in runs:
        for name, command in from_json(run.attrs.get(NOT_INSTALLED), dict[str, Any]()).items():
            if name not in {*measured, *chain(*found.values())}:
                found.setdefault(str(command), []).append(name)
    return found

"""What the reader of a report came for, in plain sentences: which is the fastest, its cost, its memory."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ann_benchmarks.common.numbers import size_text, three_digits
from ann_benchmarks.results.at_recall import may_reach
from ann_benchmarks.results.comparable import Comparison, comparisons, is_on_tier, least_memory, ram
from ann_benchmarks.results.measurement import OVERSTATED
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import Run, number
from ann_benchmarks.statistics.differences import ERROR_RATE
from ann_benchmarks.statistics.speeds import BETWEEN, EXACT, WITHIN
from ann_benchmarks.views.builds import index_statements
from ann_benchmarks.views.filters import filter_statements
from ann_benchmarks.views.memory import MemoryNeed, memory_in_short, memory_statements, needs
from ann_benchmarks.views.parts import (
    Statement,
    doubt,
    first_names,
    lead_text,
    listed,
    relation,
)
from ann_benchmarks.views.recalls import tail_statements
from ann_benchmarks.views.workloads import insert_statements, write_statements

RATE_WAS_GIVEN = "The throughput was given and says nothing about the algorithms: compare their latencies."
LEAST_OVERSTATED = 0.0005  # recall; the choice of a query argument that adds less is not mentioned
OVERSHOT = 0.02  # recall above the target; less is not mentioned


@dataclass(frozen=True)
class Answer:
    """All answers about one dataset and number of neighbours."""

    dataset: str
    count: int
    statements: Sequence[Statement]


def find_answers(runs: Iterable[Run], records: Iterable[Record], target: float) -> list[Answer]:
    """Return what the results of each dataset and count say at a recall."""
    runs, records = list(runs), list(records)
    found = []
    places = {(run.dataset, run.count) for run in runs} | {(rec.dataset, rec.count) for rec in records}
    for dataset, count in sorted(places):
        here = [run for run in runs if (run.dataset, run.count) == (dataset, count)]
        written = [record for record in records if (record.dataset, record.count) == (dataset, count)]
        said = statements(here, bool(written), target) if here else []
        said += [*insert_statements(written), *write_statements(written)]
        found.append(Answer(dataset, count, said))
    return found


def statements(runs: Sequence[Run], has_writes: bool, target: float) -> list[Statement]:
    """Return what results on one dataset say: first of strategies under filters, where there are any.

    The speed of algorithms is that without a filter, and is left out where nothing was measured so.
    """
    under = filter_statements(runs, target, ERROR_RATE / 2)
    plain = [run for run in runs if not run.series.filter] if under else runs
    if not plain:
        reaching = [one for one in comparisons(runs, target) if one.fastest]
        built = index_statements(reaching[0]) if reaching else []
        memory = memory_statements(needs(runs, target))
        return [*under, *built, *memory, *unmeasured(runs, [], False, has_writes)]
    return [*under, *speed_statements(plain, has_writes, target, ERROR_RATE / 2 if under else ERROR_RATE)]


def speed_statements(
    runs: Sequence[Run], has_writes: bool, target: float, error_rate: float
) -> list[Statement]:
    """Say which algorithm is the fastest, what it costs and which memory it needs."""
    compared = comparisons(runs, target)
    reaching = [comparison for comparison in compared if comparison.fastest]
    if not reaching:
        about, text = ("Recall", nothing_reached(runs, target)) if compared else ("Speed", RATE_WAS_GIVEN)
        return [Statement(about, text), *unmeasured(runs, compared, False, has_writes)]
    # One client, and the most of them: what lies between is in the pictures.
    shown = [reaching[0], *reaching[-1:]] if len(reaching) > 1 else reaching
    need = needs(runs, target)
    scarce = [least for one in shown if (least := least_memory(runs, target, one))]
    rate = error_rate / (len(shown) + len(scarce))  # all statements together err at error_rate
    return [
        *summarise(shown, scarce, need, rate),
        *(Statement(f"Speed, {one.client_text}", speed(one, rate)) for one in shown),
        *missed(runs, target),
        *tail_statements(reaching[0].fastest.values()),
        *index_statements(reaching[0]),
        *memory_statements(need),
        *unmeasured(runs, compared, bool(need), has_writes),
    ]


def summarise(
    shown: Sequence[Comparison], scarce: Sequence[Comparison], need: Sequence[MemoryNeed], error_rate: float
) -> list[Statement]:
    """Return the answer in a few sentences, nothing where no algorithms were compared.

    `scarce` are the comparisons with the least memory.
    """
    speeds = rankings(shown, error_rate)
    if not speeds:
        return []
    sentences = [speeds, *([memory_in_short(need)] if need else [])]
    if scarce:
        least = " and ".join(dict.fromkeys(f"{size_text(ram(one.runs[0]))} of RAM" for one in scarce))
        there = rankings(scarce, error_rate).removeprefix("with ")
        sentences.append(f"with {least}, the least at which all were measured, and {there}")
    return [Statement("In short", " ".join(f"{text[0].upper()}{text[1:]}." for text in sentences))]


def rankings(compared: Sequence[Comparison], error_rate: float) -> str:
    """Say for each number of clients which is the fastest."""
    return "; ".join(text for comparison in compared if (text := ranking(comparison, error_rate)))


def ranking(comparison: Comparison, error_rate: float) -> str:
    """Name the fastest, those that noise does not separate from it, and how far the others are behind."""
    ratios = comparison.contest.ratios(error_rate)
    if not ratios:
        return ""
    name = next(iter(comparison.fastest))
    alike = [other for other, found in ratios.items() if found.is_noise or not found.is_fair]
    apart = {other: found for other, found in ratios.items() if other not in alike}
    behind = lead_text(apart)
    if any(not found.is_sure for found in apart.values()):
        doubts = [doubt(comparison.fastest[name], comparison.fastest[other])[0] for other in apart]
        behind += f" ({listed(list(dict.fromkeys(doubts)))})"
    filter = comparison.runs[0].series.filter
    who = f"with {comparison.client_text}" + (f" under the filter {filter}" if filter else "")
    if not alike:
        is_sure = all(found.is_sure for found in ratios.values())
        return f"{who}, {name} is {'the fastest:' if is_sure else 'ahead:'} {behind}"
    text = f"{who}, {listed(first_names([name, *alike]))} cannot be told apart"
    return f"{text}, and {name} is {behind}" if behind else text


def nothing_reached(runs: Sequence[Run], target: float) -> str:
    """Say that no result reaches the recall."""
    highest = max(runs, key=lambda run: run.metrics["recall"])
    return (
        f"No result reaches a recall of {target:g}. The highest is {highest.metrics['recall']:.4f}, of"
        f" {highest.algorithm}. --target-recall lowers the target."
    )


def speed(comparison: Comparison, error_rate: float) -> str:
    """Say which algorithm is the fastest at a recall, and by how much."""
    ratios = comparison.contest.ratios(error_rate)
    name, *others = comparison.fastest
    is_ahead = ratios and all(found.is_sure and found.recall is None for found in ratios.values())
    sentences = [
        f"At a recall of {comparison.target:g}{comparison.place_text}, {name}"
        f" {'is the fastest:' if is_ahead else 'answers'} {pace(comparison, name)}."
    ]
    for other in others:
        sentences.append(
            f"{relation(name, other, ratios[other])}: {other} answers {pace(comparison, other)}."
        )
    doubts: dict[tuple[str, str], list[str]] = {}
    for other in (other for other, found in ratios.items() if not found.rounds):
        doubts.setdefault(doubt(comparison.fastest[name], comparison.fastest[other]), [name]).append(other)
    sentences += [f"{listed(names)} were {how}{advice}." for (how, advice), names in doubts.items()]
    if torn := [name for name, run in comparison.fastest.items() if run.attrs.get("runs_disagree")]:
        sentences.append(f"The runs of {listed(torn)} differ by more than noise: something disturbed them.")
    return " ".join(sentences)


def pace(comparison: Comparison, name: str) -> str:
    """Write the throughput of an algorithm at the recall, and the recall and tail latency behind it."""
    runs, standing = comparison.standings[name].runs, comparison.standings[name].standing
    recalls = [run.metrics["recall"] for run in runs]
    recall = f"recall {recalls[0]:.3f}"
    if standing.reach == BETWEEN:
        recall = f"between recall {min(recalls):.3f} and {max(recalls):.3f}"
    elif standing.reach == EXACT:
        recall += ", exact"
    elif standing.reach == WITHIN:
        recall += ", whose interval reaches the target"
    elif recalls[0] > comparison.target + OVERSHOT:
        recall += ", well above the target"
    elif (overstated := number(runs[0], OVERSTATED) or 0.0) >= LEAST_OVERSTATED:
        recall += f", {recalls[0] - overstated:.3f} with queries that it was not searched with"
    rate = three_digits(standing.estimate.value)
    p99 = runs[0].metrics["p99"]
    whose = f" at recall {recalls[0]:.3f}" if standing.reach == BETWEEN else ""  # else it stands before
    tail = f", p99 {three_digits(p99)} ms{whose}" if math.isfinite(p99) else ""
    return f"{rate} queries/s ({recall}{tail})"


def missed(runs: Sequence[Run], target: float) -> list[Statement]:
    """Say which algorithms do not reach the recall under any conditions."""
    highest: dict[str, float] = {}
    for run in runs:
        highest[run.series.family] = max(highest.get(run.series.family, 0.0), run.metrics["recall"])
    reaching = {run.series.family for run in runs if may_reach(run, target)}
    short = [f"{name} (highest: {highest[name]:.4f})" for name in sorted(highest) if name not in reaching]
    return [Statement("Recall", f"{target:g} was not reached by {listed(short)}.")] if short else []


def unmeasured(
    runs: Sequence[Run], compared: Sequence[Comparison], has_memory: bool, has_writes: bool
) -> list[Statement]:
    """Say what these results leave open."""
    open_questions = []
    families = {run.series.family for run in runs}
    alone = [c for c in compared if len({run.series.family for run in c.runs}) < len(families)]
    if len(compared) == 1 and compared[0].clients == 1:
        open_questions.append("many clients (run.py --clients 1,32)")
    elif compared and all(comparison.clients > 1 for comparison in compared):
        open_questions.append("one client (run.py --clients 1)")
    open_questions += [
        f"all of {listed(sorted(families))} with {comparison.client_text} under the same conditions"
        for comparison in alone[:3]
    ]
    if not has_memory and not any(is_on_tier(run) for run in runs):
        open_questions.append("how much memory is needed (run.py --tiers mini)")
    if not has_writes:
        open_questions.append("inserts, updates and deletes")
    if all(int(number(run, "run_count") or 0) < 3 for run in runs):
        open_questions.append("how sure the figures are (requires three runs: run.py --runs 3)")
    return [Statement("Not measured", f"{'; '.join(open_questions)}.")] if open_questions else []

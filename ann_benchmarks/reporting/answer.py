"""What the reader of a report came for, in plain sentences: which is the fastest, its cost, its memory."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ann_benchmarks.common.numbers import KIB, size_text, three_digits
from ann_benchmarks.results.comparable import (
    Comparison,
    comparisons,
    family,
    is_on_tier,
    ram,
    with_least_memory,
)
from ann_benchmarks.results.metrics import qps_at_recall
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import Run, number

from .builds import IndexNames
from .memory import Need, memory_in_short, memory_statements, needs
from .statements import Statement, listed, mean_rate, pace, ratio
from .workloads import workload_statements

RATE_WAS_GIVEN = "The throughput was given and says nothing about the algorithms: compare their latencies."
OVERSHOT = 0.02  # by which a recall lies above the target, that a reader should know


@dataclass(frozen=True)
class Answer:
    """All answers about one dataset and number of neighbours."""

    dataset: str
    count: int
    statements: Sequence[Statement]


def answers(runs: Iterable[Run], records: Iterable[Record], target: float) -> list[Answer]:
    """Return what the results of each dataset and count say at a recall."""
    runs, records = list(runs), list(records)
    found = []
    places = {(run.dataset, run.count) for run in runs} | {(rec.dataset, rec.count) for rec in records}
    for dataset, count in sorted(places):
        here = [run for run in runs if (run.dataset, run.count) == (dataset, count)]
        written = [record for record in records if (record.dataset, record.count) == (dataset, count)]
        of_queries = statements(here, bool(written), target) if here else []
        found.append(Answer(dataset, count, [*of_queries, *workload_statements(written)]))
    return found


def statements(runs: Sequence[Run], has_writes: bool, target: float) -> list[Statement]:
    """Return what results on one dataset say."""
    compared = comparisons(runs, target)
    reaching = [comparison for comparison in compared if comparison.fastest]
    if not reaching:
        about, text = ("Recall", nothing_reached(runs, target)) if compared else ("Speed", RATE_WAS_GIVEN)
        return [Statement(about, text), *unmeasured(runs, compared, False, has_writes)]
    # One client, and the most of them: what lies between is in the pictures.
    shown = [reaching[0], *reaching[-1:]] if len(reaching) > 1 else reaching
    need = needs(runs, target)
    scarce = [least for one in shown if (least := with_least_memory(runs, target, one))]
    return [
        *in_short(shown, scarce, need),
        *(Statement(f"Speed, {one.who_asks}", speed(one, target)) for one in shown),
        *missed(runs, target),
        *costs(reaching[0]),
        *memory_statements(need),
        *unmeasured(runs, compared, bool(need), has_writes),
    ]


def in_short(
    shown: Sequence[Comparison], scarce: Sequence[Comparison], need: Sequence[Need]
) -> list[Statement]:
    """Return the answer in a few sentences, nothing where no algorithms were compared.

    `scarce` are the comparisons with the least memory.
    """
    speeds = rankings(shown)
    if not speeds:
        return []
    sentences = [speeds, *([memory_in_short(need)] if need else [])]
    if scarce:
        least = " and ".join(dict.fromkeys(f"{size_text(ram(one.runs[0]))} of RAM" for one in scarce))
        there = rankings(scarce).removeprefix("with ")
        sentences.append(f"with {least}, the least that was measured, and {there}")
    return [Statement("In short", " ".join(f"{text[0].upper()}{text[1:]}." for text in sentences))]


def rankings(compared: Sequence[Comparison]) -> str:
    """Say for each number of clients which is the fastest."""
    return "; ".join(text for comparison in compared if (text := ranking(comparison)))


def ranking(comparison: Comparison) -> str:
    """Name the fastest, those that noise does not separate from it, and how far the others are behind."""
    (name, best), *others = comparison.fastest.items()
    ratios = {other: ratio(best, run) for other, run in others}
    if not ratios:
        return ""
    alike = [other for other, found in ratios.items() if found.is_noise]
    behind = listed(
        [
            f"{three_digits(found.value)} times as fast as {other}"
            + (f" ({found.certainty})" if found.interval is None else "")
            for other, found in ratios.items()
            if other not in alike
        ]
    )
    if not alike:
        return f"with {comparison.who_asks}, {name} is the fastest: {behind}"
    text = f"with {comparison.who_asks}, {listed([name, *alike])} show no difference beyond noise"
    return f"{text}, and {name} is {behind}" if behind else text


def nothing_reached(runs: Sequence[Run], target: float) -> str:
    """Say that no result reaches the recall."""
    highest = max(runs, key=lambda run: run.metrics["k-nn"])
    return (
        f"No result reaches a recall of {target:g}. The highest is {highest.metrics['k-nn']:.4f}, of"
        f" {highest.algorithm}. --target-recall lowers the target."
    )


def speed(comparison: Comparison, target: float) -> str:
    """Say which algorithm is the fastest at a recall, and by how much."""
    ranked = sorted(comparison.fastest.items(), key=lambda item: -mean_rate(item[1]))
    (name, best), *others = ranked
    compared = [(other, run, ratio(best, run)) for other, run in others]
    is_ahead = compared and not compared[0][2].is_noise
    sentences = [
        f"At a recall of at least {target:g}{comparison.where}, {name}"
        f" {'is the fastest:' if is_ahead else 'answers'} {pace(best)} queries/s ({details(best, target)})."
    ]
    for other, run, found in compared:
        if found.is_noise:
            times = f"ratio {three_digits(found.value)}, {found.certainty}"
            relation = f"{name} and {other} show no difference beyond noise ({times})"
        else:
            relation = f"{name} is {three_digits(found.value)} times as fast as {other} ({found.certainty})"
        sentences.append(f"{relation}: {other} answers {pace(run)} queries/s ({details(run, target)}).")
    if torn := [name for name, run in ranked if run.attrs.get("runs_disagree")]:
        sentences.append(f"The runs of {listed(torn)} differ by more than noise: something disturbed them.")
    return " ".join(sentences)


def details(run: Run, target: float) -> str:
    """Write recall and tail latency of a result."""
    recall = run.metrics["k-nn"]
    far = ", well above the target" if recall > target + OVERSHOT else ""
    p99 = run.metrics["p99"]
    tail = f", p99 {three_digits(p99)} ms" if math.isfinite(p99) else ""
    return f"recall {recall:.3f}{far}{tail}"


def missed(runs: Sequence[Run], target: float) -> list[Statement]:
    """Say which algorithms do not reach the recall under any conditions."""
    highest: dict[str, float] = {}
    for run in runs:
        highest[family(run)] = max(highest.get(family(run), 0.0), run.metrics["k-nn"])
    reaching = {family(run) for run in runs if qps_at_recall(run.metrics, target) > 0}
    short = [f"{name} (highest: {highest[name]:.4f})" for name in sorted(highest) if name not in reaching]
    return [Statement("Recall", f"{target:g} was not reached by {listed(short)}.")] if short else []


def costs(comparison: Comparison) -> list[Statement]:
    """Say how long the indexes of a comparison took to build, and how large they are."""
    runs = list(comparison.fastest.values())
    names = IndexNames(comparison.runs)
    seconds = {names.of(run): took for run in runs if (took := index_seconds(run)) > 0}
    sizes = {family(run): run.metrics["indexsize"] * KIB for run in runs if run.metrics["indexsize"] > 0}
    which = f"For the indexes that are the fastest with {comparison.who_asks}: " if len(runs) > 1 else ""
    found = []
    if seconds:
        ranked = ranked_costs(seconds, lambda s: f"{three_digits(s)} s", "as long")
        found.append(Statement("Building the index", which + ranked))
    if sizes:
        found.append(Statement("Size of the index", ranked_costs(sizes, size_text, "as large")))
    return found


def ranked_costs(costs: dict[str, float], write: Callable[[float], str], how: str) -> str:
    """Write costs, the smallest first, the others as multiples of it."""
    (name, least), *others = sorted(costs.items(), key=lambda item: item[1])
    texts = [f"{name} {write(least)}"]
    texts += [f"{other} {write(cost)}, {three_digits(cost / least)} times {how}" for other, cost in others]
    return "; ".join(texts) + "."


def index_seconds(run: Run) -> float:
    """Return how long the index took without the loading or, if no other time is known, with it."""
    return number(run, "index_build_time") or run.metrics["build"]


def unmeasured(
    runs: Sequence[Run], compared: Sequence[Comparison], has_memory: bool, has_writes: bool
) -> list[Statement]:
    """Say what these results leave open."""
    open_questions = []
    families = {family(run) for run in runs}
    alone = [c for c in compared if len({family(run) for run in c.runs}) < len(families)]
    if len(compared) == 1 and compared[0].clients == 1:
        open_questions.append("many clients (run.py --clients 1,32)")
    elif compared and all(comparison.clients > 1 for comparison in compared):
        open_questions.append("one client (run.py --clients 1)")
    open_questions += [
        f"all of {listed(sorted(families))} with {comparison.who_asks} under the same conditions"
        for comparison in alone[:3]
    ]
    if not has_memory and not any(is_on_tier(run) for run in runs):
        open_questions.append("how much memory is needed (run.py --tiers mini)")
    if not has_writes:
        open_questions.append("inserts, updates and deletes")
    if all(int(number(run, "run_count") or 0) < 3 for run in runs):
        open_questions.append("how sure the figures are (requires three runs: run.py --runs 3)")
    return [Statement("Not measured", f"{'; '.join(open_questions)}.")] if open_questions else []

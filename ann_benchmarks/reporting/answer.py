"""What the reader of a report came for, in plain sentences: which is the fastest, its cost, its memory."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ann_benchmarks.common.numbers import KIB, factor, size_text
from ann_benchmarks.results.comparable import Comparison, comparisons, family, is_on_tier, with_least_memory
from ann_benchmarks.results.metrics import qps_at_recall
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import Run, number

from .in_short import in_short
from .memory import memory_statements, needs
from .naming import IndexNames
from .ratios import Ratio, rates, ratio
from .statements import Statement, listed, three_digits
from .workload_answer import workload_statements

RATE_WAS_GIVEN = "The throughput was given, and says nothing of the algorithms: compare their latencies."
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
        of_it = [run for run in runs if (run.dataset, run.count) == (dataset, count)]
        written = [record for record in records if (record.dataset, record.count) == (dataset, count)]
        told = statements(of_it, bool(written), target) if of_it else []
        found.append(Answer(dataset, count, [*told, *workload_statements(written)]))
    return found


def statements(runs: Sequence[Run], has_writes: bool, target: float) -> list[Statement]:
    """Return what results on one dataset say."""
    compared = comparisons(runs, target)
    telling = [comparison for comparison in compared if comparison.fastest]
    if not telling:
        text = nothing_reached(runs, target) if compared else RATE_WAS_GIVEN
        about = "Recall" if compared else "Speed"
        return [Statement(about, text), *unmeasured(runs, compared, False, has_writes)]
    # One client, and as many as there were: what lies between them is in the pictures.
    shown = [telling[0], *telling[-1:]] if len(telling) > 1 else telling
    need = needs(runs, target)
    scarce = [least for one in shown if (least := with_least_memory(runs, target, one))]
    return [
        *in_short(shown, scarce, need),
        *(Statement(f"Speed, {one.who_asks}", speed(one, target)) for one in shown),
        *missed(runs, target),
        *costs(telling[0]),
        *memory_statements(need),
        *unmeasured(runs, compared, bool(need), has_writes),
    ]


def nothing_reached(runs: Sequence[Run], target: float) -> str:
    """Say that no result reaches the recall."""
    highest = max(runs, key=lambda run: run.metrics["k-nn"])
    return (
        f"No result reaches a recall of {target:g}; the highest is {highest.metrics['k-nn']:.4f}, of"
        f" {highest.algorithm}. --target-recall asks for less."
    )


def speed(comparison: Comparison, target: float) -> str:
    """Say which algorithm is the fastest at a recall, and by how much."""
    ranked = sorted(comparison.fastest.items(), key=lambda item: -mean(rates(item[1])))
    (name, best), *others = ranked
    sentence = f"At a recall of at least {target:g}{comparison.where}, "
    if not others:
        return f"{sentence}{name} answers {pace(best)} queries/s ({details(best, target)})."
    compared = [(other, run, ratio(rates(best), rates(run))) for other, run in others]
    if compared[0][2].is_noise:
        second, run, found = compared[0]
        sentence += (
            f"{name} and {second} show no difference beyond noise: {pace(best)} and {pace(run)} queries/s,"
            f" {times(found)} ({name}: {details(best, target)}; {second}: {details(run, target)})."
        )
        rest = compared[1:]
    else:
        sentence += f"{name} is the fastest: {pace(best)} queries/s ({details(best, target)})."
        rest = compared
    told = [sentence, *(f"It does {against(*other, target)}." for other in rest)]
    torn = [name for name, run in ranked if run.attrs.get("runs_disagree")]
    if torn:
        told.append(f"The runs of {listed(torn)} differ by more than noise: something else was going on.")
    return " ".join(told)


def against(name: str, run: Run, found: Ratio, target: float) -> str:
    """Say how many times as much as another algorithm's the throughput is."""
    unsure = ", which is no difference beyond noise" if found.is_noise else ""
    return f"{times(found)} the {pace(run)} queries/s of {name}{unsure} ({details(run, target)})"


def times(found: Ratio) -> str:
    """Write a ratio with what is known of how sure it is."""
    if found.interval is None:
        return f"{factor(found.value)} times (from single runs, so that noise is not ruled out)"
    low, high = map(factor, found.interval)
    return f"{factor(found.value)} times (95% interval {low} to {high})"


def details(run: Run, target: float) -> str:
    """Write recall and tail latency of a result."""
    recall = run.metrics["k-nn"]
    far = ", well above what was asked for" if recall > target + OVERSHOT else ""
    return f"recall {recall:.3f}{far}, p99 {three_digits(run.metrics['p99'])} ms"


def pace(run: Run) -> str:
    """Write the mean throughput of the runs of a result."""
    return three_digits(mean(rates(run)))


def mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return sum(values) / len(values)


def missed(runs: Sequence[Run], target: float) -> list[Statement]:
    """Say which algorithms do not reach the recall under any conditions."""
    highest: dict[str, float] = {}
    for run in runs:
        highest[family(run)] = max(highest.get(family(run), 0.0), run.metrics["k-nn"])
    reaching = {family(run) for run in runs if qps_at_recall(run.metrics, target) > 0}
    short = [f"{name} ({highest[name]:.4f})" for name in sorted(highest) if name not in reaching]
    if not short:
        return []
    return [Statement("Recall", f"{target:g} is not reached by {listed(short)}; in brackets their highest.")]


def costs(comparison: Comparison) -> list[Statement]:
    """Say how long the indexes that a comparison has used took to build, and how large they are."""
    runs = list(comparison.fastest.values())
    names = IndexNames(comparison.runs)
    seconds = {names.of(run): took for run in runs if (took := index_seconds(run)) > 0}
    sizes = {family(run): run.metrics["indexsize"] * KIB for run in runs if run.metrics["indexsize"] > 0}
    which = f"Of the indexes that are the fastest with {comparison.who_asks}: " if len(runs) > 1 else ""
    told = []
    if seconds:
        ranked = ranked_costs(seconds, lambda s: f"{three_digits(s)} s", "as long")
        told.append(Statement("Building the index", which + ranked))
    if sizes:
        told.append(Statement("Size of the index", ranked_costs(sizes, size_text, "as large")))
    return told


def ranked_costs(costs: dict[str, float], write: Callable[[float], str], how: str) -> str:
    """Write costs, the smallest first, the others with how many times as much they are."""
    (name, least), *others = sorted(costs.items(), key=lambda item: item[1])
    texts = [f"{name} {write(least)}"]
    texts += [f"{other} {write(cost)}, {factor(cost / least)} times {how}" for other, cost in others]
    return "; ".join(texts) + "."


def index_seconds(run: Run) -> float:
    """Return how long the index took without the loading, or, where that is all there is, with it."""
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
        open_questions.append("how sure the figures are (it takes three runs: run.py --runs 3)")
    return [Statement("Not measured", f"{'; '.join(open_questions)}.")] if open_questions else []

"""How much memory an algorithm needs: the least with which it keeps most of its throughput."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile

from ann_benchmarks.common.numbers import KIB, size_text, three_digits
from ann_benchmarks.common.output import counted
from ann_benchmarks.results.comparable import clients, comparable, family, is_on_tier, ratio_of
from ann_benchmarks.results.metrics import qps_at_recall
from ann_benchmarks.results.runs import Run
from ann_benchmarks.results.tiers import TierRun, as_tier_run

from .statements import Statement, listed

KEPT = 0.8  # of the throughput with all memory, that counts as enough
PLENTY = 4  # times the index and the table: as good as all memory, so that what such tiers differ by is noise


@dataclass(frozen=True)
class Need:
    """The least available RAM, in bytes, from which on `KEPT` of the throughput is there.

    `ram` is None where only all of the machine's memory suffices, `perhaps` what noise does not rule out and
    `least` the least that was measured. `whole` is what "all memory" is: None for the machine's, else the
    most RAM of any tier.
    """

    algorithm: str
    clients: int
    ram: int | None
    share: float  # of the throughput with all memory, at this RAM
    perhaps: int | None
    least: int
    index_size: float | None  # bytes
    whole: int | None
    plenty: int  # tiers, that of all memory included, whose median is the throughput with all memory
    half: int | None  # the most RAM with which there is less than half of it


def needs(runs: Iterable[Run], target: float) -> list[Need]:
    """Return the need of each algorithm with each number of clients, where several amounts were measured."""
    runs = [run for run in comparable(runs) if qps_at_recall(run.metrics, target) > 0]
    lines: dict[tuple[int, str], dict[str, list[TierRun]]] = {}
    for run in runs:
        if tier_run := as_tier_run(run):
            of_method = lines.setdefault((tier_run.clients, tier_run.algorithm), {})
            of_method.setdefault(tier_run.name, []).append(tier_run)
    found = []
    for place, by_name in sorted(lines.items()):
        best = max(map(by_ram, by_name.values()), key=len)
        off_tiers = [run for run in runs if (clients(run), family(run)) == place and not is_on_tier(run)]
        if need := need_of(best, off_tiers):
            found.append(need)
    return found


def by_ram(tier_runs: Iterable[TierRun]) -> dict[int | None, TierRun]:
    """Return the fastest at each amount of RAM, the most first, all of it (None) before any amount."""
    best: dict[int | None, TierRun] = {}
    for tier_run in sorted(tier_runs, key=lambda tier_run: -tier_run.run.metrics["qps"]):
        best.setdefault(tier_run.ram, tier_run)
    return dict(sorted(best.items(), key=lambda item: -(item[0] or float("inf"))))


def need_of(best: dict[int | None, TierRun], off_tiers: Sequence[Run]) -> Need | None:
    """Find the need of one line, whose first result is that with the most memory."""
    most = next(iter(best.values()))
    whole, is_all = most.run, most.ram is None
    if not is_all and off_tiers:
        whole, is_all = max(off_tiers, key=lambda run: run.metrics["qps"]), True
    plenty = {ram: found.run for ram, found in best.items() if ram is None or has_plenty(found, ram)}
    if is_all and plenty:
        plenty.setdefault(None, whole)
        whole = sorted(plenty.values(), key=lambda run: run.metrics["qps"])[(len(plenty) - 1) // 2]
    steps = [(ram, ratio_of(found.run, whole)) for ram, found in best.items() if ram is not None]
    if len(steps) + is_all < 2:
        return None
    enough = list(takewhile(lambda step: step[0] in plenty or step[1].value >= KEPT, steps))
    perhaps = list(
        takewhile(lambda s: s[0] in plenty or (s[1].interval or (0, s[1].value))[1] >= KEPT, steps)
    )
    return Need(
        algorithm=most.algorithm,
        clients=most.clients,
        ram=enough[-1][0] if enough else None,
        share=enough[-1][1].value if enough else 1.0,
        perhaps=perhaps[-1][0] if perhaps else None,
        least=steps[-1][0],
        index_size=most.index_size,
        whole=None if is_all else most.ram,
        plenty=len(plenty) if is_all else 1,
        half=next((ram for ram, found in steps if ram not in plenty and found.value < 0.5), None),
    )


def has_plenty(found: TierRun, ram: int) -> bool:
    """Whether a tier's RAM is `PLENTY` times the index and the table, whose sizes have to be known."""
    table = found.run.attrs.get("table_size")  # KiB
    if not found.index_size or not isinstance(table, (int, float)):
        return False
    return ram >= PLENTY * (found.index_size + table * KIB)


def memory_in_short(found: Sequence[Need]) -> str:
    """Say how much each algorithm needs with the number of clients with which it needs the most."""
    most: dict[str, float] = {}
    for need in found:
        most[need.algorithm] = max(most.get(need.algorithm, 0.0), need.ram or float("inf"))
    needing: dict[float, list[str]] = {}
    for name, ram in most.items():
        needing.setdefault(ram, []).append(name)
    texts = []
    for ram, names in sorted(needing.items()):
        much = "more RAM than any reduced amount that was measured"
        much = much if ram == float("inf") else f"{size_text(ram)} of RAM"
        texts.append(f"{listed(names)} need{'s' * (len(names) == 1)} {much}")
    return f"to keep {KEPT:.0%} of the throughput, {'; '.join(texts)}"


def memory_statements(found: Sequence[Need]) -> list[Statement]:
    """Say how much memory each algorithm needs, for each number of clients."""
    statements = []
    for number, group in groupby(found, lambda need: need.clients):
        text = f"The least available RAM that keeps {KEPT:.0%} of the throughput with all memory: "
        text += f"{'; '.join(map(need_text, group))}."
        statements.append(Statement(f"Memory, {counted(number, 'client')}", text))
    if statements:
        statements[-1] = Statement(
            statements[-1].about, " ".join([statements[-1].text, *about_memory(found)])
        )
    return statements


def about_memory(found: Sequence[Need]) -> list[str]:
    """Say what is meant by memory."""
    sentences = ["Available RAM is shared_buffers plus what the system can cache."]
    if wholes := sorted({need.whole for need in found if need.whole}):
        most = listed([size_text(whole) for whole in wholes])
        sentences.append(f"The most that was measured, {most}, stands for all memory.")
    if any(need.plenty > 1 for need in found):
        sentences.append(
            f"Tiers with at least {PLENTY} times the index and the table count as all memory: their median is"
            " the throughput with all memory, because they differ by noise alone."
        )
    if all(need.index_size and need.least > need.index_size for need in found):
        sentences.append("No tier had less RAM than the size of the index: smaller tiers would say more.")
    return sentences


def need_text(need: Need) -> str:
    """Write one need, in absolute numbers and relative to the index."""
    notes = []
    if need.ram is not None:
        notes += [f"{three_digits(need.ram / need.index_size)} times its index"] if need.index_size else []
        notes += ["the least that was measured"] if need.ram == need.least else []
        notes.append(f"{need.share:.0%} kept")
    if need.perhaps is not None and need.perhaps != need.ram:
        notes.append(f"{size_text(need.perhaps)} may suffice within noise")
    if need.half is not None:
        notes.append(f"less than half kept with {size_text(need.half)}")
    much = "more than any reduced amount" if need.ram is None else size_text(need.ram)
    return f"{need.algorithm} {much}" + (f" ({', '.join(notes)})" if notes else "")

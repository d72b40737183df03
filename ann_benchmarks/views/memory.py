"""How much memory an algorithm needs: the least with which it keeps most of its throughput."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile

from ann_benchmarks.common.numbers import KIB, counted, size_text, three_digits
from ann_benchmarks.results.at_recall import AtRecall, find_at_recall, ratio_of_throughputs
from ann_benchmarks.results.comparable import clients, comparable, is_on_tier
from ann_benchmarks.results.runs import Run
from ann_benchmarks.statistics.contests import Ratio

from .parts import Statement, listed
from .tiers import share_note, tier_runs

KEPT = 0.8  # of the throughput with all memory, that counts as enough
LOST = 0.5  # of it: with less than this, most is lost, which noise must not allow where there is enough
PLENTY = 4  # times the index and the table: as good as all memory, so that what such tiers differ by is noise


@dataclass(frozen=True)
class MemoryNeed:
    """The least available RAM, in bytes, from which on `KEPT` of the throughput at a recall is there.

    Noise may allow somewhat less, but not less than `LOST`. `ram` is None where only all of the machine's
    memory suffices, `perhaps` what noise does not rule out and `least` the least that was measured. `whole`
    is what "all memory" is: None for the machine's, else the most RAM of any tier.
    """

    algorithm: str
    clients: int
    ram: int | None
    kept: Ratio | None  # of the throughput with all memory, at this RAM, None where it is all memory
    perhaps: int | None
    least: int
    index_size: float | None  # bytes
    whole: int | None
    plenty: int  # tiers, that of all memory included, whose median is the throughput with all memory
    half: int | None  # the most RAM with which there is less than half of it
    doubts: Sequence[str]  # how it was measured, where not all of it in the same rounds


def needs(runs: Iterable[Run], target: float) -> list[MemoryNeed]:
    """Return the need of each algorithm with each number of clients, where several amounts were measured."""
    runs = comparable(runs)
    lines: dict[tuple[int, str], dict[str, dict[int | None, list[Run]]]] = {}
    for one in tier_runs(runs):
        by_name = lines.setdefault((one.clients, contender(one.run)), {}).setdefault(one.name, {})
        by_name.setdefault(one.ram, []).append(one.run)
    found = []
    for place, by_method in sorted(lines.items()):
        off_tiers = [run for run in runs if (clients(run), contender(run)) == place and not is_on_tier(run)]
        ladders = [find_at_recall({None: off_tiers, **groups}, target) for groups in by_method.values()]
        best = max(ladders, key=len)
        if any(best) and len(best) > 1:
            found.append(find_need(*place, best))
    return found


def contender(run: Run) -> str:
    """Name what has a need of its own: an algorithm, under each filter and with each payload."""
    special = run.series.words("filter", "payload")
    return " ".join([run.series.family + share_note(run), *special])


def find_need(number: int, algorithm: str, best: Mapping[int | None, AtRecall]) -> MemoryNeed:
    """Find the need of one line, by what it has at a recall with each amount of RAM, None for all of it."""
    amounts = sorted((ram for ram in best if ram is not None), reverse=True)
    is_all = None in best
    plenty = {ram: best[ram] for ram in best if ram is None or has_plenty(best[ram].run, ram)}
    largest = whole = best[None if is_all else amounts[0]]
    if is_all:
        whole = sorted(plenty.values(), key=lambda at: at.qps)[(len(plenty) - 1) // 2]
    steps = {ram: ratio_of_throughputs(best[ram], whole) for ram in amounts}
    bounds = {ram: kept.interval or (kept.value, kept.value) for ram, kept in steps.items()}

    def suffices(ram: int) -> bool:
        kept, (low, _) = steps[ram], bounds[ram]
        return is_as_all(ram) or (kept.is_fair and kept.value >= KEPT and low >= LOST)

    def is_as_all(ram: int) -> bool:
        return ram in plenty or best[ram] is whole

    enough = list(takewhile(suffices, amounts))
    perhaps = list(takewhile(lambda ram: is_as_all(ram) or bounds[ram][1] >= KEPT, amounts))
    size = largest.run.metrics["indexsize"] * KIB / (largest.run.series.shards or 1)  # on each server
    once = [kept.how for ram, kept in steps.items() if best[ram] is not whole and not kept.rounds]
    return MemoryNeed(
        algorithm=algorithm,
        clients=number,
        ram=enough[-1] if enough else None,
        kept=steps[enough[-1]] if enough and best[enough[-1]] is not whole else None,
        perhaps=perhaps[-1] if perhaps else None,
        least=amounts[-1],
        index_size=size if size > 0 else None,
        whole=None if is_all else amounts[0],
        plenty=len(plenty) if is_all else 1,
        half=next((ram for ram in amounts if ram not in plenty and bounds[ram][1] < LOST), None),
        doubts=list(dict.fromkeys(once)),
    )


def has_plenty(run: Run, ram: int) -> bool:
    """Whether RAM is `PLENTY` times the index and the table; not where one of the sizes is unknown."""
    index, table = run.metrics["indexsize"], run.attrs.get("table_size")  # KiB
    if not index > 0 or not isinstance(table, (int, float)):
        return False
    return ram * (run.series.shards or 1) >= PLENTY * (index + table) * KIB


def memory_in_short(found: Sequence[MemoryNeed]) -> str:
    """Say how much each algorithm needs with the number of clients with which it needs the most."""
    most: dict[str, tuple[float, float]] = {}
    for need in found:
        ram, perhaps = most.get(need.algorithm, (0.0, 0.0))
        most[need.algorithm] = max(ram, need.ram or math.inf), max(perhaps, need.perhaps or math.inf)
    needing: dict[tuple[float, float], list[str]] = {}
    for name, both in most.items():
        needing.setdefault(both, []).append(name)
    texts = []
    for (ram, perhaps), names in sorted(needing.items()):
        much = "more RAM than any reduced amount that was measured"
        much = much if ram == math.inf else f"{size_text(ram)} of RAM"
        noise = f", but noise does not rule out {size_text(perhaps)}" if perhaps < ram else ""
        texts.append(f"{listed(names)} need{'s' * (len(names) == 1)} {much}{noise}")
    doubts = all_doubts(found)
    loads = " with any of these numbers of clients" if len({need.clients for need in found}) > 1 else ""
    text = f"to keep {KEPT:.0%} of the throughput{loads}, {'; '.join(texts)}"
    return text + (f" ({doubts})" if doubts else "")


def all_doubts(found: Iterable[MemoryNeed]) -> str:
    """Say how all of it was measured, where not in the same rounds."""
    return listed(list(dict.fromkeys(doubt for need in found for doubt in need.doubts)))


def memory_statements(found: Sequence[MemoryNeed]) -> list[Statement]:
    """Say how much memory each algorithm needs, for each number of clients, and what is meant by it."""
    texts = {}
    for number, group in groupby(found, lambda need: need.clients):
        text = f"The least available RAM that keeps {KEPT:.0%} of the throughput with all memory: "
        texts[number] = f"{text}{'; '.join(map(need_text, group))}."
    if not texts:
        return []
    sentences = ["Available RAM is shared_buffers plus what the system can cache."]
    if wholes := sorted({need.whole for need in found if need.whole}):
        most = listed([size_text(whole) for whole in wholes])
        sentences.append(f"The most that was measured, {most}, stands for all memory.")
    if any(need.plenty > 1 for need in found):
        sentences.append(
            f"Tiers with at least {PLENTY} times the index and the table count as all memory: their median is"
            " the throughput with all memory, because they differ by noise alone."
        )
    if doubts := all_doubts(found):
        sentences.append(f"The tiers were {doubts}, which changes more than these intervals show.")
    if all(need.index_size and need.least > need.index_size for need in found):
        sentences.append("No tier had less RAM than the size of the index: smaller tiers would say more.")
    texts[number] = " ".join([texts[number], *sentences])
    return [Statement(f"Memory, {counted(number, 'client')}", text) for number, text in texts.items()]


def need_text(need: MemoryNeed) -> str:
    """Write one need, in absolute numbers and relative to the index."""
    notes = []
    if need.ram is not None:
        notes += [f"{three_digits(need.ram / need.index_size)} times its index"] if need.index_size else []
        notes += ["the least that was measured"] if need.ram == need.least else []
        if need.kept and need.kept.value >= KEPT:
            sure = need.kept.interval
            notes.append(f"{need.kept.value:.0%} kept{'' if sure else ' in single runs'}")
            notes += [f"95% interval {sure.low:.0%} to {sure.high:.0%}"] if sure else []
    if need.perhaps is not None and need.perhaps != need.ram:
        notes.append(f"{size_text(need.perhaps)} may suffice within noise")
    if need.half is not None:
        notes.append(f"less than half kept with {size_text(need.half)}")
    much = "more than any reduced amount" if need.ram is None else size_text(need.ram)
    return f"{need.algorithm} {much}" + (f" ({', '.join(notes)})" if notes else "")

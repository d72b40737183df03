"""How much memory an algorithm needs: the least with which it surely keeps most of its throughput."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from ann_benchmarks.common.numbers import KIB, UNKNOWN, size_text, three_digits
from ann_benchmarks.results.at_recall import AtRecall, find_at_recall, ratio_of_throughputs
from ann_benchmarks.results.comparable import clients, comparable, is_on_tier
from ann_benchmarks.results.runs import Run
from ann_benchmarks.results.sessions import PLENTY, has_plenty, session_noise, session_text
from ann_benchmarks.statistics.contests import Ratio
from ann_benchmarks.statistics.judging import Doubts, Judgement, judge

from .parts import Part, known_table, listed
from .tiers import share_note, tier_runs

KEPT = 0.8  # of the throughput with all memory, that counts as enough


@dataclass(frozen=True)
class MemoryNeed:
    """The least available RAM, in bytes, from which on `KEPT` of the throughput at a recall is surely there.

    `ram` is None where no reduced amount surely does. `perhaps` is the least that noise does not rule out,
    None where it rules out all; `kept` is what it keeps. `whole` is what "all memory" is: None for the
    machine's, else the most RAM of any tier.
    """

    algorithm: str
    clients: int
    ram: int | None
    perhaps: int | None
    least: int  # of all that was measured of any algorithm
    kept: Ratio | None = None  # of the throughput with all memory, None where it is all memory
    index_size: float | None = None  # bytes
    whole: int | None = None
    plenty: int = 1  # tiers, that of all memory included, whose median is the throughput with all memory
    missing: Sequence[int] = ()  # amounts that others have a result with
    doubts: Sequence[str] = ()  # how it was measured, where not all of it in the same rounds


def needs(runs: Iterable[Run], target: float) -> list[MemoryNeed]:
    """Return the need of each algorithm with each number of clients, where several amounts were measured."""
    runs = comparable(runs)
    lines: dict[tuple[int, str], dict[str, dict[int | None, list[Run]]]] = {}
    amounts: dict[int, set[int]] = {}
    for one in tier_runs(runs):
        by_name = lines.setdefault((one.clients, contender(one.run)), {}).setdefault(one.name, {})
        by_name.setdefault(one.ram, []).append(one.run)
        amounts.setdefault(one.clients, set()).update([one.ram] if one.ram else [])
    found: dict[tuple[int, str], Mapping[int | None, AtRecall]] = {}
    for place, by_method in sorted(lines.items()):
        off_tiers = [run for run in runs if (clients(run), contender(run)) == place and not is_on_tier(run)]
        ladders = [find_at_recall({None: off_tiers, **groups}, target) for groups in by_method.values()]
        best = max(ladders, key=len)
        if any(best) and len(best) > 1:
            found[place] = best
    doubts = Doubts(session_noise(runs)).shared(len(found))
    needed = [find_need(*place, best, doubts) for place, best in found.items()]
    return [
        replace(
            need,
            least=min(amounts[need.clients]),
            missing=sorted(amounts[need.clients] - best.keys()),
        )
        for need, best in zip(needed, found.values(), strict=True)
    ]


def contender(run: Run) -> str:
    """Name what has a need of its own: an algorithm, under each filter and with each payload."""
    special = run.series.words("filter", "payload")
    return " ".join([run.series.family + share_note(run), *special])


def find_need(number: int, algorithm: str, best: Mapping[int | None, AtRecall], doubts: Doubts) -> MemoryNeed:
    """Find the need of one line, by what it has at a recall with each amount of RAM, None for all of it.

    Amounts are judged from the most to the least, and none after one that does not suffice: all of them
    together err no more often than one.
    """
    amounts = sorted((ram for ram in best if ram is not None), reverse=True)
    is_all = None in best
    plenty = {ram: best[ram] for ram in best if ram is None or has_plenty(best[ram].run)}
    largest = whole = best[None if is_all else amounts[0]]
    if is_all:
        whole = sorted(plenty.values(), key=lambda at: at.qps)[(len(plenty) - 1) // 2]
    steps = {
        ram: ratio_of_throughputs(best[ram], whole, doubts.error_rate, doubts.sessions)
        for ram in amounts
        if ram not in plenty and best[ram] is not whole
    }

    def keeps(ram: int) -> Judgement:
        if ram not in steps:
            return Judgement.YES
        kept = steps[ram]
        return judge(kept.interval, KEPT) if kept.is_fair else Judgement.UNSURE

    enough = list(takewhile(lambda ram: keeps(ram) == Judgement.YES, amounts))
    perhaps = list(takewhile(lambda ram: keeps(ram) > Judgement.NO, amounts))
    once = [kept.how for kept in steps.values() if not kept.rounds]
    size = largest.run.metrics["indexsize"] * KIB / (largest.run.series.shards or 1)  # on each server
    return MemoryNeed(
        algorithm=algorithm,
        clients=number,
        ram=enough[-1] if enough else None,
        perhaps=perhaps[-1] if perhaps else None,
        least=amounts[-1],
        kept=steps.get(perhaps[-1]) if perhaps else None,
        index_size=size if size > 0 else None,
        whole=None if is_all else amounts[0],
        plenty=len(plenty) if is_all else 1,
        doubts=[f"{how}, and {session_text(doubts.sessions)}" for how in dict.fromkeys(once)],
    )


def memory_in_short(found: Sequence[MemoryNeed]) -> str:
    """Say how much an algorithm needs with the number of clients with which it needs the most, and how sure.

    `found` are the needs of one algorithm.
    """
    most = max(one.ram or math.inf for one in found)
    perhaps = max(one.perhaps or math.inf for one in found)
    least, missing = found[0].least, sorted({ram for one in found for ram in one.missing})
    keep = f"of RAM to keep {KEPT:.0%} of the throughput"
    if perhaps == math.inf:
        text = f"more RAM than any reduced amount measured, to keep {KEPT:.0%} of the throughput"
    elif most == math.inf:
        text = f"perhaps {size_text(perhaps)} {keep}, which is not certain"
    else:
        text = f"at most {size_text(most)} {keep}"
        text += f", perhaps {size_text(perhaps)}" if perhaps < most else ""
    size = found[0].index_size or math.inf
    if most == least:
        text += ", the least that was measured"
        text += " and more than the index: less may suffice" if least > size else ""
    return text + (f"; no result with {listed(list(map(size_text, missing)))}" if missing else "")


def memory_parts(found: Sequence[MemoryNeed]) -> list[Part]:
    """Return a row for each algorithm and number of clients with the memory that it needs, and notes."""
    if not found:
        return []

    def sizes(each: Iterable[int | None]) -> str:
        return ", ".join(size_text(one) for one in each if one) or UNKNOWN

    columns = {
        "Index": [one.algorithm for one in found],
        "Clients": [str(one.clients) for one in found],
        "Least RAM": [least_text([one]) for one in found],
        "Times the index": [
            three_digits(one.ram / one.index_size) if one.ram and one.index_size else UNKNOWN for one in found
        ],
        "Kept with the least": [
            f"{one.kept.value:.0%} ({' to '.join(f'{end:.0%}' for end in one.kept.interval)})"
            if one.kept
            else UNKNOWN
            for one in found
        ],
        "No result with": [sizes(one.missing) for one in found],
    }
    caption = f"The least available RAM that keeps {KEPT:.0%} of the throughput with all memory"
    notes = ["Available RAM is shared_buffers plus what the system can cache."]
    if wholes := sorted({need.whole for need in found if need.whole}):
        notes.append(f"The most that was measured, {sizes(wholes)}, stands for all memory.")
    if any(need.plenty > 1 for need in found):
        notes.append(
            f"Tiers with at least {PLENTY} times the index and the table count as all memory: their median is"
            " the throughput with all memory, because they differ only by noise."
        )
    if doubts := listed(list(dict.fromkeys(doubt for need in found for doubt in need.doubts))):
        notes.append(f"The tiers were {doubts}.")
    if all(need.index_size and need.least > need.index_size for need in found):
        notes.append("No tier had less RAM than the size of the index: smaller tiers would say more.")
    return [known_table(columns, caption, ("Index",)), " ".join(notes)]


def least_text(found: Sequence[MemoryNeed]) -> str:
    """Write the least RAM that suffices with any number of clients, and the least that noise allows."""
    if not found:
        return UNKNOWN
    ram = max(one.ram or math.inf for one in found)
    perhaps = max(one.perhaps or math.inf for one in found)
    much = "more than measured" if ram == math.inf else size_text(ram)
    return f"{size_text(perhaps)} to {much}" if perhaps < ram else much

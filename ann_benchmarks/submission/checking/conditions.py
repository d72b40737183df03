"""How a point was measured: what disqualifies a claim that rests on it, and what was searched for in vain."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import byte_size, counted
from ann_benchmarks.common.text import from_json
from ann_benchmarks.load.request import Objective
from ann_benchmarks.load.spans import ALWAYS_WAITING, LARGE_SHARE, LATE_SHARE, NOTHING_LEFT
from ann_benchmarks.results.measurement import MARK, ROUNDS
from ann_benchmarks.results.remarks import FEW_QUERIES, MOST_OTHERS, RECALL_CHANGED
from ann_benchmarks.statistics.contests import FEWEST_ROUNDS
from ann_benchmarks.statistics.intervals import FEWEST_RUNS

from ..manifest import MANIFEST, Manifest
from .identity import MEMORY
from .points import CheckedPoint
from .rules import Findings

AGAIN = "measure it again"
OLDEST = timedelta(days=180)  # of a result when it is handed in
AHEAD = timedelta(hours=1)  # by which a clock may be wrong
ROUNDING = 1e-6
OFF, LEAST_OFF = 0.01, 2 << 20  # share and bytes of a tier's memory that are not corrected while it works
DISAGREE = "its runs differ by more than noise"


def _clients_were_limit(point: CheckedPoint) -> bool:
    """Whether the clients were the limit, by what is stored of their time and not by what it says."""
    if point.attrs.get("clients") is None:
        return False
    busy = point.number("client_machines_busy_share")
    busy = busy if busy is not None else point.number("machine_busy_share") or 0.0
    no_cpu = busy > NOTHING_LEFT and (point.number("client_cpu_share") or 0.0) > LARGE_SHARE
    if point.is_open:
        late, service = point.number("clients_late_seconds"), point.number("service_p50")
        is_late = late is not None and service is not None and late > LATE_SHARE * service
        is_limit = is_late or (bool(point.number("queries_unanswered")) and no_cpu)
    else:
        is_limit = (point.number("clients_waiting_share") or 0.0) < ALWAYS_WAITING or no_cpu
    return is_limit or bool(point.attrs.get("clients_were_limit"))


def _is_in_rounds(point: CheckedPoint) -> bool:
    """Whether it was measured in rounds, whose interval has what differs between them, as have its rivals."""
    return MARK in point.attrs and len(point.numbers(ROUNDS)) >= FEWEST_ROUNDS


def _recall_changed(point: CheckedPoint) -> bool:
    recalls = point.numbers("run_recalls") or [0.0]
    return max(recalls) - min(recalls) > RECALL_CHANGED


# What no claim may rest on: the rule, when it is broken, and what is said then.
CONDITIONS: tuple[tuple[str, Callable[[CheckedPoint], Any], str], ...] = (
    ("clients", _clients_were_limit, "its clients, not the server, were the limit"),
    ("runs", lambda one: len(one.run_seconds) < FEWEST_RUNS, "it has {runs}, fewer than {fewest_runs}"),
    ("warnings", lambda one: one.attrs.get("runs_disagree") and not _is_in_rounds(one), DISAGREE),
    ("warnings", lambda one: max(one.numbers("run_others_cpu"), default=0.0) > MOST_OTHERS,
     f"others took more than {MOST_OTHERS:.0%} of the machine's CPUs in a run"),
    ("warnings", lambda one: one.attrs.get("steady_state") is False, "its queue still grew"),
    ("warnings", lambda one: one.number("queries_unanswered"), "the rate was not kept"),
    ("warnings", lambda one: one.attrs.get("warmup_settled") is False,
     "the throughput still rose after the warm-up"),
    ("warnings", _recall_changed, "its recall changed between its runs"),
    ("warnings", lambda one: one.series.is_cold and one.attrs.get("caches_dropped") is not True,
     "its caches were not emptied before each run"),
    ("warnings", lambda one: (one.number("latency_queries") or 0) < FEW_QUERIES,
     f"fewer than {FEW_QUERIES} queries were counted"),
    ("warnings", lambda one: one.number("queries_in_train"),
     "some of its queries are rows of the training set"),
)  # fmt: skip


def check_conditions(point: CheckedPoint, is_claimed: bool, findings: Findings) -> None:
    """Refuse what disqualifies a claim, and warn of it where no claim rests on the point."""
    for rule, is_broken, text in CONDITIONS:
        if is_broken(point):
            problem = text.format(runs=counted(len(point.run_seconds), "run"), fewest_runs=FEWEST_RUNS)
            if is_claimed:
                findings.judge(point.file, rule, f"a claim rests on it, and {problem}", AGAIN)
            else:
                findings.warn(point.file, rule, problem)
    if point.attrs.get("runs_disagree") and _is_in_rounds(point):
        findings.warn(point.file, "warnings", DISAGREE)
    target = point.number("target_recall")
    if target is not None and target - RECALL_CHANGED <= point.recall < target - ROUNDING:
        findings.warn(point.file, "target", _lower_recall(point, target))


def memory_problems(point: CheckedPoint) -> Iterator[str]:
    """Yield that a simulated server had another memory than its name says."""
    named = MEMORY.fullmatch(point.series.tier_memory)
    if named is None or named[2] == "all":
        return
    promised = byte_size(named[2])
    if (said := point.number("tier_ram")) != promised:
        yield f"is named by a tier of {named[2]}, and says tier_ram {said}"
    measured = point.number("tier_available")
    measured = measured if measured is not None else point.number("tier_available_at_start")
    if measured is None:
        yield "does not say how much memory its tier had (tier_available)"
    elif abs(measured - promised) > max(OFF * promised, LEAST_OFF):
        yield f"missed its tier: the memory was {measured / promised - 1:+.1%} of what it is named by"


def target_problems(point: CheckedPoint) -> Iterator[str]:
    """Yield what was searched for and is not there: a recall, a query argument, a latency."""
    target = point.number("target_recall")
    # Answers to the same queries may differ, of an index that answers by chance.
    if target is not None and point.recall < target - RECALL_CHANGED:
        yield _lower_recall(point, target)
    parameter, value = point.attrs.get("target_parameter"), point.number("target_value")
    for name, setting in from_json(point.attrs.get("settings"), dict[str, Any]()).items():
        if value is None or name.rpartition(".")[2] != parameter or "." not in name:
            continue
        is_number = re.fullmatch(r"-?\d+(\.\d+)?", str(setting))
        if is_number and abs(float(setting) - value) > ROUNDING * abs(value):
            yield f"says that {parameter}={value:g} was found, and its session had {name} {setting}"
    if point.series.objective:
        yield from _objective_problems(point, point.series.objective)


def _lower_recall(point: CheckedPoint, target: float) -> str:
    return f"was searched for a recall of {target:g}, and its answers have {point.recall:.6g}"


def _objective_problems(point: CheckedPoint, text: str) -> Iterator[str]:
    """Yield that an objective was not kept by the latencies of all runs."""
    try:
        objective = Objective.parse(text)
    except UserError:
        yield f"has the objective '{text}', which must be a percentile and a time, such as p99:50ms"
        return
    value = point.number(f"latency_{objective.percentile}")
    if value is None or value > objective.seconds * (1 + ROUNDING):
        has = "nothing" if value is None else f"{value:.6g} s"
        yield f"is to keep {text}, and its {objective.percentile} is {has}"
    if unanswered := point.number("queries_unanswered"):
        yield f"is to keep {text}, and {unanswered:,.0f} queries were never sent"


def check_age(points: Sequence[CheckedPoint], manifest: Manifest, now: datetime, findings: Findings) -> None:
    """Refuse results that are older than the rules allow when they are handed in, or of the future."""
    made = datetime.fromisoformat(manifest.made)
    if made - now > AHEAD:
        what = f"says that it was made at {manifest.made}, which is still to come"
        findings.refuse(MANIFEST, "age", what, "set the machine's clock, and write the bundle again")
    for point in points:
        ended = point.moment("ended_at")
        if ended is None or not math.isfinite(ended):
            continue  # the rule about times says it
        at = datetime.fromtimestamp(ended, timezone.utc)
        if at - made > AHEAD:  # no sum, which may be beyond the last year
            what = f"was measured at {at.isoformat()}, after the bundle was made"
            findings.refuse(point.file, "age", what, "write the bundle again")
        elif made - at > OLDEST:
            what = f"was measured {(made - at).days} days before the bundle was made; the rules allow"
            findings.refuse(point.file, "age", f"{what} {OLDEST.days}", AGAIN)

"""How a point was measured: what disqualifies a claim that rests on it, and how old it is."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from ann_benchmarks.common.numbers import counted
from ann_benchmarks.load.spans import ALWAYS_WAITING, LARGE_SHARE, LATE_SHARE, NOTHING_LEFT
from ann_benchmarks.results.measurement import MARK, ROUNDS
from ann_benchmarks.results.remarks import FEW_QUERIES, MOST_OTHERS, RECALL_CHANGED
from ann_benchmarks.statistics.contests import FEWEST_ROUNDS
from ann_benchmarks.statistics.intervals import FEWEST_RUNS

from ..manifest import MANIFEST, Manifest
from .points import CheckedPoint
from .rules import REWRITE, Findings

OLDEST = timedelta(days=180)  # of a result when it is handed in
AHEAD = timedelta(hours=1)  # by which a clock may be wrong
DISAGREE = "its runs differ by more than noise"


def _clients_were_limit(point: CheckedPoint) -> bool:
    """Whether the clients were the limit, by what is stored of their time and not by what it says."""
    if point.series.clients is None:
        return False
    busy = point.number("client_machines_busy_share") or point.number("machine_busy_share") or 0.0
    no_cpu = busy > NOTHING_LEFT and point["client_cpu_share"] > LARGE_SHARE
    if point.is_open:
        is_late = point["clients_late_seconds"] > LATE_SHARE * point["service_p50"]
        is_limit = is_late or (bool(point.number("queries_unanswered")) and no_cpu)
    else:
        is_limit = point["clients_waiting_share"] < ALWAYS_WAITING or no_cpu
    return is_limit or bool(point.attrs.get("clients_were_limit"))


def _is_in_rounds(point: CheckedPoint) -> bool:
    """Whether it was measured in rounds, whose interval has what differs between them, as have its rivals."""
    return MARK in point.attrs and len(point.numbers(ROUNDS)) >= FEWEST_ROUNDS


def _recall_changed(point: CheckedPoint) -> bool:
    recalls = point.numbers("run_recalls") or [0.0]
    return max(recalls) - min(recalls) > RECALL_CHANGED


def _has_own_queries(point: CheckedPoint) -> bool:
    """Whether queries are rows of the training set: it says so, or a nearest row has the distance 0."""
    nearest = point.truth.distances[:, 0]
    is_same = point.facts.metric in ("euclidean", "hamming") and bool((nearest == 0).any())
    return bool(point.number("queries_in_train")) or is_same


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
    ("warnings", _has_own_queries, "some of its queries are rows of the training set"),
    ("warnings", lambda one: MARK in one.attrs and "rounds_ended" not in one.attrs,
     "its race was interrupted"),
)  # fmt: skip


def check_conditions(point: CheckedPoint, is_claimed: bool, findings: Findings) -> None:
    """Refuse what disqualifies a claim, and warn of it where no claim rests on the point."""
    for rule, is_broken, text in CONDITIONS:
        if is_broken(point):
            problem = text.format(runs=counted(len(point.run_seconds), "run"), fewest_runs=FEWEST_RUNS)
            said = f"a claim rests on it, and {problem}" if is_claimed else problem
            # A miniature shows that all works.
            refuses = is_claimed and not findings.is_mini
            (findings.refuse if refuses else findings.warn)(point.file, rule, said)
    if point.attrs.get("runs_disagree") and _is_in_rounds(point):
        findings.warn(point.file, "warnings", DISAGREE)


def check_age(points: Sequence[CheckedPoint], manifest: Manifest, now: datetime, findings: Findings) -> None:
    """Refuse results that are older than the rules allow when they are handed in, or of the future."""
    made = datetime.fromisoformat(manifest.made)
    if made - now > AHEAD:
        what = f"says that it was made at {manifest.made}, which is still to come"
        findings.refuse(MANIFEST, "age", what, advice=f"set the machine's clock, and {REWRITE}")
    for point in points:
        ended = point.moment("ended_at")
        if ended is None or not math.isfinite(ended):
            continue  # the rule about times says it
        at = datetime.fromtimestamp(ended, timezone.utc)
        if at - made > AHEAD:  # no sum, which may be beyond the last year
            what = f"was measured at {at.isoformat()}, after the bundle was made"
            findings.refuse(point.file, "age", what, advice=REWRITE)
        elif made - at > OLDEST:
            what = f"was measured {(made - at).days} days before the bundle was made; the rules allow"
            findings.refuse(point.file, "age", f"{what} {OLDEST.days}")

"""How a point was measured: what disqualifies a claim that rests on it, and what a reviewer should know."""

import math
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from ann_benchmarks.common.numbers import counted

from ..manifest import Manifest
from .points import CheckedPoint
from .rules import Findings
from .tiers import of_memory

AGAIN = "measure it again"
FEWEST_RUNS = 3
FEWEST_ROUNDS = 4  # that are believed
FEWEST_QUERIES = 100
WAITING = 0.8  # share of the time that clients wait for answers, below which they are the limit
BUSY, LARGE = 0.95, 0.33  # shares of the machine's CPU, and of the clients in it, with which they are, too
LATE = 0.25  # of the median service time
OTHERS = 0.1  # share of the CPUs
RECALL_CHANGED = 0.01
OLDEST = timedelta(days=180)  # of a result when it is handed in
DISAGREE = "its runs differ by more than noise"
AHEAD = timedelta(hours=1)  # by which a clock may be wrong


def check_conditions(point: CheckedPoint, is_claimed: bool, findings: Findings) -> None:
    """Refuse what disqualifies a claim, and warn of it where no claim rests on the point."""
    found = [("clients", of_clients(point)), ("runs", of_runs(point)), ("warnings", of_warnings(point))]
    for rule, problems in found:
        for problem in problems:
            if is_claimed:
                findings.judge(point.file, rule, f"a claim rests on it, and {problem}", AGAIN)
            else:
                findings.warn(point.file, rule, problem)
    if point.attrs.get("runs_disagree") and is_in_rounds(point):
        findings.warn(point.file, "warnings", DISAGREE)
    for problem in of_memory(point):
        findings.refuse(point.file, "tier", problem, AGAIN)


def of_clients(point: CheckedPoint) -> Iterator[str]:
    """Yield that the clients were the limit, by what is stored of their time and not by what it says."""
    if point.attrs.get("clients") is None:
        return
    client_cpu = point.number("client_cpu_share") or 0.0
    busy = point.number("client_machines_busy_share")
    busy = busy if busy is not None else point.number("machine_busy_share") or 0.0
    no_cpu = busy > BUSY and client_cpu > LARGE
    if point.is_open:
        late, service = point.number("clients_late_seconds"), point.number("service_p50")
        is_late = late is not None and service is not None and late > LATE * service
        is_limit = is_late or (bool(point.number("queries_unanswered")) and no_cpu)
    else:
        is_limit = (point.number("clients_waiting_share") or 0.0) < WAITING or no_cpu
    if is_limit or point.attrs.get("clients_were_limit"):
        yield "its clients, not the server, were the limit"


def of_runs(point: CheckedPoint) -> Iterator[str]:
    """Yield that there are too few runs."""
    if len(point.run_seconds) < FEWEST_RUNS:
        yield f"it has {counted(len(point.run_seconds), 'run')}, fewer than {FEWEST_RUNS}"


def of_warnings(point: CheckedPoint) -> Iterator[str]:
    """Yield what disturbed a point."""
    attrs = point.attrs
    if attrs.get("runs_disagree") and not is_in_rounds(point):
        yield DISAGREE
    if max(point.numbers("run_others_cpu"), default=0.0) > OTHERS:
        yield f"others took more than {OTHERS:.0%} of the machine's CPUs in a run"
    if attrs.get("steady_state") is False:
        yield "its queue still grew"
    if point.number("queries_unanswered"):
        yield "the rate was not kept"
    if attrs.get("warmup_settled") is False:
        yield "the throughput still rose after the warm-up"
    of_recall = point.numbers("run_recalls") or [0.0]
    if max(of_recall) - min(of_recall) > RECALL_CHANGED:
        yield "its recall changed between its runs"
    if point.series.is_cold and attrs.get("caches_dropped") is not True:
        yield "its caches were not emptied before each run"
    if (point.number("latency_queries") or 0) < FEWEST_QUERIES:
        yield f"fewer than {FEWEST_QUERIES} queries were counted"
    if point.number("queries_in_train"):
        yield "some of its queries are rows of the training set"


def is_in_rounds(point: CheckedPoint) -> bool:
    """Whether it was measured in rounds, whose interval has what differs between them, as have its rivals."""
    return "rounds" in point.attrs and len(point.numbers("run_rounds")) >= FEWEST_ROUNDS


def check_age(points: list[CheckedPoint], manifest: Manifest, now: datetime, findings: Findings) -> None:
    """Refuse results that are older than the rules allow when they are handed in, or of the future."""
    made = datetime.fromisoformat(manifest.made)
    if made - now > AHEAD:
        what = f"says that it was made at {manifest.made}, which is still to come"
        findings.refuse("manifest.json", "age", what, "set the machine's clock, and write the bundle again")
    for point in points:
        ended = point.moment("ended_at")
        if ended is None or not math.isfinite(ended):
            continue  # which the check of times says
        at = datetime.fromtimestamp(ended, timezone.utc)
        if at - made > AHEAD:  # no sum, which may be beyond the last year
            what = f"was measured at {at.isoformat()}, after the bundle was made"
            findings.refuse(point.file, "age", what, "write the bundle again")
        elif made - at > OLDEST:
            what = f"was measured {(made - at).days} days before the bundle was made; the rules allow"
            findings.refuse(point.file, "age", f"{what} {OLDEST.days}", AGAIN)

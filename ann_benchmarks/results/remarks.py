"""What is to be known of one result: rows of conditions on its attributes, each with its text."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ann_benchmarks.common.numbers import figure_text
from ann_benchmarks.common.text import from_json
from ann_benchmarks.statistics.intervals import FEWEST_RUNS
from ann_benchmarks.statistics.percentiles import (
    AMPLE,
    EFFECTIVE_SIZE,
    MANY_RUNS,
    QUERIES,
    is_shown,
    least_relaxations,
    least_size,
)

from .file import UNUSABLE
from .measurement import has_mean_throughput

OFF = 0.01  # of a tier's memory, from which on it is told
MUCH_WAITING = 0.1  # of the time, or of the queries
LITTLE_WAITING = 0.8  # of the time: less, and the clients were busy themselves
FEW_QUERIES = 100
MOST_OTHERS = 0.1  # share of the CPUs that others took, beyond which a run is disturbed
BUSY_POOLER = 0.9  # of one core
RECALL_CHANGED = 0.01  # between the runs of one point
FEWEST_OF_ADVICE = 5  # runs: of fewer, the effective size varies by several times from point to point
JUDGED = ("p95", "p99")  # a median takes no longer, and for p99.9 most runs are too short
# What the reader of a warning should do.
ADVICE = AGAIN, LONGER, CHANGE, CHECK, CARE = (
    "Measure again on an idle machine (--force)",
    "Measure longer, or more runs",
    "Change the load or the build",
    "Check the data and the files",
    "Compare with care",
)
NEW_INDEX = "index_is_new"  # fact: where an index was found, the same command has built it
UNREADABLE = "the attributes of the result file cannot be read"
Facts = Mapping[str, Any]


class Remark(str):
    """What is to be known of results, what to do, and how bad it is among others that differ in figures."""

    advice: str  # one of ADVICE
    severity: float | None  # the larger the worse; None: the figures say it

    def __new__(cls, text: str, severity: float | None = None, advice: str = CARE) -> "Remark":
        """Take the text with what belongs to it."""
        made = super().__new__(cls, text)
        made.severity, made.advice = severity, advice
        return made


class RemarkRow(NamedTuple):
    """A warning about one result: what to do, whether it holds of the attributes, and what it says."""

    advice: str
    holds: Callable[[Facts], Any]
    text: Callable[[Facts], str]
    severity: Callable[[Facts], float] | None = None


def _limit(facts: Facts) -> str:
    """Name what the clients were short of, "" where they were not the limit."""
    if not facts.get("clients_were_limit"):
        return ""
    if facts["loop"] == "open" and not facts["queries_unanswered"]:
        return "time"
    return "waiting" if facts.get("clients_waiting_share", 1) < LITTLE_WAITING else "CPU"


def _filled(facts: Facts) -> list[float]:
    """Return the shares of queries that could be sent before runs whose caches had to be filled."""
    return [share for share in facts.get("run_sent_once") or [] if share]


def _disturbed(facts: Facts) -> list[float]:
    """Return the shares of the CPUs that others took in disturbed runs."""
    return [share for share in facts.get("run_others_cpu") or [] if share > MOST_OTHERS]


def _change(facts: Facts) -> float:
    """Return by how much the recalls of the runs differ."""
    recalls = facts.get("run_recalls") or [0.0]
    return max(recalls) - min(recalls)


def _searched(facts: Facts) -> str:
    parameter = facts.get("target_parameter")
    return f" with the largest {parameter} available" if parameter else ""


def _surplus(facts: Facts) -> float:
    """Return by which share a tier had more memory than it was to have."""
    available, asked = facts.get("tier_available"), facts.get("tier_ram")
    return available / asked - 1 if available and asked else 0.0


def length_remark(facts: Facts) -> str:
    """Say that runs were too short for their latencies, and what is needed; nothing where they were not."""
    if facts.get("queries_unanswered") or facts.get("steady_state") is False:
        return ""  # a steady state cannot be waited for
    runs, seconds = int(facts.get("run_count") or 1), facts.get("active_seconds") or 0.0
    name, times = _missing(facts) if runs >= FEWEST_RUNS else ("", 0.0)
    if runs < FEWEST_OF_ADVICE:
        times = 0.0
    steady = least_relaxations("p99") * float(facts.get("relaxation_seconds") or 0.0) / runs
    if seconds < steady:
        return (
            f"at {facts['rate'] / facts['closed_loop_rate']:.0%} of a closed loop's throughput, a queue"
            " changes slowly, and short runs mostly understate its latencies: give --duration"
            f" {math.ceil(AMPLE * max(steady, times * seconds))}"
        )
    if not name:
        return ""
    if not times:
        return (
            f"latencies differ too much for an interval of {name}, and {runs} runs are too few to say how"
            f" long runs must be: give at least {FEWEST_OF_ADVICE} runs or rounds"
        )
    more = f"--duration {math.ceil(AMPLE * times * seconds)}, or more runs"
    if not seconds or runs >= MANY_RUNS:
        more = f"{math.ceil(AMPLE * times * runs)} runs or rounds"
    return (
        f"latencies resemble each other within runs, or differ between them, so much that {name} has no"
        f" interval: give {more}"
    )


def _missing(facts: Facts) -> tuple[str, float]:
    """Return the rarest percentile without an interval, and how many times as much has to be measured."""
    if size := facts.get(EFFECTIVE_SIZE):
        for name in reversed(JUDGED):
            if is_shown(name, facts.get(QUERIES, 0)) and size < least_size(name):
                return name, least_size(name) / size
    return "", 0.0


def unusable_distances(attrs: Mapping[str, Any]) -> str:
    """Say that some distances of a result are invalid; "" where all are."""
    if not attrs.get(UNUSABLE):
        return ""
    return f"{attrs[UNUSABLE]:,} of its distances are NaN or minus infinity, and count as not found"


_LIMIT = "the clients, not the server, were the limit:"
LOAD_ROWS = (  # they are told as soon as a point is measured
    RemarkRow(CHANGE, lambda f: _limit(f) == "time",
        lambda f: f"{_LIMIT} free clients sent queries {f['clients_late_seconds'] * 1e3:.2f} ms late, an"
                  f" answer takes {f['service_p50'] * 1e3:.2f} ms",
        lambda f: f["clients_late_seconds"] / (f["service_p50"] or 1.0)),
    RemarkRow(CHANGE, lambda f: _limit(f) == "waiting",
        lambda f: f"{_LIMIT} they waited for answers only {f['clients_waiting_share']:.0%} of the time",
        lambda f: -f["clients_waiting_share"]),
    RemarkRow(CHANGE, lambda f: _limit(f) == "CPU",
        lambda f: f"{_LIMIT} they used {f['client_cpu_share']:.0%} of their machine's CPU, and none was left",
        lambda f: f["client_cpu_share"]),
    RemarkRow(CHANGE, lambda f: f.get("pooler_busy_share", 0) > BUSY_POOLER,
        lambda f: "the pooler, not the index, was the limit: its one thread was"
                  f" {f['pooler_busy_share']:.0%} busy",
        lambda f: f["pooler_busy_share"]),
    RemarkRow(LONGER, lambda f: f.get("warmup_settled") is False,
        lambda f: f"the throughput was still rising after {f['warmup_seconds']:.0f} s of warm-up: give"
                  " --warmup N"),
    # With enough memory, caches are filled once.
    RemarkRow(LONGER, lambda f: len(_filled(f)) > 1 and min(_filled(f)) < 1,
        lambda f: f"caches had to be filled before {len(_filled(f))} of {len(f['run_sent_once'])} runs, and"
                  f" only {min(_filled(f)):.0%} of the queries could be sent meanwhile: with warm caches, the"
                  " throughput may be higher",
        lambda f: -min(_filled(f))),
    RemarkRow(CHANGE, lambda f: f.get("queries_unanswered"),
        lambda f: f"the rate was not kept: {f['queries_unanswered']:,} of {f['queries_due']:,} queries were"
                  " still waiting at the end",
        lambda f: f["queries_unanswered"] / f["queries_due"]),
    RemarkRow(LONGER, lambda f: not f.get("queries_unanswered") and f.get("steady_state") is False,
        lambda f: "the queue was still growing: the latencies depend on the length of the run"),
    RemarkRow(LONGER, length_remark, length_remark),
    RemarkRow(CHANGE, lambda f: f.get("clients_all_busy_share", 0) > MUCH_WAITING,
        lambda f: f"{f['clients_all_busy_share']:.0%} of the queries found no free client among"
                  f" {f['clients']}: more --clients show whether the server can do more",
        lambda f: f["clients_all_busy_share"]),
    RemarkRow(LONGER, lambda f: f.get("queries_counted", FEW_QUERIES) < FEW_QUERIES,
        lambda f: f"only {f['queries_counted']:.0f} queries were counted: give --max-queries or --duration",
        lambda f: -f["queries_counted"]),
    RemarkRow(AGAIN, _disturbed,
        lambda f: f"other programs took up to {max(_disturbed(f)):.0%} of the machine's CPUs in"
                  f" {len(_disturbed(f))} of {len(f['run_others_cpu'])} runs: measure again"
                  " (--force) when it is idle",
        lambda f: max(_disturbed(f))),
    RemarkRow(CHECK, lambda f: _change(f) > RECALL_CHANGED,
        lambda f: f"the recall was between {min(f['run_recalls']):.4g} and {max(f['run_recalls']):.4g} in its"
                  " runs: the table or the index changed meanwhile",
        _change),
    RemarkRow(CHECK, lambda f: f.get("answers_shortened"),
        lambda f: f"{f['answers_shortened']:,.0f} of {f['queries_counted']:,.0f} answers had fewer rows than"
                  " another one to the same query: the table or the index changed meanwhile",
        lambda f: f["answers_shortened"] / f["queries_counted"]),
    RemarkRow(CARE, lambda f: f.get("queries_answered_aside"),
        lambda f: f"{f['queries_answered_aside']:,} of the answers behind the recall were not given during"
                  " the runs"),
    RemarkRow(CARE, lambda f: f.get("caches_dropped") is False,
        lambda f: "this server cannot be restarted from here: only the first run may have been cold"),
)  # fmt: skip
ROWS = (
    *LOAD_ROWS,
    RemarkRow(CHECK, lambda f: f.get("queries_in_train"),
        lambda f: f"{f['queries_in_train']:,} queries are rows of the training set: each finds itself, which"
                  " raises the recall; use other queries"),
    RemarkRow(CHECK, lambda f: f.get("queries_without_matches"),
        lambda f: f"{f['queries_without_matches']:,} queries have no matching row: each counts as found, with"
                  " a recall of 1"),
    RemarkRow(CHECK, unusable_distances, unusable_distances),
    RemarkRow(CHANGE, lambda f: f.get("target_missed"),
        lambda f: f"the target recall {f['target_missed']:g} was not reached{_searched(f)}"),
    RemarkRow(CHANGE, lambda f: f.get("graph_overflow_rows"),
        lambda f: f"the graph outgrew maintenance_work_mem after {f['graph_overflow_rows']:,} rows: the build"
                  " took longer than it would with more memory"),
    RemarkRow(CHANGE, lambda f: not f.get("graph_overflow_rows")
                           and "no longer fits into" in str(f.get("build_notices")),
        lambda f: "the index outgrew maintenance_work_mem: the build took longer than it would with more"
                  " memory"),
    # On a tier, no index is built.
    RemarkRow(CARE, lambda f: f.get("index_reused") and not f.get(NEW_INDEX) and "tier" not in f,
        lambda f: "the index was built by an earlier run: its build time is from then"),
    RemarkRow(AGAIN, lambda f: f.get("runs_disagree") and isinstance(f.get("run_seconds"), list),
        lambda f: f"the runs differ by more than noise: from {figure_text(1 / max(f['run_seconds']))} to"
                  f" {figure_text(1 / min(f['run_seconds']))} queries/s",
        lambda f: max(f["run_seconds"]) / min(f["run_seconds"])),
    RemarkRow(CARE, lambda f: not has_mean_throughput(f),
        lambda f: f"the throughput is that of the best of {f['run_count']} runs, the only one that"
                  " ann-benchmarks stores; compare it with the best runs of others (qps-best)"),
    RemarkRow(LONGER, lambda f: int(f.get("run_count", FEWEST_RUNS)) < FEWEST_RUNS,
        lambda f: "fewer than three runs: no interval"),
    RemarkRow(CARE, lambda f: abs(_surplus(f)) > OFF,
        lambda f: f"the tier had {abs(_surplus(f)):.1%} {'more' if _surplus(f) > 0 else 'less'} available RAM"
                  " than intended",
        lambda f: abs(_surplus(f))),
)  # fmt: skip


def _told(row: RemarkRow, facts: Facts) -> list[str]:
    """Return the text of a row that holds of a result."""
    if not row.holds(facts):
        return []
    return [Remark(row.text(facts), row.severity(facts) if row.severity else None, row.advice)]


def remarks(facts: Facts) -> list[str]:
    """Say what the reader of a figure should know about how it was measured."""
    return [text for row in LOAD_ROWS for text in _told(row, facts)]


def stored_remarks(facts: Facts) -> Iterator[str]:
    """Yield what is to be known of a stored result, whose attributes may be damaged."""
    damaged = []
    for row in ROWS:
        try:
            yield from _told(row, facts)
        except (TypeError, ValueError, KeyError, AttributeError, ZeroDivisionError):
            damaged = [Remark(UNREADABLE, advice=CHECK)]
    yield from damaged


def main_wait(facts: Facts) -> str:
    """Name what the sessions mostly waited for, other than a CPU or their client, if it was much."""
    shares = {
        event: share
        for event, share in from_json(facts.get("wait_events"), dict[str, Any]()).items()
        if event not in ("CPU", "idle") and not event.startswith("Client:") and isinstance(share, float | int)
    }
    event = max(shares, key=lambda name: shares[name], default="")
    return f"{event} {shares[event]:.0%} of the time" if event and shares[event] >= MUCH_WAITING else ""

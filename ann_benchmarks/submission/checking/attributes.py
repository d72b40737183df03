"""The table of attributes: which results store each, and which values its raw data allow.

A row names a kind of result, the attributes that such results store, and what computes their values from
answers, latencies and seconds. A new attribute is a name in a row.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ann_benchmarks.common.errors import shown
from ann_benchmarks.results.measurement import (
    CHAIN,
    EXACT_SEARCH,
    MARK,
    OVERSTATED,
    PARTS,
    ROUNDS,
    TURNS,
    run_throughputs,
)
from ann_benchmarks.statistics.intervals import mean_interval
from ann_benchmarks.statistics.percentiles import EFFECTIVE_SIZE, PERCENTILES, QUERIES

from . import expected
from .expected import CLOSE, has_server
from .points import CheckedPoint
from .rules import INF, Expected


class Kind(NamedTuple):
    """Results that store the same, in words, and what says whether one is of them."""

    words: str
    holds: Callable[[CheckedPoint], Any]


class Spec(NamedTuple):
    """What is stored of a kind of results: attributes by their names, and what they can be by what is raw.

    `stored` are always there, of a|b one; `only` are of no other result, either, and `may` of no other, but
    not always there. `evidence` is what the expected values follow from.
    """

    rule: str
    kind: Kind
    evidence: str = ""
    values: Callable[[CheckedPoint], Mapping[str, Expected]] = lambda point: {}
    stored: str = ""
    only: str = ""
    may: str = ""


def _is_here(p: CheckedPoint) -> bool:
    return p.attrs.get("server") in ("embedded", "installed") and str(p.attrs.get("kernel"))[:5] == "Linux"


def _is_exact(p: CheckedPoint) -> bool:
    return p.recall > 1 - CLOSE and not (has_server(p) and p["index_size"] > 0)


_RESULT = Kind("a result", lambda p: True)
_CLIENTS = Kind("queries by clients", lambda p: p.series.clients is not None)
_SERVER = Kind("a server", has_server)
_SEVERAL = Kind("several runs", lambda p: math.isfinite(mean_interval(run_throughputs(p.attrs)).low))
_HERE = Kind("a server here", _is_here)
_CLOSED = Kind("a closed loop", lambda p: _CLIENTS.holds(p) and not p.series.is_open)
_ALONE = Kind("one query after the other", lambda p: not _CLIENTS.holds(p))
_OPEN = Kind("a rate", lambda p: p.series.is_open)
_FILTERED = Kind("queries under filters", lambda p: p.truth.matches is not None)
_TIER = Kind("a simulated server", lambda p: p.series.tier_method)
_ROUNDS = Kind("rounds", lambda p: ROUNDS in p.attrs or MARK in p.attrs)
_SEARCH = Kind("a search for a recall", lambda p: {"target_recall", "target_value"} & p.attrs.keys())
_PERCENTILES = " ".join(f"latency_{name}" for name in PERCENTILES)
ROWS = (
    Spec("figures", _RESULT, "its answers", expected.answer_figures,
        "candidates recall_low recall_high run_recalls name build_arguments expect_extra batch_mode truth"),
    Spec("figures", _FILTERED, "its answers", expected.filtered_figures,
        only="completeness short_answers queries_without_matches selectivity",
        may="completeness_low completeness_high short_answers_low short_answers_high deciles"),
    Spec("figures", _RESULT, "the seconds of its runs", expected.run_figures,
        "run_count run_seconds run_started qps_mean best_search_time asking_seconds runs_disagree"
        " runs_measured_again warmup started_at ended_at"),
    Spec("figures", _RESULT, "its latencies", expected.latency_figures,
        f"{QUERIES} {EFFECTIVE_SIZE} run_p50 {_PERCENTILES}"),
    Spec("figures", _RESULT, "the parts of its build", expected.build_figures, "build_time index_size"),
    Spec("figures", Kind("an exact search", _is_exact), may=EXACT_SEARCH),
    Spec("attributes", _RESULT, stored="cpu cores memory_bytes kernel python framework_version command_line"
        f" rows result_format {PARTS}"),
    Spec("attributes", _SEVERAL, stored="qps_low qps_high"),
    Spec("timings", _ALONE, "its latencies", expected.sequence_figures),
    Spec("timings", Kind("a batch", lambda p: p.series.batch), "its latencies", expected.batch_figures),
    Spec("attributes", _CLIENTS, stored="clients_were_limit", only="clients loop active_seconds queries_asked"
        " queries_counted query_order driver client_cpu_share client_cpu_seconds_per_query",
        may="asked_duration asked_queries answers_shortened queries_answered_aside"),
    Spec("timings", _CLOSED, "its latencies and seconds", expected.closed_figures,
        only="clients_waiting_share"),
    Spec("timings", _OPEN, "its latencies and its rate", expected.open_figures,
        only="queries_due rate service_p50 service_p99 queries_unanswered clients_late_seconds"
        " lead_in_seconds steady_state",
        may="clients_all_busy_share closed_loop_rate relaxation_seconds objective_trials"),
    Spec("timings", _RESULT, "the CPUs that there are", expected.cpu_figures),
    Spec("timings", _CLIENTS, "the CPU of its clients (client_cpu_share)", expected.client_figures),
    Spec("attributes", _SERVER, only="server", stored="postgres_version load_time index_build_time settings"
        " given_settings version_names"),
    Spec("attributes", Kind("an external server", lambda p: p.attrs.get("server") == "external"),
        only="server_address"),
    Spec("attributes", _HERE, "its server",
        lambda p: {"cores": (1, INF), "memory_bytes": (p.number("shared_buffers") or 1, INF)},
        "machine_busy_share server_cpu_seconds_per_query table_size index_blocks_hit_per_query"
        " index_blocks_read_per_query table_blocks_hit_per_query table_blocks_read_per_query"
        " shared_buffers build_sql"),
    Spec("attributes", Kind("runs of no given time", lambda p: "asked_duration" not in p.attrs),
        may="asked_queries"),
    Spec("series", _RESULT, "its series", lambda p: {"algo": {p.series.label}}, "algo"),
    Spec("attributes", Kind("runs of clients", lambda p: _CLIENTS.holds(p) and not _ROUNDS.holds(p)),
        stored="queries_answered_aside"),
    Spec("attributes", _ROUNDS, only=f"{MARK} {ROUNDS} {CHAIN} {TURNS} rounds_requested",
        may="rounds_ended run_sent_once"),
    Spec("target", _SEARCH, "its answers", expected.searched_figures),
    Spec("target", Kind("an objective", lambda p: p.series.objective), "its objective",
        expected.kept_objective),
    Spec("timings", Kind("samples of monitoring", lambda p: p.sampled is not None), "its monitoring",
        expected.sampled_figures, only="monitoring_cpu_seconds"),
    Spec("attributes", _SEARCH, only="target_parameter target_value target_trials",
        may=f"{OVERSTATED} target_most"),
    Spec("attributes", Kind("a warm-up", lambda p: p.attrs.get("warmup") not in (None, "off")),
        only="warmup_queries warmup_seconds", may="warmup_settled"),
    Spec("series", _TIER, "its series", expected.tier_facts),
    Spec("tier", Kind("a tier of memory", lambda p: p.series.tier_memory[-3:] not in ("", "all")),
        "its series", expected.tier_memory, "tier_ram tier_available|tier_available_at_start"),
    Spec("series", Kind("a tier with a disk", lambda p: p.series.tier_disk), may="tier_iops tier_bandwidth"),
    Spec("series", Kind("a series with cold caches", lambda p: p.series.is_cold), "its series",
        lambda p: {"warmup": {"off"}}),
    Spec("dataset", _RESULT, "the bundle", expected.dataset_facts, "dataset distance"),
)  # fmt: skip


def attribute_problems(point: CheckedPoint, is_broken: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the rule and what is wrong with each attribute: there twice, missing, surplus, or impossible.

    Nothing follows from what is raw where that `is_broken`.
    """
    attrs = point.attrs
    for name in point.twice:
        yield "attributes", f"holds its attribute '{name}' twice, with two values"
    for row in ROWS:
        is_so, stored = row.kind.holds(point), f"{row.stored} {row.only}".split()
        for names in stored if is_so else ():
            if all(attrs.get(name) in (None, "") for name in names.split("|")):
                yield "attributes", f"lacks '{names}', which is stored of {row.kind.words}"
        for name in () if is_so else f"{row.only} {row.may}".split():
            if name in attrs:
                yield "attributes", f"has '{name}', which is stored only of {row.kind.words}"
        for name, value in row.values(point).items() if is_so and not is_broken else ():
            if problem := difference(point, name, value):
                yield row.rule, f"says {name} {shown(attrs.get(name))}, and by {row.evidence} it is {problem}"


def difference(point: CheckedPoint, name: str, allowed: Expected) -> str:
    """Return what an attribute is to be, "" where it is that; what is not stored of all may be missing."""
    said = point.attrs.get(name)
    if isinstance(allowed, set):
        return "" if said in allowed or (said is None and not allowed) else _text(sorted(map(str, allowed)))
    if said is None:
        return ""
    if isinstance(allowed, list):
        values = point.numbers(name)
        same = len(values) == len(allowed) and np.allclose(values, allowed, rtol=0, atol=CLOSE)
        return "" if same else _text([f"{one:.6g}" for one in allowed[:3]])
    least, most = allowed
    values = point.numbers(name)
    if values and all(math.isnan(least + most) or least <= one <= most for one in values):
        return ""
    return f"{least:.6g}" if math.isclose(least, most, rel_tol=1e-4) else f"{least:.6g} to {most:.6g}"


def _text(values: Sequence[str]) -> str:
    return ", ".join(values) or "not there"

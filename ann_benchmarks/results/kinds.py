"""What an attribute must be for those that read it: checked once, where a result or record is read.

Where a required one is something else, or one of a file that this project has written, the file is set aside.
In a file of others it may mean something else by this name, and is left out. An attribute that is not named
here can be anything: it is shown as it is.
"""

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.names import LONGEST_FOLDER
from ann_benchmarks.common.text import LONGEST_VALUE, fits_classes, is_number, shortened
from ann_benchmarks.fields.rows import FIELDS

from .attributes import plain_attributes

LONGEST_FACT = 1000
SHOWN = 40


Made = TypeVar("Made")


class _Kind(NamedTuple):
    """What an attribute must be, in words, what says whether it is, and the names of those that must."""

    expected: str
    fits: Callable[[Any], bool]
    names: tuple[str, ...] = ()


_OF_FILTERS = ("completeness", "short_answers", "planner_regret")
_KINDS = (
    _Kind("a whole number of at least 1", lambda value: type(value) is int and 1 <= value < 2**31,
          ("count",)),
    _Kind("a number", is_number, (
        "best_search_time", "build_time", "candidates", "dist_comps", "index_size",
        *(f"latency_p{p}{end}" for p in (50, 95, 99, 999) for end in ("", "_low", "_high")),
        *(f"{of}_{end}" for of in ("recall", "qps", *_OF_FILTERS) for end in ("low", "high")), *_OF_FILTERS,
        "selectivity", "planning_time", "rows_removed", "locks", "qps_mean", "latency_queries",
        "latency_worth", "payload_bytes", "rows", "scanned_share", "searched_rows_share", "shard_cells_time",
        *(f"{kind}_share" for kind in ("insert", "update", "delete")),
        "active_seconds", "asked_duration", "asked_queries", "asking_seconds", "client_cpu_share",
        "client_cpu_seconds_per_query", "clients_all_busy_share", "clients_late_seconds",
        "clients_waiting_share", "closed_loop_rate",
        "container_memory_bytes", "cores", "estimated_index_size", "index_build_time", "load_time",
        "memory_bytes", "queries_counted", "lead_in_seconds", "queries_due", "queries_unanswered",
        "relaxation_seconds", "service_p50", "table_size", "target_missed", "target_overstated",
        "target_recall", "tier_available", "tier_available_at_start", "tier_bandwidth", "tier_iops",
        "tier_ram", "tier_shared_buffers", "warmup_seconds",
        *(f"replication_lag_{unit}{end}" for unit in ("bytes", "seconds") for end in ("", "_max")),
    )),
    _Kind("a whole number", lambda value: is_number(value) and value == math.floor(value) >= 0, (
        "queries_without_matches", "runs_measured_again", "graph_overflow_rows", "pooler_connections",
        "memory_divided_by", "result_format",
    )),
    _Kind("a whole number of at most 1,000,000", lambda value: isinstance(value, int) and 0 <= value <= 10**6,
          ("run_count",)),
    _Kind("a list of numbers",
          lambda value: all(map(is_number, value if isinstance(value, list) else [value])), (
        "run_seconds", "run_p50", "run_started", "run_recalls", "run_rounds", "run_others_cpu",
        "run_server_cpu_seconds", "run_index_blocks_hit", "run_sent_once", "rounds_turns",
        "shard_build_times", "shard_rows", "replica_times", "replica_backup_times", "replica_queries",
    )),
    _Kind(f"a text of up to {LONGEST_FOLDER} bytes",
          lambda value: isinstance(value, str) and len(value.encode()) <= LONGEST_FOLDER, ("algo",)),
    _Kind(f"a text of up to {LONGEST_VALUE:,} characters",
          lambda value: isinstance(value, str) and len(value) <= LONGEST_VALUE,
          ("name", "build_sql", "query_sql")),
    _Kind(f"a text of up to {LONGEST_FACT:,} characters",
          lambda value: not isinstance(value, list) and len(str(value)) <= LONGEST_FACT, (
        "cpu", "dataset", "distance", "docker_image", "ended_at", "kernel", "loop", "rounds",
        "rounds_ended", "rounds_requested", "started_at", "target_parameter", "tier",
        "tier_memory_series", "truth",
    )),
    _Kind("yes or no", lambda value: isinstance(value, bool | int | float), (
        "caches_dropped", "clients_were_limit", "has_default_settings", "index_reused",
        "runs_disagree", "steady_state", "warmup_settled",
    )),
)  # fmt: skip
_OF_FIELDS = {
    int: "a whole number",
    float: "a number",
    bool: "yes or no",
    str: f"a text of up to {LONGEST_FACT:,} characters",
}
KINDS = {name: kind.expected for kind in _KINDS for name in kind.names}
_CHECKS = {kind.expected: kind.fits for kind in _KINDS}
REQUIRED = ("best_search_time", "count", "name")
# Those of ann-benchmarks mean the same in every file.
COMMON = {*REQUIRED, "algo", "batch_mode", "build_time", "candidates", "dataset", "dist_comps", "distance",
          "index_size", "run_count"}  # fmt: skip
OURS = "series"  # the attribute that only this project writes


def checked_attributes(attrs: Mapping[str, Any], required: tuple[str, ...] = REQUIRED) -> dict[str, Any]:
    """Return attributes as JSON holds them; UserError where one is missing, or not what its name says.

    A number that is not finite is not known, and is left out.
    """
    try:
        found = plain_attributes(attrs)
    except ValueError as error:
        raise UserError(f"its attributes cannot be used: {error}") from None
    for name in required:
        if name not in found:
            raise UserError(f"its attribute '{name}' is not known")
    is_ours = OURS in found
    of_fields = {field.attribute: _OF_FIELDS[field.kind] for field in FIELDS.values() if field.attribute}
    for name, expected in {**KINDS, **of_fields}.items():
        if name not in found or _CHECKS[expected](found[name]):
            continue
        value = shortened(repr(found.pop(name)), SHOWN)
        if is_ours or name in COMMON:
            raise UserError(f"its attribute '{name}' is {value} where {expected} is expected")
    return found


def made_of(kind: type[Made], content: Mapping[str, Any]) -> Made:
    """Make a dataclass of fields as JSON holds them; TypeError for one that is unknown or of another kind."""
    classes = _classes(kind)  # type: ignore[arg-type]
    for name, value in content.items():
        if not fits_classes(value, classes.get(name, ())):
            raise TypeError(f"its '{name}' is {shortened(repr(value), SHOWN)}")
    return kind(**content)


@cache
def _classes(kind: type) -> dict[str, tuple[type, ...]]:
    """Return which classes the value of each field can have."""
    unions = {name: (hint,) if get_origin(hint) in (list, dict) else get_args(hint) or (hint,)
              for name, hint in get_type_hints(kind).items()}  # fmt: skip
    return {name: tuple(get_origin(one) or one for one in union) for name, union in unions.items()}

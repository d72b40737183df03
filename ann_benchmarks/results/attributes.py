"""The attributes of a result: all of them as one text, besides each by itself; and what each must be.

ann-benchmarks reads an attribute of each name. h5py needs a dozen calls for each, which for a hundred of them
takes longer than reading the answers to 10,000 queries; one text takes a tenth of that.

What an attribute must be for those that read it is checked once, where a result or record is read. Where a
required one is something else, or one of a file that this project has written, the file is set aside. In a
file of others it may mean something else by this name, and is left out. An attribute that is not named here
can be anything: it is shown as it is.
"""

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import h5py
import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.names import LONGEST_FOLDER
from ann_benchmarks.common.text import (
    DAMAGE,
    LONGEST_VALUE,
    clean_text,
    fits_classes,
    from_json,
    is_number,
    plain,
    shortened,
)
from ann_benchmarks.fields.rows import FIELDS

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
        "container_memory_bytes", "estimated_index_size", "index_build_time", "load_time",
        "queries_counted", "lead_in_seconds", "queries_due", "queries_unanswered",
        "relaxation_seconds", "service_p50", "table_size", "target_missed", "target_overstated",
        "target_recall", "tier_available", "tier_available_at_start", "tier_bandwidth", "tier_iops",
        "tier_ram", "tier_shared_buffers", "warmup_seconds",
        *(f"replication_lag_{unit}{end}" for unit in ("bytes", "seconds") for end in ("", "_max")),
    )),
    _Kind("a whole number", lambda value: is_number(value) and value == math.floor(value) >= 0, (
        "queries_without_matches", "runs_measured_again", "graph_overflow_rows", "pooler_connections",
        "memory_divided_by", "result_format", "cores", "memory_bytes",
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
          ("name", "build_sql", "query_sql", "not_installed", "tiers_left_out")),
    _Kind(f"a text of up to {LONGEST_FACT:,} characters",
          lambda value: not isinstance(value, list) and len(str(value)) <= LONGEST_FACT, (
        "cpu", "dataset", "distance", "docker_image", "ended_at", "kernel", "loop", "rounds",
        "rounds_ended", "rounds_requested", "started_at", "target_parameter", "tier",
        "tier_memory_series", "truth",
    )),
    _Kind("yes or no", lambda value: isinstance(value, bool | int | float), (
        "caches_dropped", "clients_were_limit", "has_default_settings", "index_is_new",
        "index_reused", "runs_disagree", "steady_state", "warmup_settled",
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


ALL = "attributes"  # the attribute that holds the others as JSON
LONGEST_TEXT = 60_000  # bytes; HDF5 takes no attribute of 64 KiB and more
LONGEST = 256  # elements; an attribute that is a longer array is data, not a property
MOST = 2000  # attributes of a file
MOST_CHARACTERS = 2**24  # of all of them; what is stored once may be the text of many
_VERSION_NAMES = "version_names"  # of a result: NAME -> what people call it, as its plug-in says
_VERSION = "_version"
_OTHERS = ("framework_version", "pgbench_version")
# Where none were stored:
_EARLIER = {"postgres": "PostgreSQL", "vector": "pgvector", "vchord": "VectorChord"}


def write_attributes(file: h5py.File, attrs: Mapping[str, Any]) -> None:
    """Write each attribute that is not None, and all but long arrays also as one JSON text."""
    stored = {name: _encode_hdf5(value) for name, value in attrs.items() if value is not None}
    for name, value in stored.items():
        file.attrs[name] = value
    text = json.dumps({name: value for name, value in map(_encode_json, stored.items()) if name})
    if len(text.encode()) <= LONGEST_TEXT:
        file.attrs[ALL] = text


def read_attributes_of(file: h5py.File) -> dict[str, Any]:
    """Return the attributes: as JSON holds them, or of a file without that text as h5py returns them.

    ValueError where there are too many.
    """
    with suppress(*DAMAGE):
        found = json.loads(file.attrs[ALL])
        if isinstance(found, dict):
            return found
    if len(file.attrs) > MOST:
        raise ValueError(f"it has {len(file.attrs):,} attributes; the most that are read is {MOST:,}")
    found, characters = {}, 0
    for name, value in file.attrs.items():
        characters += len(value) if isinstance(value, str | bytes) else 0
        if characters > MOST_CHARACTERS:
            raise ValueError(f"its attributes have more than {MOST_CHARACTERS:,} characters")
        found[name] = value
    return found


def _encode_hdf5(value: Any) -> Any:
    """Return a value as HDF5 can hold it: numbers and arrays of numbers as they are, all else as text."""
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, bool | float | np.bool_ | np.number):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, list | tuple | np.ndarray):
        try:
            array = np.asarray(value)
        except ValueError:  # rows of different lengths
            return json.dumps(value, default=str)
        if array.dtype.kind in "biuf" and array.size:
            return array
        value = array.tolist() if isinstance(value, np.ndarray) else value
    return json.dumps(value, default=str)


def _encode_json(item: tuple[str, Any]) -> tuple[str, Any]:
    """Return an attribute as JSON holds it, without its name where it is a long array."""
    name, value = item
    if isinstance(value, (np.generic, np.ndarray)):
        return (name if value.size <= LONGEST else ""), value.tolist()
    return name, value


def plain_attributes(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are numbers, strings or short arrays, as JSON holds them.

    What is empty or not finite is not known, and left out. ValueError where lists are nested too deeply.
    """
    found: dict[str, Any] = {}
    for name, value in map(_encode_json, attrs.items()):
        if not name or isinstance(value, h5py.Empty) or (isinstance(value, list) and len(value) > LONGEST):
            continue
        value = plain(value)
        if value is not None:
            found[clean_text(name)] = clean_text(value) if isinstance(value, dict) else value
    return found


def version_names(attrs: Mapping[str, Any]) -> dict[str, str]:
    """Return what people call each version of a result, by its attribute."""
    known = _EARLIER | from_json(attrs.get(_VERSION_NAMES), dict[str, Any]())
    stems = (name.removesuffix(_VERSION) for name in attrs if name.endswith(_VERSION) and name not in _OTHERS)
    return {f"{stem}{_VERSION}": str(known.get(stem, stem)) for stem in stems}

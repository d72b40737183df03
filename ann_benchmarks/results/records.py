"""What is kept of a workload that writes: results/DATASET/COUNT/ALGORITHM-SERIES/ARGS.workload.json.

It is not a result file of ann-benchmarks: its throughput is not that of the index alone, and what is right
changes with what is written: tools that read those files leave these alone.
"""

import glob
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path
from ann_benchmarks.common.names import LONGEST_FOLDER
from ann_benchmarks.common.text import DAMAGE, is_number, plain, reason_of
from ann_benchmarks.fields.series import WRITES, Series, series_of
from ann_benchmarks.statistics.differences import Estimate, estimate_of_rate
from ann_benchmarks.statistics.percentiles import is_shown

from .attributes import OURS, checked_attributes, made_of
from .file import RESULTS_FOLDER

SUFFIX = ".workload.json"
FORM = 1  # of the files: another one is not read
LARGEST_FILE = 2**28  # bytes
MOST_PHASES = 1000


@dataclass(frozen=True)
class Rate:
    """Operations of one kind in a phase: how many, how many a second (95% interval), seconds each took."""

    count: int
    per_second: float
    low: float
    high: float
    p50: float
    p95: float
    p99: float
    p999: float
    failed: int = 0
    late: int = 0  # due, and not begun when the phase ended

    @property
    def estimate(self) -> Estimate:
        """What comparisons need of it."""
        return estimate_of_rate(self.per_second, (self.low, self.high))

    @property
    def queries(self) -> int:
        """How many operations the percentiles are of."""
        return self.count + self.late

    def percentile(self, name: str) -> float | None:
        """Return a percentile of their times in s, None where there are too few for it."""
        return float(getattr(self, name)) if is_shown(name, self.queries) else None


@dataclass(frozen=True)
class Phase:
    """A part of the time: the queries and writes in it, and the table at its end.

    `name` is one of inserting, before, writing, after, vacuumed, reindexed. `start` and `seconds` are s from
    the beginning; `seconds_to_reach` is how long the VACUUM or REINDEX took that led to it. `recall` is that
    of all queries at its end, against the exact neighbours among the rows that were there then.
    """

    name: str
    start: float
    seconds: float
    queries: Rate | None = None
    writes: dict[str, Rate] = field(default_factory=dict)  # by insert, update, delete
    recall: float | None = None
    recall_low: float | None = None
    recall_high: float | None = None
    rows: int = 0
    index_size: float = 0.0  # KiB
    table_size: float = 0.0  # KiB
    seconds_to_reach: float | None = None
    facts: dict[str, Any] = field(default_factory=dict)  # what the server did, as with each point


@dataclass(frozen=True)
class Record:
    """One workload on one index. `attrs` are what the result file of a point would hold as attributes.

    `windows` is what happened over time, equally long lists: `start` (s), `seconds`, `queries` (count),
    `query_p50`, `query_p99` (s, None where there was none), `writes`, `write_p50`, `write_p99`,
    `index_size` (KiB), `recall` (None where it was not measured).
    """

    workload: str  # inserts or writes
    dataset: str
    count: int
    algo: str  # the curve's name: algorithm and series
    name: str  # the index with its arguments, as the plug-in writes it
    arguments: list[Any]
    query_arguments: list[Any]
    clients: int  # they query
    writers: int
    rate: float | None  # requested writes per second; None: as fast as possible
    phases: list[Phase]
    windows: dict[str, list[Any]] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    path: Path = Path()
    monitoring: dict[str, Any] | None = None  # the JSON of monitoring.stored

    @cached_property
    def series(self) -> Series:
        """The series that it belongs to."""
        fields = {"workload": self.workload, "writers": self.writers, "write_rate": self.rate}
        clients = {"clients": self.clients} if self.clients else {}
        return series_of({**self.attrs, **fields, **clients, "algo": self.algo}, self.algo)

    @property
    def title(self) -> str:
        """The index, and on which servers it was, where that is not one with its own settings."""
        beside = ", ".join(self.series.words("version", "servers", "settings", "environment"))
        return f"{self.name} ({beside})" if beside else self.name

    def phase(self, name: str) -> Phase | None:
        """Return a phase by its name, None if there was none."""
        return next((phase for phase in self.phases if phase.name == name), None)


def record_path(result: Path) -> Path:
    """Where the record lies of what would have its result file there."""
    return result.with_name(result.name.removesuffix(".hdf5") + SUFFIX)


def write_record(record: Record) -> None:
    """Write it whole to its path, or leave what was there."""
    content = {"form": FORM, **asdict(record)}
    del content["path"]
    with atomic_path(record.path) as temporary:
        temporary.write_text(json.dumps(content, default=str) + "\n", encoding="utf-8")


def read_record(path: Path) -> Record:
    """Read one; UserError where it is damaged, of another form, or holds what no workload can."""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_FILE:
            raise UserError(f"{path} must be a file of less than {LARGEST_FILE >> 20} MB")
        content = plain(json.loads(path.read_text(encoding="utf-8")))
        if content.pop("form") != FORM:
            raise UserError(f"{path} was written by another version: measure it again")
        return _record(path, content)
    except UserError as error:
        raise UserError(f"{path} {str(error).removeprefix(f'{path} ')}") from None
    except DAMAGE as error:
        raise UserError(f"{path} cannot be read: {reason_of(error)}") from None


def _record(path: Path, content: dict[str, Any]) -> Record:
    """Make a record of what its file holds."""
    phases = [_phase(phase) for phase in content.pop("phases")]
    content["attrs"] = {name: value for name, value in content["attrs"].items() if value is not None}
    record = replace(made_of(Record, content | {"phases": phases}), path=path)
    same = {name: getattr(record, name) for name in ("algo", "name", "count", "dataset", "workload")}
    checked_attributes(record.attrs | same | {OURS: ""}, (*same,))
    columns = [*record.windows.values()]
    if not all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns):
        raise TypeError("its windows over time must be lists of one length")
    if not all(value is None or is_number(value) for column in columns for value in column):
        raise TypeError("its windows over time are not all numbers")
    if any(len(phase.name.encode()) > LONGEST_FOLDER for phase in phases):
        raise TypeError(f"the name of a phase has more than {LONGEST_FOLDER} bytes")
    if len(phases) > MOST_PHASES or record.clients < 0 or record.writers < 0:
        raise TypeError(f"it has {len(phases)} phases, {record.clients} clients and {record.writers} writers")
    assert record.series.label
    return record


def _phase(content: dict[str, Any]) -> Phase:
    queries = content["queries"] and made_of(Rate, content["queries"])
    writes = {kind: made_of(Rate, content["writes"][kind]) for kind in WRITES if kind in content["writes"]}
    return made_of(Phase, content | {"queries": queries or None, "writes": writes})


def iter_record_paths(dataset: str | None = None, count: int | None = None) -> Iterator[Path]:
    """Every record, of one dataset and count or of all, sorted."""
    below = "*" if dataset is None else glob.escape(dataset)
    yield from sorted(Path(RESULTS_FOLDER).glob(f"{below}/{count or '*'}/*/*{SUFFIX}"))


def read_windows(windows: dict[str, list[Any]]) -> tuple[list[float], dict[str, list[float]]]:
    """Return the middle of each window, in s from the beginning, and the figures by name.

    Rates are per second, times in ms, sizes in MB; nan where nothing was stored, as of a recall that is
    measured now and then. UserError where they cannot be read.
    """

    def column(name: str, scale: float = 1.0) -> list[float]:
        values = windows.get(name) or [None] * len(windows["start"])
        return [math.nan if value is None else scale * float(value) for value in values]

    def rates(name: str) -> list[float]:
        return [
            count / s if s else math.nan for count, s in zip(column(name), column("seconds"), strict=True)
        ]

    try:
        middles = [start + s / 2 for start, s in zip(column("start"), column("seconds"), strict=True)]
        figures = {
            **{"queries": rates("queries"), "query_p99": column("query_p99", 1e3)},
            **{"writes": rates("writes"), "write_p99": column("write_p99", 1e3)},
            **{"recall": column("recall"), "index_size": column("index_size", 1 / 1024)},
        }
        if {len(middles)} != {len(values) for values in figures.values()}:
            raise ValueError
        return middles, figures
    except (LookupError, ValueError, TypeError, AttributeError):
        raise UserError("the windows over time of a record cannot be read") from None

"""Every result as a row of one table, in a CSV or a Parquet file."""

import csv
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path

from .at_recall import indexes_at_recall
from .file import iter_result_paths
from .measurement import COUNTS, PARTS
from .metrics import OF_FILTERS, QPS_AT_RECALL, TARGET_RECALL, standard_metrics
from .runs import Run, load_runs

THEIR_METRICS = (
    "k-nn", "epsilon", "largeepsilon", "rel", "qps", "p50", "p95", "p99", "p999", "distcomps", "build",
    "candidates", "indexsize", "queriessize",
)  # fmt: skip
COLUMNS = ["algorithm", "parameters", "count", *THEIR_METRICS, "dataset"]  # the columns of ann-benchmarks
OUR_METRICS = [name for name in standard_metrics if name not in THEIR_METRICS]
OWN_COLUMNS = [*OUR_METRICS, QPS_AT_RECALL, "batch_mode", "distance", "run_count"]
UNDER_OTHER_NAMES = {"algo", "name", "build_time", "index_size", "expect_extra"}
OF_COMPARISONS = {PARTS, COUNTS}  # what is computed for them and for pictures alone


def row(run: Run, qps_at_recall: float) -> dict[str, Any]:
    """Return the cells of one run by column; lists as JSON."""
    cells: dict[str, Any] = {
        "algorithm": run.series.folder,  # it tells a batch from single queries
        "parameters": run.parameters,
        "count": run.count,
        **run.metrics,
        "dataset": run.dataset,
        QPS_AT_RECALL: qps_at_recall,
        "batch_mode": run.batch,
        "distance": run.distance,
    }
    for name, value in run.attrs.items():
        if name not in UNDER_OTHER_NAMES | OF_COMPARISONS:
            cells.setdefault(name, json.dumps(value) if isinstance(value, list) else value)
    return cells


Rows = list[dict[str, Any]]


def table_of(runs: Iterable[Run]) -> tuple[list[str], Rows]:
    """Return columns and a row for each result: ann-benchmarks' first, then ours, then attributes by name.

    The throughput at the target recall is that of an index: it stands with the result next to that recall.
    """
    runs = list(runs)
    found = {id(one.run): one.qps for one in indexes_at_recall(runs, TARGET_RECALL)}
    rows = [row(run, found.get(id(run), math.nan)) for run in runs]
    known = [*COLUMNS, *OWN_COLUMNS]
    if not any(run.series.filter for run in runs):
        known = [name for name in known if name not in OF_FILTERS]
        for cells in rows:
            for name in OF_FILTERS:
                cells.pop(name, None)
    others = sorted({name for cells in rows for name in cells} - set(known))
    return [*known, *others], rows


def write_csv(path: Path, runs: Iterable[Run]) -> None:
    """Write the table as CSV."""
    columns, rows = table_of(runs)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path: Path, runs: Iterable[Run]) -> None:
    """Write the table as Parquet; a column whose values are of several kinds has them as texts."""
    import pyarrow as pa
    import pyarrow.parquet

    columns, rows = table_of(runs)
    arrays = []
    for column in columns:
        values = [row.get(column) for row in rows]
        try:
            arrays.append(pa.array(values))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            arrays.append(pa.array([None if value is None else str(value) for value in values]))
    pyarrow.parquet.write_table(pa.table(arrays, columns), path)


def export_results(output: Path, recompute: bool = False) -> int:
    """Write every result in results/ to a CSV file, or a .parquet file; return the number of rows."""
    write = write_parquet if output.suffix == ".parquet" else write_csv
    runs = list(load_runs(iter_result_paths(), recompute))
    if not runs:
        raise UserError("nothing to export: results/ holds no readable result; run run.py first")
    try:
        with atomic_path(output) as temporary:
            write(temporary, runs)
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror or error}") from error
    return len(runs)

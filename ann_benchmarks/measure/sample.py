"""What a build takes, seen on a sample of the rows: loaded and indexed on this server, and dropped again."""

import contextlib
import io
import time
from contextlib import closing
from statistics import median
from typing import Any

import numpy as np

from ann_benchmarks.data.vectors import FirstRows
from ann_benchmarks.jobs.job import JobRequest

from .job import opened

SAMPLE_ROWS = 3000
SAMPLE_QUERIES = 50


def measure_sample(request: JobRequest) -> dict[str, Any]:
    """Return rows, load_seconds, build_seconds and query_seconds of a sample, and estimates of the whole.

    The index is made for all rows: index_kib, table_kib and memory (a text) are of all of them. Empty for an
    algorithm that makes no tables.
    """
    with opened(request) as (plugin, dataset, _), contextlib.redirect_stdout(io.StringIO()):
        if not plugin.has("open_writable") or dataset.attrs.get("type", "dense") != "dense":
            return {}
        rows, queries = dataset.rows, np.array(dataset.test()[:SAMPLE_QUERIES])
        sample = min(rows, SAMPLE_ROWS)
        with closing(
            plugin.open_writable(FirstRows(dataset.train_rows(), sample), rows, False, False)
        ) as table:
            facts, sizes = plugin.get_additional(), table.sizes()
            if arguments := request.job.definition.points()[0]:
                plugin.set_query_arguments(*arguments)
            times = []
            for query in queries:
                began = time.perf_counter()
                plugin.query(query, request.job.count)
                times.append(time.perf_counter() - began)
            plugin.rest()
    share = rows / sample
    return {
        "rows": sample,
        "load_seconds": facts["load_time"],
        "build_seconds": facts["index_build_time"],
        "query_seconds": median(times),  # the first one opens a session
        "index_kib": facts.get("estimated_index_size", sizes["index_size"] * share),
        "table_kib": sizes["table_size"] * share,
        "memory": facts.get("maintenance_work_mem", ""),
    }

"""The interface between the framework and an algorithm; docs/plugins.md explains it with an example."""

from collections.abc import Sequence
from multiprocessing.pool import ThreadPool
from typing import Any

import numpy as np
import psutil

Ids = Sequence[int] | np.ndarray


class BaseANN:
    """An algorithm under test: constructed with a definition's build arguments, then fitted, then queried.

    The framework looks for further methods and uses them only where a plug-in has them; they are not
    defined here because their presence is what counts:

    - ``set_query_arguments(*arguments)``: called before each group of query arguments.
    - ``prepare_query(v, n)``, ``run_prepared_query()``, ``get_prepared_query_results()``: take the place of
      `query`; only the second is timed.
    - ``time_queries(X, n)``: run queries one after the other and return (seconds of each, ids of each): for
      a plug-in that keeps its own work out of the time between two queries. ann-benchmarks does not know it.
    - ``prepare_batch_query(X, n)``, ``run_batch_query()``: take the place of `batch_query`; only the second
      is timed.
    - ``get_batch_latencies()``: seconds of each query of the last batch.
    - ``supports_prepared_queries()``: called once before `fit`; its result is not used.
    - ``open_clients(X, n, clients)``: start clients that ask at the same time, and return them as an object
      with ``prepare(orders, seconds, keeps_ids)``, ``prepare_arrivals(due, numbers, patience, keeps_ids)``,
      ``run()``, ``answers()`` and ``close()``; used for --clients, which ann-benchmarks does not know.
      ann_benchmarks/plugin.py says what each does, algorithms/postgres/clients/ has one. Without it,
      `query` is called from threads or processes, as `clients_by` says. A plug-in whose class attribute
      `drivers` names other programs for --driver is given ``driver=NAME``, and ``skew=S`` for zipf:S.
    - ``clients_opener(X, n)``: return a function, which can be pickled, that starts as many clients as it is
      told on whatever machine it is called; their ``run(start)`` starts them at that time of perf_counter.
    - ``search_range(n)``: say which query argument --target-recall searches, as an object with ``parameter``
      (its name), ``values`` (ascending in effort) and ``arguments(value)`` (what set_query_arguments takes).
    - ``watch_server()``: return an object that sees what a server does: ``running()`` goes around a run,
      ``facts(queries)`` is what is stored of it, ``close()`` ends it.
    - ``open_writable(X, rows, has_key, autovacuum)``, ``learns_from_rows(rows)``: a table to write to, for
      workloads that write; ann_benchmarks/plugin.py says what it does.
    - ``open_monitor()``: return an object that tells of a server from the start of a job to its end:
      ``sample()`` returns numbers by name, those named in ``levels`` as they are, all others counted since
      something began; ``is_local``, without which nothing of this machine is sampled; ``close()``. None of
      them raises, also where the server is not there. ann-benchmarks does not know it.
    - ``set_phase_listener(enter)``: called before `fit`, which then calls ``enter(name)`` when it begins to
      do something else, such as "load" or "build". ann-benchmarks does not know it.
    - ``cool()``: empty all caches, before each run with --warmup off.
    - ``recover()``: be ready for the next point after one has failed. Without it, a failure ends the
      definition.
    - ``set_load_options(threads, chunk_rows)``: called before `fit` where the user gave --load-threads or
      --chunk-size; None is what was not given. ann-benchmarks does not know it.
    - ``set_build_options(rebuild, prewarm)``: called before `fit` where the user gave --rebuild (an index
      that is there from an earlier run is not to be used) or --warmup off (no index is to be warmed).
      ann-benchmarks does not know it.
    - ``serve_only()``: called before `fit` with --tiers: the index was built by another process, which had
      more memory, and is to be found. ann-benchmarks does not know it.
    - ``installed_versions()``: a class method that returns the versions, by name, of what the plug-in uses,
      tried out; for what install.py says of an image.
    """

    name: str
    # True: fit() is given the dataset as it lies on disk (sliceable, with .shape and .dtype), which may be
    # larger than memory. False: an array, possibly memory-mapped; changing it does not change the file.
    streams_training_set = False
    # What --clients makes of a plug-in without open_clients: "threads" of its process, which call `query` at
    # the same time, or "processes", forked from it when the index is built. ann-benchmarks does not know it.
    clients_by = "threads"

    def fit(self, X: Any) -> None:
        """Build the index over the rows of `X`, whose numbers are the ids that queries return."""

    def query(self, q: Any, n: int) -> Ids:
        """Return the ids of about the `n` nearest rows, nearest first, none twice; fewer is allowed."""
        return []

    def batch_query(self, X: Any, n: int) -> None:
        """Answer all queries and keep the answers; by default on one thread a core."""
        with ThreadPool() as pool:
            self.res = pool.map(lambda q: self.query(q, n), X)

    def get_batch_results(self) -> Sequence[Ids]:
        """Return the last batch's ids, one sequence a query."""
        return self.res

    def get_additional(self) -> dict[str, Any]:
        """Return what else to store; build_time (s) and index_size (KiB) replace the measured ones."""
        return {}

    def get_memory_usage(self) -> float | None:
        """Memory in use now in KiB, None if unknown; the index size is the difference that `fit` makes."""
        return float(psutil.Process().memory_info().rss) / 1024

    def done(self) -> None:
        """Release what the algorithm holds; always called, also after an error."""

    def __str__(self) -> str:
        """Name the algorithm with its arguments as set now; stored as `name`."""
        return getattr(self, "name", type(self).__name__)

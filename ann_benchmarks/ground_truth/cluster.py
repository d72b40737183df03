"""Spans searched by the workers of a Dask cluster."""

import hashlib
import logging
import pickle
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from ..errors import UserError
from ..vectors.rows import Rows
from .span import Found, Question, search_span

PATIENCE = 30  # seconds to reach the scheduler, and for its first worker
SPANS_PER_WORKER = 2  # one searched, one on its way
RUN_AGAIN = "what is done is kept: run the same command again"


class Cluster:
    """A running scheduler, and how its workers open the dataset."""

    def __init__(self, scheduler: str, opener: Callable[[], Rows]) -> None:
        self._scheduler, self._opener = scheduler, opener

    def search(
        self,
        question: Question,
        train: Any,
        spans: dict[int, range],
        farthest: Callable[[], np.ndarray],
    ) -> Iterator[tuple[int, Found]]:
        """Give each span's result as it comes. `farthest` is asked for the limits when a span is sent.

        A worker that dies costs the spans that it had, which others then do. Raises UserError when the
        cluster cannot be used.
        """
        waiting = list(reversed(spans.items()))
        with self._connected() as client:
            running: dict[Any, int] = {}
            completed: SimpleQueue[Any] = SimpleQueue()

            def send() -> None:
                workers = len(client.nthreads()) or 1
                while waiting and len(running) < SPANS_PER_WORKER * workers:
                    number, span = waiting.pop()
                    task = _SpanTask(question, self._opener, span, farthest(), _Look.at(train, span))
                    future = client.submit(task, pure=False)
                    running[future] = number
                    future.add_done_callback(completed.put)

            send()
            while running:
                future = completed.get()
                number = running.pop(future)
                found = self._result(future, spans[number])
                future.release()
                yield number, found
                send()

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        try:
            import dask
            from distributed import Client
        except ImportError:
            raise UserError(
                "a cluster needs a package that is not installed; run: pip install distributed"
            ) from None
        # What matters arrives as an error of a span; the rest, such as versions that differ, is noise here.
        for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        quiet = {"distributed.admin.large-graph-warning-threshold": "1TB"}
        with warnings.catch_warnings(), dask.config.set(quiet):
            warnings.simplefilter("ignore")
            try:
                _knock(self._scheduler)
                client = Client(self._scheduler, timeout=PATIENCE, set_as_default=False)
            except (OSError, ValueError, TypeError) as error:
                raise UserError(
                    f"the Dask scheduler {self._scheduler} cannot be reached ({_line(error)}); "
                    "expected is the address that `dask scheduler` prints, such as tcp://host:8786"
                ) from None
            with client:
                try:
                    client.wait_for_workers(1, timeout=PATIENCE)
                except TimeoutError:
                    raise UserError(
                        f"the Dask scheduler {self._scheduler} has no workers; start some with: "
                        f"dask worker {self._scheduler}"
                    ) from None
                yield client

    def _result(self, future: Any, span: range) -> Found:
        try:
            result: Found = future.result()
        except UserError:
            raise
        except Exception as error:  # whatever happened there: here it is one line
            lacking = _lacking(error)
            if lacking:
                raise UserError(
                    f"the cluster {self._scheduler} lacks a module ({lacking}); start its scheduler and "
                    "workers with this folder in PYTHONPATH and with the same packages installed"
                ) from None
            raise UserError(
                f"rows {span.start} to {span.stop} failed on the cluster {self._scheduler}: "
                f"{type(error).__name__}: {_line(error)}; {RUN_AGAIN}"
            ) from None
        return result


@dataclass(frozen=True)
class _Look:
    """What the worker's file must have in common with ours."""

    shape: tuple[int, int]
    dtype: str
    row: int
    digest: str

    @classmethod
    def at(cls, train: Any, span: range) -> "_Look":
        first = np.ascontiguousarray(train[span.start : span.start + 1])
        digest = hashlib.blake2b(first.data, digest_size=16).hexdigest()
        return cls((train.shape[0], train.shape[1]), np.dtype(train.dtype).str, span.start, digest)

    def differs(self, rows: Rows) -> str:
        """Say what another file has that this one has not, or nothing."""
        shape = (rows.shape[0], rows.shape[1])
        if shape != self.shape or np.dtype(rows.dtype).str != self.dtype:
            return (
                f"has {shape[0]} rows x {shape[1]} of {np.dtype(rows.dtype)} where {self.shape[0]} rows x "
                f"{self.shape[1]} of {np.dtype(self.dtype)} were expected"
            )
        span = range(self.row, self.row + 1)
        return (
            "" if _Look.at(rows, span) == self else f"has another row {self.row} (from 0) than the file here"
        )


@dataclass(frozen=True)
class _SpanTask:
    """A span's search, as it travels to a worker; carries all it needs, so that any worker can do it."""

    question: Question
    opener: Callable[[], Rows]
    span: range
    farthest: np.ndarray
    look: _Look

    def __call__(self) -> Found:
        from distributed import get_worker

        worker = get_worker()
        with _ONE_AT_A_TIME:  # a search uses all of the worker's cores
            try:
                rows = _opened(pickle.dumps(self.opener))
                difference = self.look.differs(rows)
            except (UserError, OSError) as error:
                raise UserError(f"the worker {worker.address} cannot open the dataset: {error}") from None
            if difference:
                raise UserError(
                    f"on the worker {worker.address}, {rows.label} {difference}; "
                    "all machines need the same files"
                )
            return search_span(self.question, rows, self.span, self.farthest, worker.state.nthreads)


_ONE_AT_A_TIME = threading.Lock()


@lru_cache(maxsize=1)
def _opened(opener: bytes) -> Rows:
    rows: Rows = pickle.loads(opener)()
    return rows


def _knock(address: str) -> None:
    """Raise OSError or ValueError where nobody listens: a client would try for long, and leave a trace."""
    place = urlsplit(address if "://" in address else f"tcp://{address}")
    if not place.hostname or not place.port:
        raise ValueError("no host and port")
    socket.create_connection((place.hostname, place.port), timeout=PATIENCE).close()


def _lacking(error: BaseException | None) -> str:
    """Say which module could not be imported, where that is the cause."""
    while error and not isinstance(error, ModuleNotFoundError):
        error = error.__cause__
    return _line(error) if error else ""


def _line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]

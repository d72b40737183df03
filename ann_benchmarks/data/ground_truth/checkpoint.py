"""The nearest rows known so far, and the file from which an interrupted search goes on."""

import hashlib
import json
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.files import atomic_path, disk_errors

from .exact import nearest
from .span import Problem, SpanNeighbors

MERGED_AT_ONCE = 512  # queries; bounds the memory of a merge
SHARE_OF_SAVING = 0.1  # of the time, at most


class PartialTruth:
    """The k nearest of every query in the spans that are done: ids (queries, k) and distances."""

    def __init__(self, problem: Problem, rows: int, spans: int) -> None:
        shape = (len(problem.queries), problem.k)
        self.ids = np.full(shape, rows, np.int64)  # no row's number: behind every row
        self.distances = np.full(shape, np.inf)
        self.done = np.zeros(spans, bool)

    def merge(self, span: int, found: SpanNeighbors) -> None:
        """Take in what a span has."""
        ends = np.concatenate(([0], np.cumsum(found.counts)))
        for start in range(0, len(self.ids), MERGED_AT_ONCE):
            stop = min(start + MERGED_AT_ONCE, len(self.ids))
            new = slice(ends[start], ends[stop])
            which = start + np.flatnonzero(found.counts[start:stop])
            if not len(which):
                continue
            k = self.ids.shape[1]
            of = np.concatenate((np.repeat(which, k), np.repeat(which, found.counts[which])))
            ids = np.concatenate((self.ids[which].reshape(-1), found.ids[new]))
            distances = np.concatenate((self.distances[which].reshape(-1), found.distances[new]))
            order = nearest(of, distances, ids, k)
            self.ids[which] = ids[order].reshape(-1, k)
            self.distances[which] = distances[order].reshape(-1, k)
        self.done[span] = True


class Checkpoint:
    """A file of partial truth; whole or not there. What was computed for anything else is not used."""

    def __init__(self, path: Path, identity: str) -> None:
        self._path, self._identity = path, identity
        self._saved_at, self._took = -np.inf, 0.0

    def load_into(self, truth: PartialTruth) -> None:
        """Continue with what the file has, if it is of the same problem and rows."""
        try:
            with np.load(self._path, allow_pickle=False) as file:
                if str(file["identity"]) != self._identity:
                    return
                found = [file[name] for name in ("ids", "distances", "done")]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return  # none, or not ours: computed anew, and replaced
        if [part.shape for part in found] == [truth.ids.shape, truth.distances.shape, truth.done.shape]:
            truth.ids, truth.distances, truth.done = found

    def save(self, truth: PartialTruth) -> None:
        """Write, unless the last time was so recent that writing would take more than its share."""
        started = time.monotonic()
        if not truth.done.all() and started - self._saved_at < self._took / SHARE_OF_SAVING:
            return
        with disk_errors(self._path), atomic_path(self._path) as temporary, temporary.open("wb") as file:
            np.savez(
                file,
                identity=np.array(self._identity),
                ids=truth.ids,
                distances=truth.distances,
                done=truth.done,
            )
        self._saved_at = time.monotonic()
        self._took = self._saved_at - started


def identity_of(problem: Problem, train: Any, mark: str, span_rows: int) -> str:
    """Describe what is searched; equal text, equal neighbours."""
    queries = np.ascontiguousarray(problem.queries)
    return json.dumps(
        {
            "version": 1,
            "metric": problem.metric,
            "k": problem.k,
            "queries": [queries.shape, queries.dtype.str, hashlib.blake2b(queries.data).hexdigest()],
            "train": [list(train.shape), np.dtype(train.dtype).str, mark],
            "span": span_rows,
        }
    )

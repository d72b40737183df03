"""Whether true neighbours are those of the vectors: recomputed for some queries, against some of all rows.

Other tools number rows from 1, store squared distances or similarities, or put the farthest neighbour first.
What follows such a convention is recognised and put right; anything else is refused.
"""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from ann_benchmarks.common.atomic import atomic_path
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.foreign import DAMAGE
from ann_benchmarks.common.sparse import SparseVectors, joined
from ann_benchmarks.distance import NOISE, ROUNDING, candidate_distances, is_nearer, rounded_up

from ..ground_truth import exact_neighbors
from ..vectors import Rows
from .queries import TrueNeighbors

QUERIES, SLOW_QUERIES = 100, 10  # whose neighbours are recomputed; fewer where single rows take long to read
NEIGHBORS = 10  # of each of them, the first and the last among them
SAMPLE_BYTES, PIECE_BYTES = 2**24, 2**18  # of the rows that no neighbour may be farther than
SAMPLE_SECONDS = 20.0  # after which the sample is as large as it is
OUT_OF_ORDER = "neighbours out of order"
_TOLERANCE = 1e-3  # of a distance, by which one stored in single precision may be off


class Convention(NamedTuple):
    """What a file may hold in place of distances: a function of our distances and the dimension."""

    name: str
    metric: str
    values: Callable[[np.ndarray, int], np.ndarray]


CONVENTIONS = (
    Convention("squared distances", "euclidean", lambda d, _: d**2),
    Convention("cosine similarities", "angular", lambda d, _: 1 - d),
    Convention("distances of unit vectors", "angular", lambda d, _: np.sqrt(2 * np.maximum(d, 0))),
    Convention("squared distances of unit vectors", "angular", lambda d, _: 2 * d),
    Convention("angles", "angular", lambda d, _: np.arccos(np.clip(1 - d, -1, 1))),
    Convention("inner products", "ip", lambda d, _: -d),
    Convention("1 minus the inner products", "ip", lambda d, _: 1 + d),
    Convention("distances of unit vectors", "ip", lambda d, _: np.sqrt(2 * np.maximum(1 + d, 0))),
    Convention("squared distances of unit vectors", "ip", lambda d, _: 2 * (1 + d)),
    Convention("numbers of bits that differ", "hamming", lambda d, dimension: d * dimension),
    Convention("shares of bits that agree", "hamming", lambda d, _: 1 - d),
    Convention("similarities", "jaccard", lambda d, _: 1 - d),
)


@dataclass(frozen=True)
class CheckedTruth:
    """True neighbours that hold, which conventions were put right, and how much of them was checked."""

    truth: TrueNeighbors
    corrections: list[str]
    extent: str


def check_path(name: str, data: Path) -> Path:
    """Where the outcome of the last check lies or would lie."""
    return data / f"{name}.checked.json"


def is_checked(path: Path, files: Sequence[Path]) -> bool:
    """Whether the true neighbours in these files held when they were checked, and no file has changed."""
    with suppress(*DAMAGE):
        return bool(json.loads(path.read_text())["files"] == _stamps(files))
    return False


def write_check(path: Path, files: Sequence[Path], extent: str) -> None:
    """Store that the true neighbours hold; where that is not possible, they are checked again next time."""
    content = {"files": _stamps(files), "extent": extent}
    with suppress(OSError, UserError), atomic_path(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1))


def _stamps(files: Sequence[Path]) -> dict[str, list[int]]:
    status = {path.name: path.stat() for path in files}
    return {"version": [1], **{name: [one.st_size, one.st_mtime_ns] for name, one in status.items()}}


def check_truth(dataset: Any, truth: TrueNeighbors) -> CheckedTruth:
    """Check neighbours that came with a Dataset, or were found before.

    What follows another convention is put right. UserError where they are not those of the vectors.
    """
    ids = truth.neighbors.astype(np.int64)
    if problem := _impossible(ids):
        raise _refusal(dataset, problem)
    sample = _Sample(dataset, ids.shape[1])
    problem, corrections = sample.judge(truth)
    if problem is not None:
        lower = replace(truth, neighbors=np.where(ids > 0, ids - 1, -1))
        other_problem, corrections = sample.judge(lower, without=(ids == 0).any(axis=1))
        if other_problem is not None:
            raise _refusal(dataset, problem)
        if (ids == 0).any():
            raise _refusal(dataset, f"they seem to be numbered from 1, but {_query(ids == 0)} names row 0")
        truth, corrections = lower, ["neighbours numbered from 1", *corrections]
    if corrections or truth.distances is None:
        truth = _recomputed(dataset, truth, corrections)
    return CheckedTruth(truth, corrections, sample.extent)


def _impossible(ids: np.ndarray) -> str | None:
    """Say which neighbours cannot be those of any vectors."""
    if (ids < -1).any():
        return f"{_query(ids < -1)} names row {ids.min()}"
    if not (ids >= 0).any(axis=1).all():
        return f"{_query(~(ids >= 0).any(axis=1))} has no neighbour"
    in_order = np.sort(ids, axis=1)
    repeated: np.ndarray = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    if repeated.any():
        return f"{_query(repeated)} names row {in_order[:, 1:][repeated][0]} more than once"
    return None


def _query(is_bad: Any) -> str:
    return f"query {np.argwhere(is_bad)[0][0]} (from 0)"


def _refusal(dataset: Any, problem: str) -> UserError:
    force = " --force" if dataset.has_own_truth else ""
    return UserError(
        f"the true neighbours of {dataset.name} are not those of its vectors: {problem}; get the dataset"
        f" again, or find them by: python create_dataset.py --ground-truth {dataset.name}{force}"
    )


def _recomputed(dataset: Any, truth: TrueNeighbors, corrections: list[str]) -> TrueNeighbors:
    """Return the same neighbours in order, with distances in float64, as many as each query has."""
    depth = int((truth.neighbors >= 0).sum(axis=1).min())
    if depth < truth.neighbors.shape[1]:
        corrections.append(f"fewer neighbours for some queries: {depth} of each are used")
    found = dataset.with_distances(truth.neighbors)
    nearest = found.neighbors[:, :depth], found.known_distances[:, :depth]
    return TrueNeighbors(*nearest, dataset.name, published=truth.distances)


class _Sample:
    """Some queries, and their nearest rows among some of all rows, by exact search."""

    def __init__(self, dataset: Any, k: int) -> None:
        self._dataset, self._metric = dataset, str(dataset.attrs["distance"])
        self._train, every = dataset.vectors(), dataset.test()
        is_slow = isinstance(self._train, Rows) and bool(self._train.fingerprint())
        count = min(SLOW_QUERIES if is_slow else QUERIES, len(every))
        self._numbers = np.linspace(0, len(every) - 1, count, dtype=np.int64)
        self._queries: Any = (
            [every[i] for i in self._numbers] if isinstance(every, list) else every[self._numbers]
        )
        rows, numbers = _sampled_rows(self._train, 4 * dataset.row_values)
        found, self._distances = exact_neighbors(
            self._metric, rows, self._queries, min(k, len(numbers)), progress=False
        )
        self._nearest = numbers[found]
        self.extent = (
            f"{count:,} of {len(every):,} queries recomputed, compared with {len(numbers):,} of"
            f" {dataset.rows:,} rows"
        )

    def judge(self, truth: TrueNeighbors, without: np.ndarray | None = None) -> tuple[str | None, list[str]]:
        """Return why these cannot be the true neighbours, and what follows another convention.

        Queries marked in `without`, (queries,), may have any neighbours.
        """
        is_beyond = truth.neighbors >= self._dataset.rows
        if is_beyond.any():
            row, last = truth.neighbors[is_beyond][0], self._dataset.rows - 1
            return f"{_query(is_beyond)} names row {row:,}, but the last row is {last:,}", []
        ids = truth.neighbors[self._numbers]
        columns = np.unique(np.linspace(0, ids.shape[1] - 1, min(NEIGHBORS, ids.shape[1]), dtype=np.int64))
        chosen = ids[:, columns]
        computed = candidate_distances(self._metric, self._queries, self._train, chosen)
        farthest = np.where(chosen >= 0, computed, -np.inf).max(axis=1)
        if without is not None:
            farthest[without[self._numbers]] = -np.inf
        problem = self._nearer_row(ids, farthest)
        if problem or truth.distances is None:
            return problem, []
        stored = truth.distances[self._numbers][:, columns].astype(np.float64)
        problem, corrections = self._convention(stored, computed, chosen)
        if not corrections and not _ascends(truth.distances):
            corrections = [OUT_OF_ORDER]
        return problem, corrections

    def _nearer_row(self, ids: np.ndarray, farthest: np.ndarray) -> str | None:
        """Name a row of the sample that is nearer than the farthest neighbour, but is not a neighbour."""
        for at, place in np.argwhere(is_nearer(self._metric, self._distances, farthest[:, np.newaxis])):
            row = self._nearest[at, place]
            if row not in ids[at]:
                return (
                    f"query {self._numbers[at]} (from 0) has row {row:,} at distance"
                    f" {self._distances[at, place]:.6g}, which the file does not name, and a neighbour at"
                    f" {farthest[at]:.6g}"
                )
        return None

    def _convention(
        self, stored: np.ndarray, computed: np.ndarray, ids: np.ndarray
    ) -> tuple[str | None, list[str]]:
        """Compare distances, (queries, neighbours), with those computed here."""
        is_known = (ids >= 0) & np.isfinite(stored)
        if self._metric == "angular":
            is_known &= computed != 1  # a vector of zeros has no angle, and tools differ in what they store
        corrections = []
        if not _ascends(np.where(ids >= 0, computed, np.inf)):
            corrections.append(OUT_OF_ORDER)
        if (ids < 0).any():
            corrections.append("-1 for missing neighbours")
        expected, found = computed[is_known], stored[is_known]
        dimension = int(self._dataset.attrs["dimension"])
        if _agree(found, expected):
            if (np.abs(found - expected) > ROUNDING / 2 * np.abs(expected) + NOISE).any():
                corrections.append("rounded distances")
            return None, corrections
        for convention in CONVENTIONS:
            if convention.metric == self._metric and _agree(found, convention.values(expected, dimension)):
                return None, [convention.name, *corrections]
        off = np.where(is_known, np.abs(stored - computed) - _TOLERANCE * np.abs(computed), -np.inf)
        at, place = np.unravel_index(np.argmax(off), off.shape)
        return (
            f"query {self._numbers[at]} (from 0) has row {ids[at, place]:,} at {stored[at, place]:.6g} in the"
            f" file, and its {self._metric} distance is {computed[at, place]:.6g}"
        ), []


def _ascends(distances: np.ndarray) -> bool:
    """Whether each row of distances ascends, but for rounding."""
    before, after = distances[:, :-1], distances[:, 1:]
    return not (rounded_up(after) < before).any()


def _agree(stored: np.ndarray, expected: np.ndarray) -> bool:
    """Whether distances are equal but for single precision: by their own size, or that of the usual ones."""
    usual = float(np.median(np.abs(expected))) if len(expected) else 0.0
    return np.allclose(stored, expected, rtol=_TOLERANCE, atol=_TOLERANCE / 10 * usual)


def _sampled_rows(train: Any, row_bytes: int) -> tuple[Any, np.ndarray]:
    """Read pieces from all over the rows, or all of a few; return them and their numbers, ascending."""
    piece = max(1, PIECE_BYTES // max(1, row_bytes))
    pieces = -(-len(train) // piece)
    most = max(1, SAMPLE_BYTES // PIECE_BYTES)
    chosen = np.random.default_rng(0).permutation(pieces)[:most] if pieces > most else np.arange(pieces)
    found: dict[int, Any] = {}
    deadline = time.monotonic() + SAMPLE_SECONDS
    for number in tqdm(chosen, "checking the true neighbours", unit="piece", delay=1, disable=None):
        found[int(number)] = train[int(number) * piece : min((int(number) + 1) * piece, len(train))]
        if time.monotonic() > deadline:
            break
    parts = [found[number] for number in sorted(found)]
    numbers = np.concatenate([
        number * piece + np.arange(len(part)) for number, part in zip(sorted(found), parts, strict=True)
    ])  # fmt: skip
    if isinstance(parts[0], SparseVectors):
        return joined(parts, parts[0].dimension), numbers
    if isinstance(parts[0], list):
        return [row for part in parts for row in part], numbers
    return np.concatenate(parts), numbers

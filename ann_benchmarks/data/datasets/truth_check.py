"""Whether true neighbours are those of the vectors: their distances, and some of all rows, computed here.

Other tools number rows from 1, store squared distances or similarities, or put the farthest neighbour first.
What follows such a convention is recognised and put right; anything else is refused.
"""

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path, read_regular
from ann_benchmarks.common.text import DAMAGE
from ann_benchmarks.distance import NOISE, ROUNDING, candidate_distances, is_nearer, rounded_up

from ..ground_truth import exact_neighbors
from ..vectors import Rows
from .queries import TrueNeighbors

QUERIES, SLOW_QUERIES = 100, 10  # looked up in sampled rows; fewer where rows are slow to read
DEPTH, ALL = 10, -1  # the neighbour of every query whose distance is computed: as many as are requested
SAMPLE_BYTES, PIECE_BYTES = 2**24, 2**18  # of the sampled rows, and of one piece of them
SAMPLE_SECONDS = 20.0  # then the sample is as large as it is
MOST_MISSING = 0.005  # share of the true neighbours that a file may lack for rounding
_MOST_OF_RECORD = 2**20  # bytes
_UINT32_NONE = 2**32 - 1  # -1 where row numbers have no sign
_TOLERANCE, _SINGLE = 1e-3, 4e-6  # share of a distance, and of squared lengths, lost to single precision


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
    depth: int  # the neighbour whose distance was computed for every query, or ALL
    extent: str


def check_path(name: str, data: Path) -> Path:
    """Where the outcome of the last check lies or would lie."""
    return data / f"{name}.checked.json"


def checked_depths(path: Path, files: Sequence[Path]) -> list[int]:
    """Return the depths at which the true neighbours were checked since these files changed."""
    with suppress(*DAMAGE):
        record = json.loads(read_regular(path, _MOST_OF_RECORD))
        if record["files"] == _stamps(path, files):
            return [int(depth) for depth in record["depths"]]
    return []


def write_check(path: Path, files: Sequence[Path], checked: CheckedTruth) -> None:
    """Store that true neighbours are right; where that is not possible, they are checked again next time."""
    depths = [*checked_depths(path, files), checked.depth]
    with suppress(OSError, UserError), atomic_path(path) as temporary:
        content = {"files": _stamps(path, files), "depths": depths, "extent": checked.extent}
        temporary.write_text(json.dumps(content, indent=1))


def _stamps(path: Path, files: Sequence[Path]) -> dict[str, list[int]]:
    """Return sizes and times by path, from the folder of the data on where a file lies there."""
    status = {os.path.relpath(file, path.parent): file.stat() for file in files}
    return {"version": [2], **{name: [one.st_size, one.st_mtime_ns] for name, one in status.items()}}


def check_truth(dataset: Any, truth: TrueNeighbors, depth: int = DEPTH) -> CheckedTruth:
    """Check neighbours that came with a Dataset, or were found before, and each query's distance at `depth`.

    What follows another convention is put right. UserError where they are not those of the vectors.
    """
    ids = truth.neighbors.astype(np.int64)
    if dataset.rows < _UINT32_NONE:
        ids = np.where(ids == _UINT32_NONE, -1, ids)
    if problem := _impossible(ids):
        raise _refusal(dataset, problem)
    truth, sample = replace(truth, neighbors=ids), _Sample(dataset, ids.shape[1])
    problem = sample.problem(ids)
    corrections = [] if problem is None else ["neighbours numbered from 1"]
    if problem is not None:
        lower, have_0 = np.where(ids > 0, ids - 1, -1), (ids == 0).any(axis=1)
        if have_0[sample.numbers].mean() > 0.5 or sample.problem(lower, without=have_0) is not None:
            raise _refusal(dataset, problem)
        if have_0.any():
            raise _refusal(dataset, f"they seem to be numbered from 1, but {_query(ids == 0)} names row 0")
        truth = replace(truth, neighbors=lower)
    if (least := int((ids >= 0).sum(axis=1).min())) < ids.shape[1]:
        corrections.append(f"-1 for missing neighbours: {least} of each query will be used")
    if truth.distances is not None:
        corrections = [*_conventions(dataset, truth, sample.numbers, depth), *corrections]
    if corrections or truth.distances is None:
        found = dataset.compute_distances(truth.neighbors)
        nearest = found.neighbors[:, :least], found.known_distances[:, :least]
        truth = TrueNeighbors(*nearest, dataset.name, published=truth.distances)
        depth = ALL
    return CheckedTruth(truth, corrections, depth, sample.extent)


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
        f" again, or compute them with: python create_dataset.py --ground-truth {dataset.name}{force}"
    )


class _Sample:
    """Some queries, and their nearest rows among some of all rows, by exact search."""

    def __init__(self, dataset: Any, k: int) -> None:
        self._dataset, self._metric = dataset, str(dataset.attrs["distance"])
        self._train, every = dataset.vectors(), dataset.test()
        is_slow = isinstance(self._train, Rows) and bool(self._train.fingerprint())
        count = min(SLOW_QUERIES if is_slow else QUERIES, len(every))
        self.numbers = np.linspace(0, len(every) - 1, count, dtype=np.int64)
        self._queries = _chosen(every, self.numbers)
        rows, numbers = _sampled_rows(self._train, 4 * dataset.row_values)
        found, self._distances = exact_neighbors(
            self._metric, rows, self._queries, min(k, len(numbers)), progress=False
        )
        self._nearest, self._share = numbers[found], len(numbers) / dataset.rows
        self.extent = (
            f"{count:,} of {len(every):,} queries compared with {len(numbers):,} of {dataset.rows:,} rows"
        )

    def problem(self, neighbors: np.ndarray, without: np.ndarray | None = None) -> str | None:
        """Return why these row numbers, (queries, k), cannot be the true neighbours; None if they can.

        Queries marked in `without`, (queries,), may have any neighbours.
        """
        is_beyond = neighbors >= self._dataset.rows
        if is_beyond.any():
            row, last = neighbors[is_beyond][0], self._dataset.rows - 1
            return f"{_query(is_beyond)} names row {row:,}, but the last row is {last:,}"
        ids = neighbors[self.numbers]
        chosen = ids[:, _spread(ids.shape[1])]
        computed = candidate_distances(self._metric, self._queries, self._train, chosen)
        farthest = np.where(chosen >= 0, computed, -np.inf).max(axis=1)[:, np.newaxis]
        if without is not None:
            farthest[without[self.numbers]] = -np.inf
        missing = [
            (at, place)
            for at, place in np.argwhere(rounded_up(self._distances) < farthest)
            if self._nearest[at, place] not in ids[at]
        ]
        are_far = is_nearer(self._metric, self._distances, farthest)
        at, place = next((pair for pair in missing if are_far[pair]), missing[0] if missing else (0, 0))
        share = len(missing) / self._share / ids.size
        if not missing or not (are_far[at, place] or share > MOST_MISSING):
            return None
        return (
            f"query {self.numbers[at]} (from 0) has row {self._nearest[at, place]:,} at distance"
            f" {self._distances[at, place]:.6g}, which the file does not name, and a neighbour at"
            f" {farthest[at, 0]:.6g}"
        )


def _conventions(dataset: Any, truth: TrueNeighbors, sampled: np.ndarray, depth: int) -> list[str]:
    """Return in what the distances in a file differ from ours; UserError where no convention explains it.

    Compared are one distance of every query, the one that recall is judged by, and several of some queries.
    """
    metric, dimension = str(dataset.attrs["distance"]), int(dataset.attrs["dimension"])
    stored, every = truth.known_distances.astype(np.float64), dataset.test()
    queries, k = truth.neighbors.shape
    parts = [(np.arange(queries), np.array([min(depth, k) - 1])), (sampled, _spread(k))]
    found = [
        candidate_distances(
            metric, _chosen(every, numbers), dataset.vectors(), truth.neighbors[np.ix_(numbers, columns)]
        )
        for numbers, columns in parts
    ]
    computed = np.concatenate([part.ravel() for part in found])
    query = np.concatenate([np.repeat(numbers, len(columns)) for numbers, columns in parts])
    place = np.concatenate([np.tile(columns, len(numbers)) for numbers, columns in parts])
    given, is_row = stored[query, place], np.isfinite(computed)
    is_known = is_row & np.isfinite(given)
    if metric == "angular":
        is_known &= computed != 1  # a vector of zeros has no angle, and tools store various numbers
    # Products of vectors lose a share of their lengths, so that small distances may lose all their digits.
    d = np.where(is_known, computed, 0.0)
    is_dense = isinstance(every, np.ndarray)
    squares = (np.linalg.norm(every.astype(float), axis=1) if is_dense else np.zeros(queries))[query] ** 2
    low, high = d, d
    if metric == "euclidean":
        lost = _SINGLE * (squares + (np.sqrt(squares) + d) ** 2)
        low, high = np.sqrt(np.maximum(d**2 - lost, 0)), np.sqrt(d**2 + lost)
    elif metric in ("angular", "ip"):
        lost = _SINGLE * (squares if metric == "ip" else 1)
        low, high = d - lost, d + lost

    def misfits(convention: Convention) -> np.ndarray:
        """Say which distances do not follow a convention, but for single precision."""
        ends = np.sort([convention.values(one, dimension) for one in (low, d, high)], axis=0)
        slack = _TOLERANCE * np.abs(ends[1]) + NOISE
        return is_known & ~((ends[0] - slack <= given) & (given <= ends[2] + slack))

    own = Convention("", metric, lambda d, _: d)
    known = [own, *(one for one in CONVENTIONS if one.metric == metric)]
    fitting = next((one for one in known if not misfits(one).any()), None)
    if fitting is None:
        at = int(np.argmax(misfits(own)))
        raise _refusal(
            dataset,
            f"query {query[at]} (from 0) has row {truth.neighbors[query[at], place[at]]:,} at {given[at]:.6g}"
            f" in the file, and its {metric} distance is {computed[at]:.6g}",
        )
    names = [fitting.name] if fitting.name else []
    if not _ascends(found[1]) or (fitting is own and not _ascends(stored)):
        names.append("neighbours out of order")
    if not np.isfinite(stored[truth.neighbors >= 0]).all():
        names.append("missing distances")
    elif fitting is own:
        off = np.abs(given - computed)[is_row]
        if (off > ROUNDING / 2 * np.abs(computed[is_row]) + NOISE).any():
            names.append("rounded distances")
    return names


def _chosen(queries: Any, numbers: np.ndarray) -> Any:
    return [queries[i] for i in numbers] if isinstance(queries, list) else queries[numbers]


def _spread(k: int) -> np.ndarray:
    """Return the places of 10 of k neighbours, the first and the last among them."""
    return np.unique(np.linspace(0, k - 1, min(10, k), dtype=np.int64))


def _ascends(distances: np.ndarray) -> bool:
    """Whether each row of distances ascends, but for rounding; what is not a number is passed over."""
    return not (rounded_up(distances[:, 1:]) < distances[:, :-1]).any()


def _sampled_rows(train: Any, row_bytes: int) -> tuple[Any, np.ndarray]:
    """Read pieces from all over the rows, or all of a few; return them and their numbers, ascending."""
    piece = max(1, PIECE_BYTES // max(1, row_bytes))
    chosen = np.random.default_rng(0).permutation(-(-len(train) // piece))[: SAMPLE_BYTES // PIECE_BYTES]
    found: dict[int, Any] = {}
    deadline = time.monotonic() + SAMPLE_SECONDS
    for number in tqdm(chosen, "checking the true neighbours", unit="piece", delay=1, disable=None):
        found[int(number)] = train[int(number) * piece : min((int(number) + 1) * piece, len(train))]
        if time.monotonic() > deadline:
            break
    parts = [found[number] for number in sorted(found)]
    numbers = np.concatenate([number * piece + np.arange(len(found[number])) for number in sorted(found)])
    if isinstance(parts[0], list):
        return [row for part in parts for row in part], numbers
    return np.concatenate(parts), numbers

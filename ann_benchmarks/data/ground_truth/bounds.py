"""Bounds of distances from float32 matrix products, one class a metric."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError

from .devices import Device
from .exact import power_of_two, round_up

FLOAT32_UNIT = 2.0**-24  # relative error of one float32 operation
FLOAT64_UNIT = 2.0**-53
UNDERFLOW = 2.0**-100  # per dimension; vectors are scaled to lengths near 1
LONGEST = 2.0**60  # scaled; products of longer vectors could overflow
MIDDLE_SAMPLE = 250  # queries whose median becomes the origin

Array = Any  # the device's


class DistanceBounds:
    """Float32 scores of rows for queries, each with a bound on how far it may be off.

    A score is one matrix product of what `rows` makes (rows, columns) and `weights` (queries, columns),
    unless the metric has its own `scores`. The column after the vector carries the terms that depend on the
    row only; those after it are zeros. With E what `limits` makes of the row's exact distance, before it
    rounds up, `score <= E <= score + row_error + query_error`. Rows whose score is above a query's limit are
    therefore farther than that limit's distance.

    The computed dot product of q and x, in whatever order it is summed, is off by at most
    n 2^-24 |q||x| / (1 - n 2^-24) for n terms (Higham, Accuracy and Stability of Numerical Algorithms, 3.1),
    and 2|q||x| <= |q|^2 + |x|^2. `slack` is four times n 2^-24: once for the product, once for the squares,
    the rest for the roundings of the elements and of the few operations before and after. Numbers may
    overflow to infinity on the way, which is a bound, too: callers silence NumPy's warnings.
    """

    query_error: np.ndarray  # float32 (queries,)
    plain = True  # the metric sees the vectors as they are
    movable = True  # by any vector

    def __init__(self, queries: Array, sample: Array, device: Device) -> None:
        """Prepare queries (n, dimension) of a device; `sample` is some training rows, for the scale.

        Vectors are scaled by a power of two, and moved to the queries' middle if it is so far from zero that
        rounding would do much harm: else copies of rows will do.
        """
        self.device, self.xp, self.dimension = device, device.arrays, queries.shape[1]
        self.slack = 4 * (self.dimension + 16) * FLOAT32_UNIT
        some = self.xp.concatenate((self.unit(sample), self.unit(queries[:MIDDLE_SAMPLE])))
        near = device.get(self.unit(queries[:: max(1, len(queries) // MIDDLE_SAMPLE)]))
        middle = np.nan_to_num(np.median(near, axis=0))
        squares = device.get(self.squares(some - device.put(middle)))
        self.scale = power_of_two(squares)
        self.is_moved = self.movable and bool(np.mean(middle @ middle <= squares) < 0.5)
        middle *= self.is_moved
        single = middle.astype(np.float32)
        self.single = device.put(single)
        # Differences of numbers that float32 holds are off by one rounding only.
        self.centre = device.put(single.astype(np.float64) if self.is_single(sample) else middle)
        self.weights = device.table(len(queries), self.dimension + 1)
        self.weights[:, self.dimension] = 1
        moved = self.weights[:, : self.dimension]
        odd = self.find_odd(queries, self.move(queries, moved), "query {} (from 0)".format)
        moved[odd] = 0
        self.error = self.weigh(queries, moved)
        self.error[device.get(odd)] = np.inf  # float32 cannot tell what is near them: all may be
        self.query_error = round_up(2 * self.error)
        self.factor = device.table(self.weights.shape[1], len(queries))  # such products are fastest
        self.factor[:, : len(queries)] = self.weights.T

    def weigh(self, queries: Array, moved: Array) -> np.ndarray:
        """Turn moved queries into weights, in place; return the errors of their scores."""
        raise NotImplementedError

    def terms(self, block: Array, moved: Array, squares: Array) -> tuple[Array, Array]:
        """Return what a row's score has beside the product, and the error of the score."""
        raise NotImplementedError

    def expected(self, distances: np.ndarray, of: Any) -> np.ndarray:
        """Return distances of the queries of that index as scores would be without errors."""
        raise NotImplementedError

    def limits(self, distances: np.ndarray, of: Any = ...) -> np.ndarray:
        """Return distances, float64 (queries of that index,), as scores in float32, rounded up."""
        return round_up(self.expected(distances, of) + self.error[of])

    def rows(self, block: Array, out: Array, name: Callable[[int], str]) -> Array:
        """Make the product's other factor in `out`; return row_error, float32 (rows,).

        Rows that float32 cannot score pass. Raises UserError, with the `name` of the row of that number in
        the block, for NaN, infinity and values whose squares are too large for float64.
        """
        moved, last = out[: len(block), : self.dimension], out[: len(block), self.dimension]
        squares = self.move(block, moved)
        term, error = self.terms(block, moved, squares)
        last[:] = term - error
        odd = self.find_odd(block, squares, name)
        if len(odd):
            moved[odd] = 0
            last[odd] = float(np.finfo(np.float32).min)
            error[odd] = np.inf
        return 2 * error

    def scores(self, of: slice, rows: Array, out: Array) -> Array:
        """Return scores (rows, queries of that slice), made in `out` unless it is None."""
        return self.xp.matmul(rows, self.factor[:, of], out=out)

    def squares(self, vectors: Array) -> Array:
        """Return the squared lengths in float64."""
        vectors = self.xp.asarray(vectors, dtype=self.xp.float64)
        return self.xp.linalg.vecdot(vectors, vectors)

    def is_single(self, vectors: Array) -> bool:
        """Whether float32 holds all values of this type."""
        return bool(self.xp.result_type(vectors, self.single) == self.xp.float32)

    def unit(self, vectors: Array) -> Array:
        """Return what the metric sees of the vectors, in float64."""
        return self.xp.asarray(vectors, dtype=self.xp.float64)

    def move(self, block: Array, moved: Array) -> Array:
        """Put the moved rows into `moved`; return their squares."""
        if not self.is_moved and self.scale == 1:
            self.enter(block, moved)
        elif self.plain and self.is_single(block) and 2.0**-40 <= self.scale <= 2.0**40:
            # Such powers of two change no digits, and lose none near zero that UNDERFLOW does not cover.
            self.xp.subtract(block, self.single, out=moved)
            if self.scale != 1:
                moved *= self.scale
        else:
            moved[:] = (self.unit(block) - self.centre) * self.scale
        return self.xp.linalg.vecdot(moved, moved)

    def enter(self, block: Array, moved: Array) -> None:
        """Put rows that need not be moved into `moved`."""
        moved[:] = block if self.plain else self.unit(block)

    def find_odd(self, block: Array, squares: Array, name: Callable[[int], str]) -> Array:
        """Return the numbers of vectors that float32 cannot score; refuse those without distances."""
        odd = self.xp.where(~(squares < LONGEST**2))[0]
        if len(odd) and (bad := ~self.xp.isfinite(self.squares(block[odd]))).any():
            raise UserError(
                f"{name(int(odd[bad][0]))} holds NaN, infinity or values too large to square; finite numbers"
                " were expected: remove or correct it"
            )
        return odd


class _Euclidean(DistanceBounds):
    """|x|^2 - 2 q.x, which is the squared distance less |q|^2."""

    noise = 0.0  # a dimension: the error of the float64 formula where it is not relative to the distance

    def weigh(self, queries: Array, moved: Array) -> np.ndarray:
        self.lengths = self.device.get(self.squares(moved) + self.extra(queries))
        moved *= -2
        noise = self.noise * (self.dimension + 16) * self.scale**2
        return self.slack * self.lengths + noise + self.dimension * UNDERFLOW

    def extra(self, vectors: Array) -> Any:
        """Return what the metric adds to the squares."""
        return 0

    def terms(self, block: Array, moved: Array, squares: Array) -> tuple[Array, Array]:
        squares += self.extra(block)
        return squares, self.slack * squares

    def expected(self, distances: np.ndarray, of: Any) -> np.ndarray:
        return (distances * self.scale) ** 2 - self.lengths[of]


class _Angular(_Euclidean):
    """Unit vectors: 1 - cosine is half their squared euclidean distance.

    What has no direction is at distance 1 by definition: more in the squares of a zero vector says so.
    """

    plain = False
    noise = 16 * FLOAT64_UNIT

    def extra(self, vectors: Array) -> Any:
        more = self.xp.zeros_like(vectors[:, 0], dtype=self.xp.float32)
        maybe = self.xp.where(vectors[:, 0] == 0)[0]
        more[maybe[(vectors[maybe] == 0).all(1)]] = self.scale**2
        return more

    def unit(self, vectors: Array) -> Array:
        lengths = self.xp.sqrt(self.squares(vectors))
        # Squares near the ends of float64's range lose digits: such vectors are left to the float64 formula.
        lengths[(lengths > 0) & ~((lengths > 1e-100) & (lengths < 1e150))] = np.nan
        lengths[lengths == 0] = 1
        return vectors / lengths[:, None]

    def enter(self, block: Array, moved: Array) -> None:
        # Such lengths are off by (n / 2 + 2) 2^-24, and so scores by 8 times that: `slack` has room for it.
        squares = self.xp.linalg.vecdot(block, block) if self.is_single(block) else np.zeros(1)
        if ((squares > 2.0**-60) & (squares < 2.0**60)).all():
            self.xp.divide(block, self.xp.sqrt(squares)[:, None], out=moved)
        else:
            moved[:] = self.unit(block)

    def expected(self, distances: np.ndarray, of: Any) -> np.ndarray:
        return 2 * distances * self.scale**2 - self.lengths[of]


class _InnerProduct(DistanceBounds):
    """-q.x for unit queries: neither a query's length nor the origin changes the order of its answers."""

    def weigh(self, queries: Array, moved: Array) -> np.ndarray:
        lengths = self.xp.sqrt(self.squares(queries))
        lengths[lengths == 0] = 1
        directed = queries / lengths[:, None]
        moved[:] = -directed
        self.lengths, self.shift = map(self.device.get, (lengths, directed @ self.centre))
        # The float64 formula's error is relative to the lengths before the move.
        far = self.scale * np.sqrt(float(self.centre @ self.centre))
        error = 16 * (self.dimension + 16) * FLOAT64_UNIT * far + self.dimension * UNDERFLOW
        return np.full(len(queries), error)

    def terms(self, block: Array, moved: Array, squares: Array) -> tuple[Array, Array]:
        return 0, self.slack * self.xp.sqrt(squares)

    def expected(self, distances: np.ndarray, of: Any) -> np.ndarray:
        return self.scale * (distances / self.lengths[of] + self.shift[of])


class _Manhattan(DistanceBounds):
    """The sum of |x - q|, a query at a time: there is no product. Nothing cancels out in a sum of sizes."""

    def weigh(self, queries: Array, moved: Array) -> np.ndarray:
        self.ones = np.ones(self.dimension, np.float32)
        return self.slack * np.abs(moved).sum(axis=1, dtype=np.float64) + self.dimension * UNDERFLOW

    def terms(self, block: Array, moved: Array, squares: Array) -> tuple[Array, Array]:
        return 0, np.float32(self.slack) * np.abs(moved).sum(axis=1)

    def scores(self, of: slice, rows: Array, out: Array) -> Array:
        vectors = rows[:, :-1]
        difference = np.empty_like(vectors)
        for number, query in enumerate(self.weights[of, :-1]):
            np.abs(np.subtract(vectors, query, out=difference), out=difference)
            out[:, number] = difference @ self.ones
        out += rows[:, -1:]
        return out

    def expected(self, distances: np.ndarray, of: Any) -> np.ndarray:
        return distances * self.scale


class _Hamming(_Euclidean):
    """The squared euclidean distance of bits: whole numbers, exact in float32 unless they are moved."""

    plain = movable = False

    def unit(self, vectors: Array) -> Array:
        return self.xp.asarray(vectors != 0, dtype=self.xp.float32)

    def weigh(self, queries: Array, moved: Array) -> np.ndarray:
        return np.full_like(super().weigh(queries, moved), 0.25)

    def terms(self, block: Array, moved: Array, squares: Array) -> tuple[Array, Array]:
        return squares, self.xp.zeros_like(squares)

    def expected(self, distances: np.ndarray, of: Any) -> np.ndarray:
        return distances * self.dimension - self.lengths[of]


class _Jaccard(_Hamming):
    """The distance itself between rows of bits; only the division is rounded."""

    def weigh(self, queries: Array, moved: Array) -> np.ndarray:
        self.ones = moved.sum(axis=1)
        return np.full(len(queries), 8 * FLOAT32_UNIT)

    def scores(self, of: slice, rows: Array, out: Array) -> Array:
        shared = np.matmul(rows[:, :-1], self.factor[:-1, of], out=out)
        union = self.ones[of] + rows[:, -1:] - shared
        np.divide(shared, np.maximum(union, 1, out=union), out=shared)
        return np.subtract(1, shared, out=shared)

    def expected(self, distances: np.ndarray, of: Any) -> np.ndarray:
        return distances


_CLASSES: dict[str, type[DistanceBounds]] = {
    "euclidean": _Euclidean,
    "angular": _Angular,
    "ip": _InnerProduct,
    "manhattan": _Manhattan,
    "hamming": _Hamming,
    "jaccard": _Jaccard,
}


def bounds_for(metric: str, queries: Array, sample: Array, device: Device) -> DistanceBounds:
    """Prepare the queries (n, dimension) of a device for a metric; `sample` is some training rows."""
    if metric not in _CLASSES:
        raise UserError(f"unknown metric '{metric}'; the metrics are {', '.join(_CLASSES)}")
    return _CLASSES[metric](queries, sample, device)

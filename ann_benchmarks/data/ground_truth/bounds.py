"""Bounds of distances from float32 matrix products, one class a metric."""

from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError

from .devices import Device

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

    def __init__(self, queries: Array, sample: Array, device: Device) -> None:
        """Prepare queries (n, dimension) of a device; `sample` is some training rows, for the scale."""
        self.device, self.xp, self.dimension = device, device.arrays, queries.shape[1]
        self.slack = 4 * (self.dimension + 16) * FLOAT32_UNIT
        self.weights = device.table(len(queries), self.dimension + 1)
        self.weights[:, self.dimension] = 1
        self.prepare(queries, sample)
        self.factor = device.table(self.weights.shape[1], len(queries))  # such products are fastest
        self.factor[:, : len(queries)] = self.weights.T

    def prepare(self, queries: Array, sample: Array) -> None:
        """Set weights and query_error."""
        raise NotImplementedError

    def rows(self, block: Array, out: Array) -> Array:
        """Make the product's other factor in `out`; return row_error, float32 (rows,).

        Raises BadRow for NaN, infinity and values whose squares are too large for float64.
        """
        raise NotImplementedError

    def limits(self, distances: np.ndarray, of: Any = ...) -> np.ndarray:
        """Return distances, float64 (queries of that index, ...), as scores in float32, rounded up."""
        raise NotImplementedError

    def scores(self, of: slice, rows: Array, out: Array) -> Array:
        """Return scores (rows, queries of that slice), made in `out` unless it is None."""
        return self.xp.matmul(rows, self.factor[:, of], out=out)

    def squares(self, vectors: Array) -> Array:
        """Return the squared lengths in float64."""
        vectors = self.xp.asarray(vectors, dtype=self.xp.float64)
        return self.xp.linalg.vecdot(vectors, vectors)


class BadRow(Exception):
    """A vector that has no distances; args[0] is its number in the block."""


class _Moved(DistanceBounds):
    """Vectors moved to the queries' middle, where rounding does least harm, and scaled by a power of two."""

    plain = True  # the metric sees the vectors as they are

    def prepare(self, queries: Array, sample: Array) -> None:
        get, put = self.device.get, self.device.put
        near = get(self.unit(queries[:: max(1, len(queries) // MIDDLE_SAMPLE)]))
        centre = np.nan_to_num(np.median(near, axis=0))
        single = centre.astype(np.float32)
        self.single = put(single)
        # Differences of numbers that float32 holds are off by one rounding only.
        self.centre = put(single.astype(np.float64) if self.is_single(sample) else centre)
        some = self.xp.concatenate((self.unit(sample), self.unit(queries[:MIDDLE_SAMPLE])))
        self.scale = _power_of_two(get(self.squares(some - self.centre)))
        moved = self.weights[:, : self.dimension]
        try:
            self.find_odd(queries, self.move(queries, moved))
        except BadRow as bad:
            raise UserError(
                f"query {bad.args[0]} (from 0) holds NaN, infinity or values too large to square; "
                "finite numbers were expected: remove or correct it"
            ) from None
        self.weigh(queries, moved)

    def weigh(self, queries: Array, moved: Array) -> None:
        """Turn moved queries into weights, in place, and set query_error."""
        raise NotImplementedError

    def is_single(self, vectors: Array) -> bool:
        """Whether float32 holds all values of this type."""
        return bool(self.xp.result_type(vectors, self.single) == self.xp.float32)

    def unit(self, vectors: Array) -> Array:
        """Return what the metric sees of the vectors, in float64."""
        return self.xp.asarray(vectors, dtype=self.xp.float64)

    def move(self, block: Array, moved: Array) -> Array:
        """Put the moved rows into `moved`; return their squares."""
        # A power of two near 1 changes no digits, and loses none near zero that UNDERFLOW does not cover.
        is_mild = 2.0**-40 <= self.scale <= 2.0**40
        if self.plain and is_mild and self.is_single(block):
            self.xp.subtract(block, self.single, out=moved)
            if self.scale != 1:
                moved *= self.scale
        else:
            moved[:] = (self.unit(block) - self.centre) * self.scale
        return self.xp.linalg.vecdot(moved, moved)

    def terms(self, block: Array, moved: Array, squares: Array) -> tuple[Array, Array]:
        """Return what a row's score has beside the product, and the error of the score."""
        raise NotImplementedError

    def find_odd(self, block: Array, squares: Array) -> Array:
        """Return the numbers of vectors that float32 cannot score; BadRow names one without distances."""
        odd = self.xp.where(~(squares < LONGEST**2))[0]
        if len(odd) and (bad := ~self.xp.isfinite(self.squares(block[odd]))).any():
            raise BadRow(int(odd[bad][0]))
        return odd

    def rows(self, block: Array, out: Array) -> Array:
        """Let rows pass that float32 cannot score; refuse those that have no distance."""
        moved, last = out[: len(block), : self.dimension], out[: len(block), self.dimension]
        squares = self.move(block, moved)
        term, error = self.terms(block, moved, squares)
        last[:] = term - error
        odd = self.find_odd(block, squares)
        if len(odd):
            moved[odd] = 0
            last[odd] = float(np.finfo(np.float32).min)
            error[odd] = np.inf
        return 2 * error


class _Euclidean(_Moved):
    """|x|^2 - 2 q.x, which is the squared distance less |q|^2."""

    noise = 0.0  # a dimension: the error of the float64 formula where it is not relative to the distance

    def weigh(self, queries: Array, moved: Array) -> None:
        squares = self.squares(moved)
        odd = ~(squares < LONGEST**2)  # float32 cannot tell what is near them: all may be
        moved[odd], squares[odd] = 0, 0
        moved *= -2
        self.lengths = self.device.get(squares + self.extra(queries))
        noise = self.noise * (self.dimension + 16) * self.scale**2
        self.error = self.slack * self.lengths + noise + self.dimension * UNDERFLOW
        self.error[self.device.get(odd)] = np.inf
        self.query_error = _up(2 * self.error)

    def extra(self, vectors: Array) -> Any:
        """Return what the metric adds to the squares."""
        return 0

    def terms(self, block: Array, moved: Array, squares: Array) -> tuple[Array, Array]:
        squares += self.extra(block)
        return squares, self.slack * squares

    def limits(self, distances: np.ndarray, of: Any = ...) -> np.ndarray:
        return _up(self.squared(distances) + _broadcast(distances, (self.error - self.lengths)[of]))

    def squared(self, distances: np.ndarray) -> np.ndarray:
        """Return the squared distances of moved vectors from those of the metric."""
        return (distances * self.scale) ** 2


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

    def squared(self, distances: np.ndarray) -> np.ndarray:
        return 2 * distances * self.scale**2


class _InnerProduct(_Moved):
    """-q.x for unit queries: neither a query's length nor the origin changes the order of its answers."""

    def weigh(self, queries: Array, moved: Array) -> None:
        lengths = self.xp.sqrt(self.squares(queries))
        lengths[lengths == 0] = 1
        directed = queries / lengths[:, None]
        moved[:] = -directed
        self.lengths, self.shift = map(self.device.get, (lengths, directed @ self.centre))
        # The float64 formula's error is relative to the lengths before the move.
        far = self.scale * np.sqrt(float(self.centre @ self.centre))
        self.error = 16 * (self.dimension + 16) * FLOAT64_UNIT * far + self.dimension * UNDERFLOW
        self.query_error = _up(np.full(len(queries), 2 * self.error))

    def terms(self, block: Array, moved: Array, squares: Array) -> tuple[Array, Array]:
        return 0, self.slack * self.xp.sqrt(squares)

    def limits(self, distances: np.ndarray, of: Any = ...) -> np.ndarray:
        unit = distances / _broadcast(distances, self.lengths[of]) + _broadcast(distances, self.shift[of])
        return _up(self.scale * unit + self.error)


class _Manhattan(_Moved):
    """The sum of |x - q|, a query at a time: there is no product. Nothing cancels out in a sum of sizes."""

    def weigh(self, queries: Array, moved: Array) -> None:
        odd = ~(self.squares(moved) < LONGEST**2)  # the bound of _Euclidean
        moved[odd] = 0
        self.error = self.slack * np.abs(moved).sum(axis=1, dtype=np.float64) + self.dimension * UNDERFLOW
        self.error[odd] = np.inf
        self.query_error = _up(2 * self.error)
        self.ones = np.ones(self.dimension, np.float32)

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

    def limits(self, distances: np.ndarray, of: Any = ...) -> np.ndarray:
        return _up(distances * self.scale + _broadcast(distances, self.error[of]))


class _Hamming(DistanceBounds):
    """Differing bits less those of the query: whole numbers, exact in float32."""

    weight, off = -2, 0.5

    def prepare(self, queries: Array, sample: Array) -> None:
        self.weights[:, : self.dimension] = queries != 0
        self.ones = self.device.get((queries != 0).sum(1))
        self.weights[:, : self.dimension] *= self.weight
        self.query_error = np.full(len(queries), self.off, np.float32)

    def rows(self, block: Array, out: Array) -> Array:
        bits, out = block != 0, out[: len(block)]
        out[:, : self.dimension] = bits
        out[:, self.dimension] = bits.sum(1)
        return self.xp.zeros_like(out[:, 0])

    def limits(self, distances: np.ndarray, of: Any = ...) -> np.ndarray:
        return _up(distances * self.dimension - _broadcast(distances, self.ones[of]) + 0.25)


class _Jaccard(_Hamming):
    """The distance itself between rows of bits; only the division is rounded."""

    weight, off = 1, 16 * FLOAT32_UNIT

    def scores(self, of: slice, rows: Array, out: Array) -> Array:
        shared = np.matmul(rows[:, :-1], self.factor[:-1, of], out=out)
        union = self.ones[of].astype(np.float32) + rows[:, -1:] - shared
        np.divide(shared, np.maximum(union, 1, out=union), out=shared)
        return np.subtract(1, shared, out=shared)

    def limits(self, distances: np.ndarray, of: Any = ...) -> np.ndarray:
        return _up(distances + 8 * FLOAT32_UNIT)


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


def _power_of_two(squares: np.ndarray) -> float:
    """Return the power of two that brings the usual length near 1, or 1 if it is not far from it."""
    lengths = np.sqrt(squares)
    lengths = lengths[np.isfinite(lengths) & (lengths > 0)]
    exponent = -np.round(np.log2(np.median(lengths))) if len(lengths) else 0
    return float(2.0 ** np.clip(exponent, -400, 400)) if abs(exponent) > 20 else 1.0


def _broadcast(numbers: np.ndarray, of_queries: np.ndarray) -> np.ndarray:
    """Shape one number a query so that it broadcasts against `numbers`."""
    return of_queries.reshape((-1,) + (1,) * (numbers.ndim - 1))


def _up(numbers: np.ndarray) -> np.ndarray:
    return np.nextafter(numbers.astype(np.float32), np.float32(np.inf))

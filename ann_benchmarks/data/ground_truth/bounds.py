"""Bounds of distances from float32 matrix products, one class a metric."""

from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError

FLOAT32_UNIT = 2.0**-24  # relative error of one float32 operation
FLOAT64_UNIT = 2.0**-53
UNDERFLOW = 2.0**-100  # per dimension; vectors are scaled to lengths near 1
LONGEST = 2.0**60  # scaled; products of longer vectors could overflow
MIDDLE_SAMPLE = 250  # queries whose median becomes the origin


Terms = tuple[np.ndarray | float, np.ndarray]


class DistanceBounds:
    """Float32 scores of rows for queries, each with a bound on how far it may be off.

    A score is one matrix product of what `rows` makes (rows, dimension + 1) and `weights` (queries,
    dimension + 1), unless the metric has its own `scores`; the last column carries the terms that depend on
    the row only. With E what `limits` makes of the row's exact distance, before it rounds up,
    `score <= E <= score + row_error + query_error`. Rows whose score is above a query's limit are therefore
    farther than that limit's distance.

    The computed dot product of q and x, in whatever order it is summed, is off by at most
    n 2^-24 |q||x| / (1 - n 2^-24) for n terms (Higham, Accuracy and Stability of Numerical Algorithms, 3.1),
    and 2|q||x| <= |q|^2 + |x|^2. `slack` is four times n 2^-24: once for the product, once for the squares,
    the rest for the roundings of the elements and of the few operations before and after. Numbers may
    overflow to infinity on the way, which is a bound, too: callers silence NumPy's warnings.
    """

    weights: np.ndarray
    query_error: np.ndarray  # float32 (queries,)

    def __init__(self, queries: np.ndarray, sample: np.ndarray) -> None:
        """Prepare queries (n, dimension); `sample` is some training rows, for the scale."""
        self.dimension = queries.shape[1]
        self.slack = 4 * (self.dimension + 16) * FLOAT32_UNIT
        self.prepare(queries, sample)

    def prepare(self, queries: np.ndarray, sample: np.ndarray) -> None:
        """Set weights and query_error."""
        raise NotImplementedError

    def rows(self, block: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Make the product's other factor in `out`; return row_error, float32 (rows,).

        Raises BadRow for NaN, infinity and values whose squares are too large for float64.
        """
        raise NotImplementedError

    def limits(self, distances: np.ndarray, of: Any = ...) -> np.ndarray:
        """Return distances, float64 (queries of that index, ...), as scores in float32, rounded up."""
        raise NotImplementedError

    def scores(self, of: slice, rows: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Return scores (rows, queries of that slice), made in `out`."""
        return np.matmul(rows, self.weights[of].T, out=out)


class BadRow(Exception):
    """A vector that has no distances; args[0] is its number in the block."""


class _Moved(DistanceBounds):
    """Vectors moved to the queries' middle, where rounding does least harm, and scaled by a power of two."""

    plain = True  # the metric sees the vectors as they are

    def prepare(self, queries: np.ndarray, sample: np.ndarray) -> None:
        bad = ~np.isfinite(_squares(queries))
        if bad.any():
            raise UserError(
                f"query {np.flatnonzero(bad)[0]} (from 0) holds NaN, infinity or values too large to square; "
                "finite numbers were expected: remove or mend it"
            )
        directed = self.unit(queries)
        middle = np.median(directed[:: max(1, len(directed) // MIDDLE_SAMPLE)], axis=0)
        self.centre = np.nan_to_num(middle)
        if np.can_cast(sample.dtype, np.float32):  # then float32 differences are off by one rounding only
            self.centre = self.centre.astype(np.float32).astype(np.float64)
        some = np.concatenate((self.unit(sample), directed[:MIDDLE_SAMPLE]))
        self.scale = _power_of_two(some - self.centre)
        self.weigh(queries, ((directed - self.centre) * self.scale).astype(np.float32))

    def weigh(self, queries: np.ndarray, moved: np.ndarray) -> None:
        """Set weights and query_error from the queries as they are and as `move` would make them."""
        raise NotImplementedError

    def unit(self, vectors: np.ndarray) -> np.ndarray:
        """Return what the metric sees of the vectors, in float64."""
        return vectors.astype(np.float64)

    def move(self, block: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Put the moved rows into all columns of `out` but the last; return their squares."""
        moved = out[: len(block), :-1]
        # A power of two near 1 changes no digits, and loses none near zero that UNDERFLOW does not cover.
        is_mild = 2.0**-40 <= self.scale <= 2.0**40
        if self.plain and is_mild and np.can_cast(block.dtype, np.float32):
            np.subtract(block, self.centre.astype(np.float32), out=moved)
            if self.scale != 1:
                moved *= np.float32(self.scale)
        else:
            directed = self.unit(block)
            directed -= self.centre
            np.multiply(directed, self.scale, out=moved, casting="same_kind")
        squares: np.ndarray = np.einsum("ij,ij->i", moved, moved)
        return squares

    def terms(self, block: np.ndarray, moved: np.ndarray, squares: np.ndarray) -> Terms:
        """Return what a row's score has beside the product, and the error of the score."""
        raise NotImplementedError

    def rows(self, block: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Let rows pass that float32 cannot score; refuse those that have no distance."""
        out = out[: len(block)]
        squares = self.move(block, out)
        term, error = self.terms(block, out[:, :-1], squares)
        out[:, -1] = term - error
        odd = np.flatnonzero(~(squares < LONGEST**2))
        if len(odd):
            bad = ~np.isfinite(_squares(block[odd]))
            if bad.any():
                raise BadRow(int(odd[bad][0]))
            out[odd] = 0
            out[odd, -1] = np.finfo(np.float32).min
            error[odd] = np.inf
        return 2 * error


class _Euclidean(_Moved):
    """|x|^2 - 2 q.x, which is the squared distance less |q|^2."""

    noise = 0.0  # a dimension: the error of the float64 formula where it is not relative to the distance

    def weigh(self, queries: np.ndarray, moved: np.ndarray) -> None:
        squares = _squares(moved)
        odd = ~(squares < LONGEST**2)  # float32 cannot tell what is near them: all may be
        moved[odd], squares[odd] = 0, 0
        self.weights = _widened(-2 * moved, 1)
        self.squares = squares + self.extra(queries)
        noise = self.noise * (self.dimension + 16) * self.scale**2
        self.error = self.slack * self.squares + noise + self.dimension * UNDERFLOW
        self.error[odd] = np.inf
        self.query_error = _up(2 * self.error)

    def extra(self, vectors: np.ndarray) -> Any:
        """Return what the metric adds to the squares."""
        return np.float32(0)

    def terms(self, block: np.ndarray, moved: np.ndarray, squares: np.ndarray) -> Terms:
        squares += self.extra(block)
        return squares, np.float32(self.slack) * squares

    def limits(self, distances: np.ndarray, of: Any = ...) -> np.ndarray:
        return _up(self.squared(distances) + _broadcast(distances, (self.error - self.squares)[of]))

    def squared(self, distances: np.ndarray) -> np.ndarray:
        """Return the squared distances of moved vectors from those of the metric."""
        return (distances * self.scale) ** 2


class _Angular(_Euclidean):
    """Unit vectors: 1 - cosine is half their squared euclidean distance.

    What has no direction is at distance 1 by definition: more in the squares of a zero vector says so.
    """

    plain = False
    noise = 16 * FLOAT64_UNIT

    def extra(self, vectors: np.ndarray) -> Any:
        more = np.zeros(len(vectors), np.float32)
        maybe = np.flatnonzero(vectors[:, 0] == 0)
        more[maybe[~vectors[maybe].any(axis=1)]] = self.scale**2
        return more

    def unit(self, vectors: np.ndarray) -> np.ndarray:
        lengths = np.sqrt(_squares(vectors))
        # Squares near the ends of float64's range lose digits: such vectors are left to the float64 formula.
        lengths[(lengths > 0) & ~((lengths > 1e-100) & (lengths < 1e150))] = np.nan
        lengths[lengths == 0] = 1
        return vectors / lengths[:, np.newaxis]

    def squared(self, distances: np.ndarray) -> np.ndarray:
        return 2 * distances * self.scale**2


class _InnerProduct(_Moved):
    """-q.x for unit queries: neither a query's length nor the origin changes the order of its answers."""

    def weigh(self, queries: np.ndarray, moved: np.ndarray) -> None:
        queries = queries.astype(np.float64)
        lengths = np.sqrt(_squares(queries))
        self.lengths = np.where(lengths > 0, lengths, 1)
        directed = queries / self.lengths[:, np.newaxis]
        self.weights = _widened(-directed, 1)
        self.shift = directed @ self.centre
        # The float64 formula's error is relative to the lengths before the move.
        far = self.scale * np.sqrt(self.centre @ self.centre)
        self.error = 16 * (self.dimension + 16) * FLOAT64_UNIT * far + self.dimension * UNDERFLOW
        self.query_error = _up(np.full(len(queries), 2 * self.error))

    def terms(self, block: np.ndarray, moved: np.ndarray, squares: np.ndarray) -> Terms:
        return 0.0, np.float32(self.slack) * np.sqrt(squares)

    def limits(self, distances: np.ndarray, of: Any = ...) -> np.ndarray:
        unit = distances / _broadcast(distances, self.lengths[of]) + _broadcast(distances, self.shift[of])
        return _up(self.scale * unit + self.error)


class _Manhattan(_Moved):
    """The sum of |x - q|, a query at a time: there is no product. Nothing cancels out in a sum of sizes."""

    def weigh(self, queries: np.ndarray, moved: np.ndarray) -> None:
        odd = ~(_squares(moved) < LONGEST**2)  # the bound of _Euclidean
        moved[odd] = 0
        self.weights = moved
        self.error = self.slack * np.abs(moved).sum(axis=1, dtype=np.float64) + self.dimension * UNDERFLOW
        self.error[odd] = np.inf
        self.query_error = _up(2 * self.error)
        self.ones = np.ones(self.dimension, np.float32)

    def terms(self, block: np.ndarray, moved: np.ndarray, squares: np.ndarray) -> Terms:
        return 0.0, np.float32(self.slack) * np.abs(moved).sum(axis=1)

    def scores(self, of: slice, rows: np.ndarray, out: np.ndarray) -> np.ndarray:
        vectors = rows[:, :-1]
        difference = np.empty_like(vectors)
        for number, query in enumerate(self.weights[of]):
            np.abs(np.subtract(vectors, query, out=difference), out=difference)
            out[:, number] = difference @ self.ones
        out += rows[:, -1:]
        return out

    def limits(self, distances: np.ndarray, of: Any = ...) -> np.ndarray:
        return _up(distances * self.scale + _broadcast(distances, self.error[of]))


class _Hamming(DistanceBounds):
    """Differing bits less those of the query: whole numbers, exact in float32."""

    def prepare(self, queries: np.ndarray, sample: np.ndarray) -> None:
        bits = queries.astype(bool)
        self.weights = _widened(-2 * bits.astype(np.float32), 1)
        self.ones = np.count_nonzero(bits, axis=1)
        self.query_error = np.full(len(queries), 0.5, np.float32)

    def rows(self, block: np.ndarray, out: np.ndarray) -> np.ndarray:
        bits, out = block.astype(bool), out[: len(block)]
        out[:, :-1] = bits
        out[:, -1] = np.count_nonzero(bits, axis=1)
        return np.zeros(len(block), np.float32)

    def limits(self, distances: np.ndarray, of: Any = ...) -> np.ndarray:
        return _up(distances * self.dimension - _broadcast(distances, self.ones[of]) + 0.25)


class _Jaccard(_Hamming):
    """The distance itself between rows of bits; only the division is rounded."""

    def prepare(self, queries: np.ndarray, sample: np.ndarray) -> None:
        super().prepare(queries, sample)
        self.weights = _widened(queries.astype(bool).astype(np.float32), 0)
        self.query_error = np.full(len(queries), 16 * FLOAT32_UNIT, np.float32)

    def scores(self, of: slice, rows: np.ndarray, out: np.ndarray) -> np.ndarray:
        shared = super().scores(of, rows, out)
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


def bounds_for(metric: str, queries: np.ndarray, sample: Any) -> DistanceBounds:
    """Prepare the queries (n, dimension) for a metric; `sample` is some training rows."""
    if metric not in _CLASSES:
        raise UserError(f"unknown metric '{metric}'; the metrics are {', '.join(_CLASSES)}")
    return _CLASSES[metric](queries, np.asarray(sample))


def _squares(vectors: np.ndarray) -> np.ndarray:
    wide = vectors.astype(np.float64, copy=False)  # sooner than in the sum, which converts slowly
    return np.einsum("ij,ij->i", wide, wide)


def _power_of_two(vectors: np.ndarray) -> float:
    """Return the power of two that brings the vectors' usual length near 1, or 1 if it is not far from it."""
    lengths = np.sqrt(_squares(vectors))
    lengths = lengths[np.isfinite(lengths) & (lengths > 0)]
    exponent = -np.round(np.log2(np.median(lengths))) if len(lengths) else 0
    return float(2.0 ** np.clip(exponent, -400, 400)) if abs(exponent) > 20 else 1.0


def _widened(vectors: np.ndarray, last: float) -> np.ndarray:
    table = np.full((len(vectors), vectors.shape[1] + 1), last, np.float32)
    table[:, :-1] = vectors
    return table


def _broadcast(numbers: np.ndarray, of_queries: np.ndarray) -> np.ndarray:
    """Shape one number a query so that it broadcasts against `numbers`."""
    return of_queries.reshape((-1,) + (1,) * (numbers.ndim - 1))


def _up(numbers: np.ndarray) -> np.ndarray:
    return np.nextafter(numbers.astype(np.float32), np.float32(np.inf))

import numpy as np


def blobs(rows: int, dimension: int, centres: int, seed: int = 0, spread: float = 0.3) -> np.ndarray:
    """Clusters of very different size."""
    rng = np.random.default_rng(seed)
    shares = rng.exponential(size=centres) ** 2
    of = rng.choice(centres, rows, p=shares / shares.sum())
    means = rng.standard_normal((centres, dimension))
    return (means[of] + spread * rng.standard_normal((rows, dimension))).astype(np.float32)


def nearest(rows: np.ndarray, centroids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number of the nearest centroid of each row, and its squared distance, in float64."""
    gaps = ((rows[:, None].astype(float) - centroids[None].astype(float)) ** 2).sum(-1)
    return gaps.argmin(axis=1), gaps.min(axis=1)


class SlicesOnly:
    """Rows that give only small slices of themselves, as those of a file."""

    def __init__(self, array: np.ndarray, most: int = 2**20) -> None:
        self.array, self.most = array, most
        self.shape, self.dtype = array.shape, array.dtype
        self.read = 0

    def __getitem__(self, key: slice) -> np.ndarray:
        assert isinstance(key, slice)
        assert key.step is None
        part = self.array[key]
        assert part.nbytes <= self.most, "too much at once"
        self.read += len(part)
        return part.copy()

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise AssertionError("all rows at once")

"""Groups of near rows, and lists within each.

With about sqrt(k) groups, each with lists in proportion to its rows, a pass takes n * sqrt(k) distances, not
n * k.
"""

from collections.abc import Iterator

import numpy as np

from .device import Device
from .lloyd import KMeans, Lists
from .sample import Sample

ROWS_A_GROUP = 256  # that the groups' centres are made of
PASSES = 10


def centres(sample: Sample, device: Device, groups: int, kmeans: KMeans) -> np.ndarray:
    """Return the centres of so many groups, fewer where rows are too alike, (groups, dimension) float32."""
    count = min(len(sample.rows), groups * ROWS_A_GROUP)
    rng = np.random.default_rng([*kmeans.seed, 0])
    rows = sample.rows[np.sort(rng.choice(len(sample.rows), count, replace=False))]
    return kmeans.train(device.hold(rows), groups, PASSES).centroids


def shares(k: int, counts: np.ndarray) -> np.ndarray:
    """Share k lists among groups of so many rows: one each, and the rest in proportion; at most one a row."""
    exact = (k - np.count_nonzero(counts)) * counts / counts.sum()
    lists = np.minimum((counts > 0) + np.floor(exact).astype(np.int64), counts)
    while missing := k - int(lists.sum()):
        wanting = np.argsort(np.where(lists < counts, lists - exact, np.inf), kind="stable")
        lists[wanting[: min(missing, np.count_nonzero(lists < counts))]] += 1
    return lists


def lists_of_groups(
    sample: Sample,
    counts: np.ndarray,
    device: Device,
    kmeans: KMeans,
    k: int,
    passes: int,
    rows_a_list: int | None = None,
    done: int = 0,
) -> Iterator[Lists]:
    """Give the lists of one group after the other, from number `done` on; the sample's rows are in groups.

    `rows_a_list`: how many rows a group's lists are made of at most; None: all.
    """
    lists = shares(k, counts)
    stops = np.cumsum(counts)
    # Threads have a group each, unless one has more rows than the others can keep up with.
    is_even = counts.max() * device.threads <= counts.sum()
    single = device.one_of_many() if is_even else device

    def work(group: int) -> Lists:
        own = KMeans(kmeans.spherical, (*kmeans.seed, group))
        rows = sample.rows[stops[group] - counts[group] : stops[group]]
        most = lists[group] * (rows_a_list or len(rows))
        if most < len(rows):
            rng = np.random.default_rng([*own.seed, 1])
            rows = rows[np.sort(rng.choice(len(rows), most, replace=False))]
        return own.train(single.hold(rows), int(lists[group]), passes)

    groups = [int(group) for group in np.flatnonzero(counts) if group >= done]
    return device.each(work, groups) if is_even else map(work, groups)


def labels_of_groups(
    sample: Sample,
    counts: np.ndarray,
    lists: np.ndarray,
    centroids: np.ndarray,
    device: Device,
    spherical: bool,
) -> np.ndarray:
    """Return each row's nearest list of its own group, (n,) int32; `lists`: how many each group has."""
    labels = np.empty(len(sample.rows), np.int32)
    stops, list_stops = np.cumsum(counts), np.cumsum(lists)
    single = device.one_of_many()

    def work(group: int) -> None:
        rows = slice(stops[group] - counts[group], stops[group])
        first = list_stops[group] - lists[group]
        single.hold(sample.rows[rows]).run(centroids[first : list_stops[group]], spherical, labels[rows])
        labels[rows] += first

    for _ in device.each(work, np.flatnonzero(counts)):
        pass
    return labels

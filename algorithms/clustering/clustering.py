"""From rows to centroids: a sample, groups of near rows, lists inside each group, and passes over all.

With about sqrt(k) groups, each with lists in proportion to its rows, a pass inside the groups takes
n * sqrt(k) distances; one over all takes n * k.
"""

import math
import time
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
from tqdm import tqdm

from .devices import OUT_OF_MEMORY, Array, Device, open_device
from .kmeans import KMeans, Lists, draw_sample
from .settings import Clustering, ClusteringError, Settings

ROWS_A_GROUP = 256  # sampled to make the centres of the groups
CENTRE_PASSES = 10
# The start of Lloyd's k-means: passes inside each group, and rows for each of its lists.
START_PASSES, START_ROWS = 4, 64


def cluster(rows: Any, settings: Settings) -> Clustering:
    """Find centroids for rows, (n, dimension), which are read in slices; see Settings.

    Bars show on a terminal only. Raises ClusteringError.
    """
    if settings.lists[-1] > rows.shape[0]:
        raise ClusteringError(f"{settings.lists[-1]:,} lists for {rows.shape[0]:,} rows: give fewer")
    bar = partial(tqdm, unit_scale=True, disable=None, delay=1, leave=False)
    with closing(open_device(settings)) as device:
        try:
            return _cluster(rows, settings, device, bar)
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and not any(text in str(error) for text in OUT_OF_MEMORY):
                raise
            raise ClusteringError(
                f"{device.label} has no memory left: end other programs that use it, or give fewer lists or "
                "a smaller sampling_factor"
            ) from None


def _cluster(rows: Any, settings: Settings, device: Device, bar: Any) -> Clustering:
    """Do the work; VectorChord goes down from the coarse level.

    A row belongs to the nearest coarse centroid, and to the nearest of the lists below that one. A mean of
    some of a group's rows lies in the group's Voronoi cell, so that the coarse centroid nearest to a list is
    its group's. VectorChord's own way is the other one: lists first, then k-means of their centroids. It
    brings lists nearer to the rows, but not to those that reach them: of 100,000 rows in 1,500 lists below
    40, the squared distances were 9% larger, and the same probes found 0.937 of the neighbours instead of
    0.964.
    """
    times = [time.monotonic()]
    *coarse, k = settings.lists
    most, count = settings.iterations, _sample_rows(rows, settings, device)
    rng = np.random.default_rng(settings.seed)
    with bar(total=count, desc="sampling", unit=" rows") as shown:
        sample, shift, squares = draw_sample(rows, count, settings, device, rng, shown.update)
    times.append(time.monotonic())
    kmeans = KMeans(device, sample, squares, settings.spherical, rng)
    is_lloyd = not coarse and settings.algorithm == "lloyd"
    inside = (START_PASSES, START_ROWS) if is_lloyd else (most, count)
    centres, lists = _lists_in_groups(kmeans, coarse[0] if coarse else math.isqrt(k), k, *inside, bar)
    times.append(time.monotonic())
    history = [] if is_lloyd else [lists.inertia]
    if is_lloyd:
        lists = lists._replace(inertia=np.inf)  # not yet that of the whole sample
        with bar(total=most, desc="k-means", unit=" passes") as shown:
            for after in kmeans.passes(lists, most):
                lists = after
                history.append(lists.inertia)
                shown.set_postfix_str(f"inertia {lists.inertia:.6g}")
                shown.update()
    lists = kmeans.fill(lists)
    if not lists.are_full:
        what = "directions" if settings.spherical else "vectors"
        raise ClusteringError(
            f"the sample of {count:,} rows has only {int((lists.counts > 0).sum()):,} different {what}, "
            f"as far as float32 can tell, for lists: {k:,}: give fewer"
        )
    centroids = device.xp.concatenate([centres, lists.centroids]) if coarse else lists.centroids
    found, sizes = device.get(centroids + shift), device.get(lists.counts)
    times.append(time.monotonic())
    parts = dict(zip(("sample", "groups", "passes"), np.diff(times).tolist(), strict=True))
    return Clustering(found, sizes, lists.inertia, history, count, times[-1] - times[0], parts, device.label)


def _sample_rows(rows: Any, settings: Settings, device: Device) -> int:
    """Return the number of rows to sample; ClusteringError if they take too much memory."""
    lists, row, room = settings.lists[-1], 4 * rows.shape[1], settings.memory or device.room
    count = int(min(rows.shape[0], lists * settings.sampling_factor))
    if row * count > room:
        factor = room // (row * lists)
        raise ClusteringError(
            f"the sample of {count:,} rows takes {row * count / 2**20:,.0f} MB, and at most "
            f"{room / 2**20:,.0f} MB may be taken on {device.label}: give "
            + (f"a sampling_factor of at most {factor:,}" if factor else "fewer lists")
        )
    return count


def _lists_in_groups(
    kmeans: KMeans, groups: int, k: int, most: int, rows_a_list: int, bar: Any
) -> tuple[Array, Lists]:
    """Return the groups' centres, and the lists that k-means makes of the rows inside each group.

    It takes at most `rows_a_list` rows for each list. If rows are too alike, some lists remain empty.
    """
    device, xp, total = kmeans.device, kmeans.device.xp, len(kmeans.rows)
    some = kmeans.part(kmeans.draw(min(total, groups * ROWS_A_GROUP)))
    centres = some.train(groups, CENTRE_PASSES).centroids
    sizes = xp.bincount(kmeans.labels(centres), minlength=groups)
    centres = kmeans.fill(Lists(centres, sizes, 0)).centroids
    labels = kmeans.labels(centres)
    sizes, order = device.get(xp.bincount(labels, minlength=groups)), labels.argsort()
    lists, stops, found = shares(k, sizes), np.cumsum(sizes), list[Lists]()
    with bar(total=total, desc="lists in groups", unit=" rows") as shown:
        for group in np.flatnonzero(sizes).tolist():
            size, own_lists, stop = int(sizes[group]), int(lists[group]), int(stops[group])
            own = kmeans.part(order[stop - size : stop])
            if own_lists * rows_a_list < size:
                own = own.part(own.draw(own_lists * rows_a_list))
            found.append(own.train(own_lists, most))
            shown.update(size)
    centroids, counts = (xp.concatenate([one[field] for one in found]) for field in range(2))
    inertia = sum(one.inertia * int(one.counts.sum()) for one in found) / int(counts.sum())
    return centres, Lists(centroids, counts, inertia)


def shares(k: int, counts: np.ndarray) -> np.ndarray:
    """Share k lists among groups of these sizes.

    Each group gets one, and the rest go in proportion to the sizes; no group gets more lists than rows.
    """
    exact = (k - np.count_nonzero(counts)) * counts / counts.sum()
    lists = np.minimum((counts > 0) + np.floor(exact).astype(np.int64), counts)
    while missing := k - int(lists.sum()):
        next_ones = np.argsort(np.where(lists < counts, lists - exact, np.inf), kind="stable")
        lists[next_ones[: min(missing, np.count_nonzero(lists < counts))]] += 1
    return lists

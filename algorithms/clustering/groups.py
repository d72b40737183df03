"""Groups of near rows, and the lists that k-means makes inside each group.

With about sqrt(k) groups, each with lists in proportion to its rows, a pass takes n * sqrt(k) distances
instead of n * k.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .kmeans import KMeans, Lists, seeds
from .task import ClusteringTask, RandomUse

ROWS_A_GROUP = 256  # that the centres of the groups are made from
CENTRE_PASSES = 10


class GroupedLists(NamedTuple):
    """The lists of all groups, too few if rows are too alike; `of_each`: how many each group has."""

    lists: Lists
    sizes: np.ndarray
    of_each: np.ndarray


def lists_in_groups(task: ClusteringTask, passes: int, rows_a_list: int | None = None) -> GroupedLists:
    """Put the sample into groups and make each group's lists, from at most `rows_a_list` rows a list.

    The state is saved after each group.
    """
    values = task.state.values
    sizes = grouped(task)
    done = int(values.get("groups_done", 0))
    centroids = [values["of_groups"]] if done else []
    counts = [values["of_groups_counts"]] if done else []
    squares = float(values.get("of_groups_squares", 0))
    of_each = values["of_each_group"].copy() if done else np.zeros(len(sizes), np.int64)
    groups = [int(group) for group in np.flatnonzero(sizes) if group >= done]
    with task.bar("lists in groups") as bar:
        bar.update(int(sizes[:done].sum()))
        found = _lists_of(task, sizes, groups, passes, rows_a_list)
        for group, lists in zip(groups, found, strict=True):
            centroids.append(lists.centroids)
            counts.append(lists.counts)
            squares += lists.inertia * int(lists.counts.sum())
            of_each[group] = len(lists.counts)
            bar.update(int(sizes[group]))
            task.state.save(
                groups_done=group + 1, of_groups=centroids, of_groups_counts=counts,
                of_groups_squares=squares, of_each_group=of_each,
            )  # fmt: skip
    rows = sum(int(part.sum()) for part in counts)
    lists = Lists(np.concatenate(centroids), np.concatenate(counts), squares / rows)
    return GroupedLists(lists, sizes, of_each)


def grouped(task: ClusteringTask) -> np.ndarray:
    """Put near rows of the sample next to one another; return the size of each group."""
    values, sample = task.state.values, task.sample
    if "group_sizes" in values:
        known: np.ndarray = values["group_sizes"]
        return known
    kmeans, held = task.kmeans(RandomUse.GROUPS), task.device.hold(sample.rows)
    if "groups" not in values:
        task.state.save(groups=completed(task, _centres(task, kmeans), task.groups))
    labels = np.empty(task.count, np.int32)
    with task.bar("groups") as bar:
        counts = held.run(values["groups"], task.settings.spherical, labels, bar.update).counts
    if not counts.all():
        filled = kmeans.fill(held, Lists(values["groups"], counts, np.inf))
        task.state.save(groups=filled.centroids)
        held.run(filled.centroids, task.settings.spherical, labels)
    sizes = sample.group(labels, task.grouped_file)
    if sample.file is not None:
        task.state.save(must=True, group_sizes=sizes)
        task.sample_file.unlink(missing_ok=True)
        task.forget(task.grouped_file)
    return sizes


def nearest_in_groups(task: ClusteringTask, start: GroupedLists) -> np.ndarray:
    """Return each row's nearest list of its own group, (n,) int32."""
    labels = np.empty(task.count, np.int32)
    stops, list_stops = np.cumsum(start.sizes), np.cumsum(start.of_each)
    single = task.device.one_of_many()

    def work(group: int) -> None:
        rows = slice(stops[group] - start.sizes[group], stops[group])
        first = list_stops[group] - start.of_each[group]
        centroids = start.lists.centroids[first : list_stops[group]]
        single.hold(task.sample.rows[rows]).run(centroids, task.settings.spherical, labels[rows])
        labels[rows] += first

    for _ in task.device.each(work, np.flatnonzero(start.sizes)):
        pass
    return labels


def completed(task: ClusteringTask, centroids: np.ndarray, k: int) -> np.ndarray:
    """Add the centroids that are missing to k."""
    missing = k - len(centroids)
    if not missing:
        return centroids
    rng = task.random(RandomUse.MISSING)
    more = seeds(task.sample.rows, centroids, missing, task.settings.spherical, rng)
    if len(more) < missing:
        task.refuse(len(centroids) + len(more))
    return np.concatenate([centroids, more])


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


def _centres(task: ClusteringTask, kmeans: KMeans) -> np.ndarray:
    """Return the centres of the groups, (groups, dimension) float32, fewer if rows are too alike."""
    count = min(task.count, task.groups * ROWS_A_GROUP)
    rng = np.random.default_rng([*kmeans.seed, 0])
    rows = task.sample.rows[np.sort(rng.choice(task.count, count, replace=False))]
    return kmeans.train(task.device.hold(rows), task.groups, CENTRE_PASSES).centroids


def _lists_of(
    task: ClusteringTask, sizes: np.ndarray, groups: list[int], passes: int, rows_a_list: int | None
) -> Iterator[Lists]:
    """Yield the lists of these groups one after the other."""
    device, kmeans = task.device, task.kmeans(RandomUse.IN_GROUPS)
    lists, stops = shares(task.lists, sizes), np.cumsum(sizes)
    # Each thread takes a group, unless one group has more rows than the other threads can keep up with.
    is_even = sizes.max() * device.threads <= sizes.sum()
    single = device.one_of_many() if is_even else device

    def work(group: int) -> Lists:
        own = KMeans(kmeans.spherical, (*kmeans.seed, group))
        rows = task.sample.rows[stops[group] - sizes[group] : stops[group]]
        most = lists[group] * (rows_a_list or len(rows))
        if most < len(rows):
            rng = np.random.default_rng([*own.seed, 1])
            rows = rows[np.sort(rng.choice(len(rows), most, replace=False))]
        return own.train(single.hold(rows), int(lists[group]), passes)

    return device.each(work, groups) if is_even else map(work, groups)

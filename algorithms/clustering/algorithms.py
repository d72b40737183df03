"""The ways to the lists of each level: Lloyd's, hierarchical, and that of faiss."""

import numpy as np

from .cpu import Faiss
from .device import HeldRows
from .groups import completed, grouped, lists_in_groups, nearest_in_groups
from .kmeans import ENOUGH, KMeans, Lists, is_finished
from .task import ClusteringTask, RandomUse

NEAR_PASSES = 6  # among near lists, before each pass over all
# The start of Lloyd's k-means: passes inside each group, and rows for each of its lists.
START_WITH_NEAR, START_ALONE = (4, 32), (10, 256)
LEVEL_PASSES = 10


def hierarchical(task: ClusteringTask) -> tuple[Lists, list[float]]:
    """Take the lists of the groups as they are: k-means inside each group, of all its rows."""
    lists = lists_in_groups(task, task.settings.iterations).lists
    if len(lists.centroids) < task.lists:
        centroids = completed(task, lists.centroids, task.lists)
        held = task.device.hold(task.sample.rows)
        lists = filled(task, held, task.kmeans(RandomUse.PASSES).improve(held, centroids, 0))
    return lists, [lists.inertia]


def lloyd(task: ClusteringTask) -> tuple[Lists, list[float]]:
    """Make passes over the whole sample, starting from the lists of the groups.

    On a device that profits from it, passes that compare a row only with the lists near its own precede each
    pass; they are no part of the history.
    """
    values, most, has_near = task.state.values, task.settings.iterations, task.device.has_near
    history = [float(inertia) for inertia in values.get("history", ())]
    if history:
        grouped(task)  # the order of the rows affects the last digits
        lists, labels = Lists(values["centroids"], values["sizes"], history[-1]), values.get("labels")
    else:
        start = lists_in_groups(task, *(START_WITH_NEAR if has_near else START_ALONE))
        labels = nearest_in_groups(task, start) if has_near else None
        centroids = completed(task, start.lists.centroids, task.lists)
        lists = Lists(centroids, np.zeros(task.lists, np.int64), np.inf)
    held = task.device.hold(task.sample.rows)
    near = None if labels is None else task.device.hold_near(task.sample.rows, labels)
    enough = ENOUGH if near is None else 2 * ENOUGH
    kmeans = task.kmeans(RandomUse.PASSES)
    with task.bar("k-means", task.count * (most - len(history))) as bar:
        while len(history) < most and not (is_finished(history, enough) and lists.counts.all()):
            bar.set_description(f"k-means, pass {len(history) + 1} of at most {most}")
            if near is not None:
                lists = near_passes(task.kmeans(RandomUse.NEAR), near, lists, len(history))
            lists = kmeans.improve(held, lists.centroids, len(history), labels, bar.update)
            history.append(lists.inertia)
            bar.set_postfix_str(f"inertia {lists.inertia:.6g}")
            kept = {} if labels is None else {"labels": labels}
            task.state.save(centroids=lists.centroids, sizes=lists.counts, history=np.array(history), **kept)
    if not history:
        lists = kmeans.measure(held, lists.centroids)
    return filled(task, held, lists), history


def near_passes(kmeans: KMeans, near: HeldRows, lists: Lists, number: int) -> Lists:
    """Make the passes among near lists that precede the pass `number`."""
    for turn in range(NEAR_PASSES):
        lists = kmeans.improve(near, lists.centroids, number * NEAR_PASSES + turn)
    return lists


def by_faiss(task: ClusteringTask, device: Faiss) -> tuple[Lists, list[float]]:
    """Leave all passes to faiss."""
    settings, rows = task.settings, task.sample.rows
    centroids, history = device.train(
        rows, task.lists, settings.iterations, settings.spherical, settings.seed
    )
    held = device.hold(rows)
    return filled(task, held, task.kmeans(RandomUse.PASSES).measure(held, centroids)), history


def filled(task: ClusteringTask, held: HeldRows, lists: Lists) -> Lists:
    """Give rows to lists that have none."""
    lists = task.kmeans(RandomUse.FILLING).fill(held, lists)
    if not lists.counts.all():
        task.refuse(int(np.count_nonzero(lists.counts)))
    return lists


def levels_above(task: ClusteringTask, levels: list[np.ndarray]) -> list[np.ndarray]:
    """Return the levels that are missing above these, the coarsest first.

    VectorChord goes down from the coarsest level: a row belongs to the nearest coarse centroid, and to the
    nearest of the lists below that one. The last two levels are made the same way: groups of rows first, then
    k-means inside each group. A mean of some of a group's rows lies in the group's Voronoi cell, so that the
    coarse centroid nearest to a list is its group's.

    VectorChord's own way is the other one: lists first, then k-means of their centroids. It brings lists
    nearer to the rows, but not to those that reach them: of 100,000 rows in 1,500 lists below 40, the squared
    distances were 9 % larger, and the same probes found 0.937 of the neighbours instead of 0.964. Levels
    above the last two, and those of faiss, are made this way.
    """
    kmeans, lists = task.kmeans(RandomUse.LEVELS), task.settings.lists
    above: list[np.ndarray] = []
    for number, k in enumerate(reversed(lists[: len(lists) - len(levels)])):
        own = KMeans(kmeans.spherical, (*kmeans.seed, number))
        below = above[0] if above else levels[0]
        above.insert(0, own.train(task.device.hold(below), k, LEVEL_PASSES).centroids)
    return above

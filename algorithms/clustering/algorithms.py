"""The ways to the lists of the last level: Lloyd's, hierarchical, and that of faiss."""

import numpy as np

from .faiss_device import Faiss
from .lloyd import ENOUGH, KMeans, Lists, is_finished
from .passes import Held
from .start import completed, grouped, in_groups, labelled
from .task import Task, Use

NEAR_PASSES = 6  # among near lists, before each pass over all
# Of the start of Lloyd's k-means: passes inside each group, and rows for each of its lists.
START_WITH_NEAR, START_ALONE = (4, 32), (10, 256)


def hierarchical(task: Task) -> tuple[Lists, list[float]]:
    """Take the lists of the groups as they are: k-means inside each, of all its rows."""
    lists = in_groups(task, task.settings.iterations).lists
    if len(lists.centroids) < task.lists:
        centroids = completed(task, lists.centroids, task.lists)
        held = task.device.hold(task.sample.rows)
        lists = filled(task, held, task.kmeans(Use.PASSES).improve(held, centroids, 0))
    return lists, [lists.inertia]


def lloyd(task: Task) -> tuple[Lists, list[float]]:
    """Make passes over the whole sample, from the lists of the groups on.

    Before each pass, where the device profits from it, come some that compare a row with the lists near its
    own only; those are no part of the history.
    """
    values, most, has_near = task.state.values, task.settings.iterations, task.device.has_near
    history = [float(inertia) for inertia in values.get("history", ())]
    if history:
        grouped(task)  # the order of the rows has a say in the last digits
        lists, labels = Lists(values["centroids"], values["sizes"], history[-1]), values.get("labels")
    else:
        start = in_groups(task, *(START_WITH_NEAR if has_near else START_ALONE))
        labels = labelled(task, start) if has_near else None
        lists = Lists(
            completed(task, start.lists.centroids, task.lists), np.zeros(task.lists, np.int64), np.inf
        )
    held = task.device.hold(task.sample.rows)
    near = None if labels is None else task.device.hold_near(task.sample.rows, labels)
    enough = ENOUGH if near is None else 2 * ENOUGH
    kmeans = task.kmeans(Use.PASSES)
    with task.bars.bar(task.count * (most - len(history)), "k-means") as bar:
        while len(history) < most and not (is_finished(history, enough) and lists.counts.all()):
            bar.set_description(f"k-means, pass {len(history) + 1} of at most {most}")
            if near is not None:
                lists = nearly(task.kmeans(Use.NEAR), near, lists, len(history))
            lists = kmeans.improve(held, lists.centroids, len(history), labels, bar.update)
            history.append(lists.inertia)
            bar.set_postfix_str(f"inertia {lists.inertia:.6g}")
            kept = {} if labels is None else {"labels": labels}
            task.state.save(centroids=lists.centroids, sizes=lists.counts, history=np.array(history), **kept)
    if not history:
        lists = kmeans.measure(held, lists.centroids)
    return filled(task, held, lists), history


def nearly(kmeans: KMeans, near: Held, lists: Lists, number: int) -> Lists:
    """Make the passes among near lists that come before a pass over all."""
    for turn in range(NEAR_PASSES):
        lists = kmeans.improve(near, lists.centroids, number * NEAR_PASSES + turn)
    return lists


def by_faiss(task: Task, device: Faiss) -> tuple[Lists, list[float]]:
    """Leave all passes to faiss."""
    settings, rows = task.settings, task.sample.rows
    centroids, history = device.train(
        rows, task.lists, settings.iterations, settings.spherical, settings.seed
    )
    held = device.hold(rows)
    return filled(task, held, task.kmeans(Use.PASSES).measure(held, centroids)), history


def filled(task: Task, held: Held, lists: Lists) -> Lists:
    """Give rows to lists that have none."""
    lists = task.kmeans(Use.FILLING).fill(held, lists)
    if not lists.counts.all():
        task.refuse(int(np.count_nonzero(lists.counts)))
    return lists

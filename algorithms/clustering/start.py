"""Lists that are made group by group."""

from typing import NamedTuple

import numpy as np

from .groups import centres, labels_of_groups, lists_of_groups
from .lloyd import Lists
from .seeding import seeds
from .task import Task, Use


class Start(NamedTuple):
    """The lists of all groups, too few where rows are too alike; `of_each`: how many a group has."""

    lists: Lists
    sizes: np.ndarray
    of_each: np.ndarray


def in_groups(task: Task, passes: int, rows_a_list: int | None = None) -> Start:
    """Make the lists of each group, from `rows_a_list` rows at most for each, after the sample is grouped."""
    values, sample = task.state.values, task.sample
    sizes = grouped(task)
    done = int(values.get("groups_done", 0))
    centroids = [values["of_groups"]] if done else []
    counts = [values["of_groups_counts"]] if done else []
    squares = float(values.get("of_groups_squares", 0))
    of_each = values["of_each_group"].copy() if done else np.zeros(len(sizes), np.int64)
    present = np.flatnonzero(sizes)
    kmeans = task.kmeans(Use.IN_GROUPS)
    found = lists_of_groups(sample, sizes, task.device, kmeans, task.lists, passes, rows_a_list, done)
    with task.bars.bar(task.count, "lists in groups") as bar:
        bar.update(int(sizes[:done].sum()))
        for group, lists in zip(present[present >= done], found, strict=True):
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
    return Start(Lists(np.concatenate(centroids), np.concatenate(counts), squares / rows), sizes, of_each)


def grouped(task: Task) -> np.ndarray:
    """Put the sample's rows into groups; return how many each has."""
    values, sample = task.state.values, task.sample
    if "group_sizes" in values:
        known: np.ndarray = values["group_sizes"]
        return known
    kmeans, held = task.kmeans(Use.GROUPS), task.device.hold(sample.rows)
    if "groups" not in values:
        found = centres(sample, task.device, task.groups, kmeans)
        task.state.save(groups=completed(task, found, task.groups))
    labels = np.empty(task.count, np.int32)
    with task.bars.bar(task.count, "groups") as bar:
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


def labelled(task: Task, start: Start) -> np.ndarray:
    """Return each row's nearest list of its own group, (n,) int32."""
    return labels_of_groups(
        task.sample, start.sizes, start.of_each, start.lists.centroids, task.device, task.settings.spherical
    )


def completed(task: Task, centroids: np.ndarray, k: int) -> np.ndarray:
    """Add the centroids that are missing to k."""
    missing = k - len(centroids)
    if not missing:
        return centroids
    more = seeds(task.sample.rows, centroids, missing, task.settings.spherical, task.random(Use.MISSING))
    if len(more) < missing:
        task.refuse(len(centroids) + len(more))
    return np.concatenate([centroids, more])

"""From rows to centroids: a sample, groups of near rows, lists inside each group, and passes over all.

With about sqrt(k) groups, each with lists in proportion to its rows, a pass takes n * sqrt(k) distances
instead of n * k.
"""

import math
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from .devices import Device, HeldRows, open_device
from .kmeans import KMeans, Lists, is_finished, seeds, shares
from .sample import ClusteringState, drawn_blocks, grouped_rows, identity, new_file
from .settings import Clustering, ClusteringError, Settings

ROWS_A_GROUP = 256  # sampled to make the centres of the groups
CENTRE_PASSES = 10
# The start of Lloyd's k-means: passes inside each group, and rows for each of its lists.
START_PASSES, START_ROWS = 4, 64


def cluster(
    rows: Any,
    settings: Settings,
    folder: Path | None = None,
    progress: bool | None = None,
    finish: Callable[[Clustering], object] = lambda result: None,
) -> Clustering:
    """Find centroids for rows, (n, dimension), which are read in slices; see Settings.

    `folder`: holds a sample too large for memory, and the state that the same call resumes from after an
    interruption; both are removed in the end. None: a temporary folder, and no resuming. `progress`: show
    bars; None: on a terminal only. `finish` receives the result first: if it fails, the state is kept.
    Raises ClusteringError.
    """
    count = _sample_rows(rows, settings)
    with closing(open_device(settings)) as device, ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clustering-")))
        state = ClusteringState(place, folder is not None, identity(rows, settings))
        try:
            result = ClusteringTask(rows, count, settings, device, state, progress).run()
        except MemoryError:
            raise ClusteringError(
                "memory has run out: give a smaller sampling_factor, or less memory for the sample"
            ) from None
        except ClusteringError:
            state.remove()
            raise
        state.save(must=True)
        finish(result)
        state.remove()
        return result


def _sample_rows(rows: Any, settings: Settings) -> int:
    if len(rows.shape) != 2 or not rows.shape[1] or np.dtype(rows.dtype).kind not in "fiu":
        raise ClusteringError(
            f"rows have the shape {tuple(rows.shape)} and are {rows.dtype}: (rows, dimension) of numbers "
            "were expected"
        )
    count, lists = int(rows.shape[0]), settings.lists[-1]
    if lists > count:
        raise ClusteringError(f"{lists:,} lists for {count:,} rows: give fewer")
    return min(count, lists * settings.sampling_factor)


class RandomUse(IntEnum):
    """What random numbers are for; each use has its own."""

    SAMPLING, GROUPS, IN_GROUPS, MISSING, PASSES, FILLING = range(6)


@dataclass
class ClusteringTask:
    """`rows`: all of them, (n, dimension); `count`: those to sample.

    `progress`: whether bars are shown; None: on a terminal only. Once drawn, `sample` is (count, dimension)
    float32 less `shift`, (dimension,), which makes the differences of rows more exact.
    """

    rows: Any
    count: int
    settings: Settings
    device: Device
    state: ClusteringState
    progress: bool | None
    sample: np.ndarray = field(init=False)
    shift: np.ndarray = field(init=False)

    def run(self) -> Clustering:
        """Return the result; VectorChord goes down from the coarse level.

        A row belongs to the nearest coarse centroid, and to the nearest of the lists below that one. A mean
        of some of a group's rows lies in the group's Voronoi cell, so that the coarse centroid nearest to a
        list is its group's. VectorChord's own way is the other one: lists first, then k-means of their
        centroids. It brings lists nearer to the rows, but not to those that reach them: of 100,000 rows in
        1,500 lists below 40, the squared distances were 9% larger, and the same probes found 0.937 of the
        neighbours instead of 0.964.
        """
        self._draw()
        settings = self.settings
        is_flat = len(settings.lists) == 1
        found, history = self._lloyd() if is_flat and settings.algorithm == "lloyd" else self._hierarchical()
        centroids = found.centroids
        if not is_flat:
            centroids = np.concatenate([self.state.values["groups"], centroids])
        return Clustering(
            centroids=centroids + self.shift,
            lists=list(settings.lists),
            sizes=found.counts,
            inertia=found.inertia,
            history=history,
            sample_rows=self.count,
            seconds=self.state.seconds,
            device=self.device.label,
        )

    def _draw(self) -> None:
        """Draw the sample, or open the file of an interrupted run."""
        values, file, shape = self.state.values, self.state.sample_file, (self.count, int(self.rows.shape[1]))
        if "shift" in values and file.exists():
            self.sample, self.shift = np.load(file, mmap_mode="r"), values["shift"]
            return
        is_in_memory = 8 * shape[0] * shape[1] <= self.settings.memory_bytes()
        self.sample = np.empty(shape, np.float32) if is_in_memory else new_file(file, shape)
        self.shift = np.zeros(shape[1], np.float32)
        done = 0
        rng = np.random.default_rng([self.settings.seed, RandomUse.SAMPLING])
        with self._bar("sampling") as bar:
            for block in drawn_blocks(self.rows, self.count, self.settings.unit_rows, rng):
                if not done and not self.settings.spherical:
                    self.shift = block.mean(axis=0, dtype=np.float64).astype(np.float32)
                np.subtract(block, self.shift, out=self.sample[done : done + len(block)])
                done += len(block)
                bar.update(len(block))
        if not is_in_memory:
            self.sample = np.load(file, mmap_mode="r")
            self.state.save(must=True, shift=self.shift)
            if not self.state.is_kept and os.name == "posix":
                file.unlink()  # its map stays, and a kill leaves nothing

    def _hierarchical(self) -> tuple[Lists, list[float]]:
        """Take the lists of the groups as they are: k-means inside each group, of all its rows."""
        lists = self._lists_in_groups(self.settings.iterations)
        if len(lists.centroids) < self._k:
            held = self.device.hold(self.sample)
            centroids = self._completed(lists.centroids, self._k)
            lists = self._filled(held, self._kmeans(RandomUse.PASSES).improve(held, centroids, 0))
        return lists, [lists.inertia]

    def _lloyd(self) -> tuple[Lists, list[float]]:
        """Make passes over the whole sample, starting from the lists of the groups."""
        values, most = self.state.values, self.settings.iterations
        history = [float(inertia) for inertia in values.get("history", ())]
        if history:
            lists = Lists(values["centroids"], values["sizes"], history[-1])
        else:
            start = self._lists_in_groups(START_PASSES, START_ROWS)
            lists = Lists(self._completed(start.centroids, self._k), np.zeros(self._k, np.int64), np.inf)
        held, kmeans = self.device.hold(self.sample), self._kmeans(RandomUse.PASSES)
        with self._bar("k-means", most - len(history)) as bar:
            while len(history) < most and not (is_finished(history) and lists.counts.all()):
                bar.set_description(f"k-means, pass {len(history) + 1} of at most {most}")
                lists = kmeans.improve(held, lists.centroids, len(history), bar.update)
                history.append(lists.inertia)
                bar.set_postfix_str(f"inertia {lists.inertia:.6g}")
                self.state.save(centroids=lists.centroids, sizes=lists.counts, history=np.array(history))
        if not history:
            lists = kmeans.measure(held, lists.centroids)
        return self._filled(held, lists), history

    def _filled(self, held: HeldRows, lists: Lists) -> Lists:
        lists = self._kmeans(RandomUse.FILLING).fill(held, lists)
        if not lists.counts.all():
            raise self._too_alike(int(np.count_nonzero(lists.counts)))
        return lists

    def _groups(self) -> np.ndarray:
        """Find the groups' centres, which are the coarse centroids, and return each row's group, (count,)."""
        kmeans, held = self._kmeans(RandomUse.GROUPS), self.device.hold(self.sample)
        if "groups" not in self.state.values:
            groups = self.settings.lists[0] if len(self.settings.lists) > 1 else math.isqrt(self._k)
            rng = np.random.default_rng([*kmeans.seed, 0])
            drawn = rng.choice(self.count, min(self.count, groups * ROWS_A_GROUP), replace=False)
            centres = kmeans.train(self.device.hold(self.sample[np.sort(drawn)]), groups, CENTRE_PASSES)
            self.state.save(groups=self._completed(centres.centroids, groups))
        labels = np.empty(self.count, np.int32)
        with self._bar("groups") as bar:
            counts = held.run(self.state.values["groups"], kmeans.spherical, labels, bar.update).counts
        if not counts.all():
            filled = kmeans.fill(held, Lists(self.state.values["groups"], counts, np.inf))
            self.state.save(groups=filled.centroids)
            held.run(filled.centroids, kmeans.spherical, labels)
        return labels

    def _lists_in_groups(self, passes: int, rows_a_list: int | None = None) -> Lists:
        """Make each group's lists, from at most `rows_a_list` rows a list; rows too alike give fewer.

        The state is saved after each group.
        """
        labels, values = self._groups(), self.state.values
        sizes = np.bincount(labels, minlength=len(values["groups"]))
        lists = shares(self._k, sizes)
        stops = np.cumsum(lists)
        centroids = values.get("of_groups", np.zeros((self._k, self.sample.shape[1]), np.float32))
        counts = values.get("of_groups_counts", np.zeros(self._k, np.int64))
        done, squares = int(values.get("groups_done", 0)), float(values.get("of_groups_squares", 0))
        # Each thread takes a group, unless one group has more rows than the other threads can keep up with.
        is_even = sizes.max() * self.device.threads <= sizes.sum()
        each: Callable[..., Iterator[tuple[int, Lists]]] = self.device.each if is_even else map

        def work(item: tuple[int, np.ndarray]) -> tuple[int, Lists]:
            group, rows = item
            kmeans = self._kmeans(RandomUse.IN_GROUPS, group)
            most = lists[group] * (rows_a_list or len(rows))
            if most < len(rows):
                rng = np.random.default_rng([*kmeans.seed, 1])
                rows = rows[np.sort(rng.choice(len(rows), most, replace=False))]
            return group, kmeans.train(self.device.hold(rows, alone=is_even), int(lists[group]), passes)

        with self._bar("lists in groups") as bar:
            bar.update(int(sizes[:done].sum()))
            for groups in self._group_batches(sizes, done):
                for group, found in each(work, grouped_rows(self.sample, labels, groups)):
                    first = stops[group] - lists[group]
                    own = slice(first, first + len(found.counts))
                    centroids[own], counts[own] = found.centroids, found.counts
                    squares += found.inertia * int(found.counts.sum())
                    bar.update(int(sizes[group]))
                    self.state.save(
                        groups_done=group + 1, of_groups=centroids, of_groups_counts=counts,
                        of_groups_squares=squares,
                    )  # fmt: skip
        has_rows = counts > 0
        return Lists(centroids[has_rows], counts[has_rows], squares / int(counts.sum()))

    def _group_batches(self, sizes: np.ndarray, first: int) -> Iterator[range]:
        """Yield the groups from `first` on, as many at a time as half of the memory has room for."""
        room = max(self.settings.memory_bytes() // (8 * self.sample.shape[1]), 1)
        while first < len(sizes):
            fitting = int(np.searchsorted(np.cumsum(sizes[first:]), room, "right"))
            yield range(first, first + max(fitting, 1))
            first += max(fitting, 1)

    def _completed(self, centroids: np.ndarray, k: int) -> np.ndarray:
        """Add the centroids that are missing to k."""
        rng = np.random.default_rng([self.settings.seed, RandomUse.MISSING])
        while missing := k - len(centroids):
            more = seeds(self.sample, centroids, missing, self.settings.spherical, rng)
            if not len(more):
                raise self._too_alike(len(centroids))
            centroids = np.concatenate([centroids, more])
        return centroids

    def _too_alike(self, distinguished: int) -> ClusteringError:
        what = "directions" if self.settings.spherical else "vectors"
        return ClusteringError(
            f"the sample of {self.count:,} rows has only {distinguished:,} different {what}, "
            f"as far as float32 can tell, for lists: {self._k:,}: give fewer"
        )

    @property
    def _k(self) -> int:
        return self.settings.lists[-1]

    def _kmeans(self, *use: int) -> KMeans:
        return KMeans(self.settings.spherical, (self.settings.seed, *use))

    def _bar(self, description: str, passes: int = 1) -> "tqdm[Any]":
        """Start a bar for the rows of the sample; it disappears when it is closed."""
        disable = None if self.progress is None else not self.progress
        return tqdm(
            total=self.count * passes, desc=description, unit=" rows", unit_scale=True, disable=disable,
            delay=1, leave=False,
        )  # fmt: skip

"""What the steps of a clustering share: settings, device, state, sample and progress."""

import math
import os
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from tqdm import tqdm

from .device import Device
from .kmeans import KMeans, hashes
from .sample import ClusteringSample, drawn_blocks, memory_for_sample, new_sample, open_sample
from .settings import ClusteringError, Settings
from .state import ClusteringState


class RandomUse(IntEnum):
    """What random numbers are for; each use has its own."""

    SAMPLING, GROUPS, IN_GROUPS, MISSING, NEAR, PASSES, FILLING, LEVELS = range(8)


@dataclass
class ClusteringTask:
    """`rows`: all of them, (n, dimension); `count`: those to sample; `folder`: for files.

    `progress`: whether bars are shown; None: on a terminal only. `sample` exists once it is drawn.
    """

    rows: Any
    count: int
    settings: Settings
    device: Device
    state: ClusteringState
    folder: Path
    progress: bool | None
    sample: ClusteringSample = field(init=False)

    @property
    def lists(self) -> int:
        """The number of lists of the last level."""
        return self.settings.lists[-1]

    @property
    def groups(self) -> int:
        """The number of groups that the lists are made in: the lists of the level above, if there is one."""
        return self.settings.lists[-2] if len(self.settings.lists) > 1 else math.isqrt(self.lists)

    @property
    def sample_file(self) -> Path:
        """A sample that is too large for memory, as it is drawn."""
        return self.folder / "sample.npy"

    @property
    def grouped_file(self) -> Path:
        """The same sample with near rows next to one another."""
        return self.folder / "grouped.npy"

    def random(self, use: RandomUse) -> np.random.Generator:
        """Return the random numbers of one use."""
        return np.random.default_rng([self.settings.seed, use])

    def kmeans(self, use: RandomUse) -> KMeans:
        """Return the k-means of one use."""
        return KMeans(self.settings.spherical, (self.settings.seed, use))

    def bar(self, description: str, total: int | None = None) -> "tqdm[Any]":
        """Start a bar for the rows of the sample, or for `total` rows; it disappears when it is closed."""
        disable = None if self.progress is None else not self.progress
        return tqdm(
            total=self.count if total is None else total, desc=description, unit=" rows", unit_scale=True,
            disable=disable, delay=1, leave=False,
        )  # fmt: skip

    def draw(self) -> None:
        """Draw the sample, or open the file of an interrupted run."""
        values = self.state.values
        for file, name in ((self.grouped_file, "group_sizes"), (self.sample_file, "shift")):
            if name in values and file.exists():
                self.sample = open_sample(file, values["shift"])
                return
        values.pop("group_sizes", None)
        shape = (self.count, int(self.rows.shape[1]))
        is_on_disk = 8 * shape[0] * shape[1] > memory_for_sample(self.settings.memory)
        blocks = drawn_blocks(self.rows, self.count, self.settings.unit_rows, self.random(RandomUse.SAMPLING))
        place = self.sample_file if is_on_disk else None
        with self.bar("sampling") as bar:
            self.sample = new_sample(blocks, shape, not self.settings.spherical, place, bar.update)
        if is_on_disk:
            self.state.save(must=True, shift=self.sample.shift)
            self.forget(self.sample_file)

    def forget(self, file: Path) -> None:
        """Delete a mapped file that no run will resume from: its map stays, and a kill leaves nothing."""
        if not self.state.is_kept and os.name == "posix":
            file.unlink(missing_ok=True)

    def refuse(self, distinguished: int) -> NoReturn:
        """Raise ClusteringError: there are too few different rows."""
        different = len(np.unique(hashes(self.sample.rows, self.settings.spherical)))
        what = "directions" if self.settings.spherical else "vectors"
        if different < self.lists:
            raise ClusteringError(
                f"the sample of {self.count:,} rows has only {different:,} different {what}, "
                f"lists: {self.lists:,}: give fewer"
            )
        raise ClusteringError(
            f"the {what} of the sample of {self.count:,} rows are so alike that float32 products distinguish "
            f"only {distinguished:,} of them, lists: {self.lists:,}: give fewer"
        )

    def remove_files(self) -> None:
        """Delete what an interrupted run would resume from."""
        self.state.remove()
        for file in (self.sample_file, self.grouped_file):
            file.unlink(missing_ok=True)

"""What the steps of a clustering share: the question, the device, the state, the sample."""

import math
import os
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from .bars import Bars
from .device import Device
from .distinct import hashes
from .errors import ClusteringError
from .lloyd import KMeans
from .sample import Sample, memory_for_sample, new_sample, open_sample
from .sampling import drawn_blocks
from .settings import Settings
from .state import State


class Use(IntEnum):
    """What random numbers are for: each use has its own."""

    SAMPLING, GROUPS, IN_GROUPS, MISSING, NEAR, PASSES, FILLING, LEVELS = range(8)


@dataclass
class Task:
    """`count`: rows of the sample; `folder`: where files may be; `sample` is there once it is drawn."""

    rows: Any
    count: int
    settings: Settings
    device: Device
    state: State
    folder: Path
    bars: Bars
    sample: Sample = field(init=False)

    @property
    def lists(self) -> int:
        """How many lists the last level has."""
        return self.settings.lists[-1]

    @property
    def groups(self) -> int:
        """How many groups the lists are made in: those of the level above, if there is one."""
        return self.settings.lists[-2] if len(self.settings.lists) > 1 else math.isqrt(self.lists)

    @property
    def sample_file(self) -> Path:
        """A sample that is too large for memory, as it is drawn."""
        return self.folder / "sample.npy"

    @property
    def grouped_file(self) -> Path:
        """The same with near rows next to one another."""
        return self.folder / "grouped.npy"

    def random(self, use: Use) -> np.random.Generator:
        """Return the random numbers of one use."""
        return np.random.default_rng([self.settings.seed, use])

    def kmeans(self, use: Use) -> KMeans:
        """Return the k-means of one use."""
        return KMeans(self.settings.spherical, (self.settings.seed, use))

    def draw(self) -> None:
        """Draw the sample, or find the file of an interrupted run."""
        values = self.state.values
        for file, name in ((self.grouped_file, "group_sizes"), (self.sample_file, "shift")):
            if name in values and file.exists():
                self.sample = open_sample(file, values["shift"])
                return
        values.pop("group_sizes", None)
        is_on_disk = 8 * self.count * self.rows.shape[1] > memory_for_sample(self.settings.memory)
        blocks = drawn_blocks(self.rows, self.count, self.settings.unit_rows, self.random(Use.SAMPLING))
        with self.bars.bar(self.count, "sampling") as bar:
            self.sample = new_sample(
                blocks, (self.count, self.rows.shape[1]), not self.settings.spherical,
                self.sample_file if is_on_disk else None, bar.update,
            )  # fmt: skip
        if is_on_disk:
            self.state.save(must=True, shift=self.sample.shift)
            self.forget(self.sample_file)

    def forget(self, file: Path) -> None:
        """Delete a mapped file that nobody will go on from: its map stays, and a kill leaves nothing."""
        if not self.state.is_kept and os.name == "posix":
            file.unlink(missing_ok=True)

    def refuse(self, told_apart: int) -> NoReturn:
        """Say that there are too few different rows."""
        different = len(np.unique(hashes(self.sample.rows, self.settings.spherical)))
        what = "directions" if self.settings.spherical else "vectors"
        if different < self.lists:
            raise ClusteringError(
                f"the sample of {self.count:,} rows has only {different:,} different {what}, "
                f"lists: {self.lists:,}: give fewer"
            )
        raise ClusteringError(
            f"the {what} of the sample of {self.count:,} rows are so alike that float32 products tell apart "
            f"{told_apart:,} of them, lists: {self.lists:,}: give fewer"
        )

    def remove_files(self) -> None:
        """Delete what was kept to go on from."""
        self.state.remove()
        for file in (self.sample_file, self.grouped_file):
            file.unlink(missing_ok=True)

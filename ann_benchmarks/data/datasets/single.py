"""Datasets in one HDF5 file, as ann-benchmarks has them: downloaded, or made here."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import generated
from .getting import get_hdf5
from .random_sets import write_blobs, write_random_sets


@dataclass(frozen=True)
class SingleFile:
    """What is known of a dataset before its file is there, and what makes the file."""

    name: str
    distance: str
    rows: int | None = None
    dimension: int | None = None
    queries: int | None = None
    aliases: tuple[str, ...] = ()
    url: str = ""
    recompute_distances: bool = False
    generate: Mapping[str, Any] | None = None

    def make(self, path: Path, connections: int = 4) -> None:
        """Download or generate the file."""
        if self.generate is not None:
            self._generate(path, **self.generate)
        elif self.url:
            get_hdf5(self.url, path, self.distance, connections)
        elif (size := generated.parse(self.name)) is not None:
            generated.write_generated(path, size)

    def _generate(self, path: Path, kind: str, rows: int, **shape: int) -> None:
        assert self.dimension is not None
        if kind == "blobs":
            write_blobs(path, self.distance, rows, self.dimension, shape["centers"])
        else:
            write_random_sets(path, self.distance, rows, shape["size"], self.dimension)

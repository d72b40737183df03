"""Datasets in files of their own for vectors, queries and neighbours: where they lie, and what they hold."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.names import matching
from ann_benchmarks.distance import BIT_METRICS

from ..vectors import FirstRows, Rows, checked, open_parts, open_rows, read_neighbors
from ..vectors.opening import BIG_ANN_TYPES, big_ann_bytes
from .dataset import DATA_FOLDER, Dataset, plug_in_array
from .queries import TrueNeighbors, neighbor_rows


@dataclass(frozen=True)
class FilterSource:
    """Addresses, as Parts has them, of a filter set that was published, or of all sets of a kind.

    `of_rows` has the attribute of the rows; `id` is the column of this name beside the vectors. Tags have a
    file `of_queries`, too. A kind has sets of the `shares` that pass, and a `label` if it compares texts;
    {passing} and {removed} stand for percentages.
    """

    name: str
    of_rows: str
    of_queries: str = ""
    neighbors: str = ""
    shares: tuple[Decimal, ...] = ()
    label: str = ""

    @property
    def names(self) -> str:
        """Its name in a list of all: tags, or int:S."""
        return f"{self.name}:S" if self.shares else self.name

    @property
    def column(self) -> str:
        """The name of the attribute."""
        return f"published_{self.name}"


@dataclass(frozen=True)
class Parts:
    """Addresses of the files, and what is known of them beforehand.

    An address is a URL, whose file lies in data/FOLDER/ under its own name or that after "#/", or a path,
    relative to data/. `test` may be train[:N], the first N rows. Where `whole_rows` is given, the file has
    that many; only the first `rows` of them belong to the dataset.
    """

    name: str
    distance: str
    train: tuple[str, ...]
    test: str
    neighbors: str = ""
    rows: int | None = None
    dimension: int | None = None
    queries: int | None = None
    aliases: tuple[str, ...] = ()
    folder: str = ""
    whole_rows: int | None = None
    filters: tuple[FilterSource, ...] = ()  # those that were published with it

    def place(self, address: str, data: Path = DATA_FOLDER) -> Path:
        """Where the file of an address lies or would lie."""
        if is_url(address):
            return data / self.folder / address.rpartition("/")[2]
        return data / address

    def train_files(self, data: Path = DATA_FOLDER) -> list[Path]:
        """The files of the vectors: a copy that earlier versions made, if it is current, or the originals."""
        converted, originals = self.converted(data), self.original_files(data)
        if not converted.exists():
            return originals
        made_at = converted.stat().st_mtime_ns
        is_current = all(not path.exists() or path.stat().st_mtime_ns <= made_at for path in originals)
        return [converted] if is_current else originals

    def original_files(self, data: Path = DATA_FOLDER) -> list[Path]:
        """The files of the vectors that are there, or else those that are to be had.

        Of a cropped set, the whole file serves as well, and so does a longer crop; its own is named as
        big-ann-benchmarks names it.
        """
        files = [self.place(address, data) for address in self.train]
        if self.whole_rows is None:
            return files
        whole = files[0]
        own = whole.with_name(f"{whole.name}.crop_nb_{self.rows}")
        if own.exists() or whole.exists():
            return [own if own.exists() else whole]
        longer = [path for path in matching(f"{whole}.crop_nb_*") if (self.rows or 0) < _crop(path)]
        return [min(longer, key=_crop, default=own)]

    def converted(self, data: Path = DATA_FOLDER) -> Path:
        """Where such a copy would lie."""
        return data / self.folder / f"{self.name}.converted.npy"

    def files(self, data: Path = DATA_FOLDER) -> list[Path]:
        """All files of the dataset, there or not."""
        paths = self.train_files(data)
        if self.test_rows() is None:
            paths.append(self.place(self.test, data))
        return [*paths, self.place(self.neighbors, data)] if self.neighbors else paths

    def test_rows(self) -> int | None:
        """How many of the first training rows are the queries; None if they have a file."""
        match = re.fullmatch(r"train\[:(\d+)\]", self.test)
        return int(match[1]) if match else None

    def size_of(self, address: str) -> int | None:
        """Bytes of the file of an address as published, where its format tells."""
        rows = (self.whole_rows or self.rows) if address in self.train else self.queries
        suffix = Path(address).suffix
        if address == self.neighbors or suffix not in BIG_ANN_TYPES:
            return None
        if rows is None or self.dimension is None or len(self.train) > 1:
            return None
        return big_ann_bytes(suffix, rows, self.dimension)

    def open(self, data: Path = DATA_FOLDER) -> "PartsDataset":
        """Open the files, which must be there."""
        return PartsDataset(self, data)


class PartsDataset(Dataset):
    """An open dataset in several files."""

    def __init__(self, parts: Parts, data: Path) -> None:
        self.parts, self.name, self.data = parts, parts.name, data
        self.train_files = parts.train_files(data)
        train = open_parts(self.train_files)
        if parts.rows is not None and len(train) != parts.rows:
            if len(train) < parts.rows:
                raise UserError(
                    f"{train.label} has {len(train):,} rows where '{self.name}' has {parts.rows:,}; "
                    "delete what is there and get it again"
                )
            train = FirstRows(train, parts.rows)
        own_test = parts.test_rows()
        test = FirstRows(train, own_test) if own_test else open_rows(parts.place(parts.test, data))
        if own_test and own_test > len(train):
            raise UserError(f"{train.label} has {len(train):,} rows, fewer than the queries: {parts.test}")
        expected = parts.dimension or train.shape[1]
        for rows in (train, test):
            if parts.distance in BIT_METRICS and rows.dtype != np.bool_:
                raise UserError(
                    f"{rows.label} holds {rows.dtype} where {parts.distance} needs bool; leave out"
                    " --in-place, and the vectors are copied as bits"
                )
            if rows.shape[1] != expected:
                raise UserError(f"{rows.label} has {rows.shape[1]} dimensions where {expected} were expected")
        self._train, self._test = checked(train, parts.distance), checked(test, parts.distance)
        self.rows, self.has_published_truth = len(train), bool(parts.neighbors)
        self.attrs = {
            "distance": parts.distance,
            "dimension": expected,
            "point_type": "bit" if train.dtype == np.bool_ else "float",
            "type": "dense",
        }

    @property
    def files(self) -> list[Path]:
        """Those of vectors, queries and neighbours that are there."""
        return [path for path in self.parts.files(self.data) if path.exists()]

    def train_rows(self) -> Rows:
        return self._train

    def train(self) -> np.ndarray:
        """All vectors as one array of float32 (or bool): a memory map where the file has that form."""
        return plug_in_array(self._train)

    def test(self) -> np.ndarray:
        rows = np.asarray(self._test[:])
        return rows if rows.dtype == np.bool_ else rows.astype(np.float32)

    def published_truth(self) -> TrueNeighbors | None:
        """The neighbours that came with the data, not their distances: every publisher has its own."""
        if not self.has_published_truth:
            return None
        path = self.parts.place(self.parts.neighbors, self.data)
        return TrueNeighbors(self.neighbors_in(path), None, self.name)

    def neighbors_in(self, path: Path) -> np.ndarray:
        """Read a published file of neighbours: row numbers (queries, k) int64, in the order of the queries.

        UserError where it does not fit the dataset. -1 stands for no row.
        """
        from ..vectors.parquet import distinct_ids, parquet_ids  # needs pyarrow; plots do not wait for it

        ids = read_neighbors(path)
        queries = len(self._test)
        if len(ids) != queries:
            raise UserError(f"{path} has the neighbours of {len(ids):,} queries, but there are {queries:,}")
        test = self.parts.place(self.parts.test, self.data)
        if path.suffix == test.suffix == ".parquet" and (keys := parquet_ids([test])) is not None:
            # Neighbours come in the order of the queries' ids.
            order = np.argsort(own := distinct_ids(test, keys), kind="stable")
            named = parquet_ids([path])
            if named is not None and not np.array_equal(np.sort(distinct_ids(path, named)), own[order]):
                raise UserError(f"{path} has the neighbours of other queries than {test}, by their ids")
            ids = ids[np.argsort(order, kind="stable")]
        return neighbor_rows(ids, self.row_ids(), self.rows, path)

    def row_ids(self) -> Iterator[np.ndarray] | None:
        """Give the ids that the publisher has given the rows, in blocks; None: their numbers."""
        originals = [self.parts.place(address, self.data) for address in self.parts.train]
        if not all(part.suffix == ".parquet" for part in originals):
            return None
        from ..vectors.parquet import parquet_ids

        for part in originals:
            if not part.exists():
                raise UserError(f"{part} has the ids of the rows, but is missing; fetch it again")
        return parquet_ids(originals)

    def close(self) -> None:
        self._train.close()
        self._test.close()


def is_url(address: str) -> bool:
    """Whether an address is to be fetched."""
    return "://" in address


def _crop(path: Path) -> int:
    number = path.name.rpartition("_")[2]
    return int(number) if number.isdecimal() else 0

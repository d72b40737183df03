"""The datasets that have a name, as registry.yml lists them, and those described next to the data."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import shown
from ann_benchmarks.common.names import name_problem
from ann_benchmarks.common.yaml_file import Where, YamlFile, is_number
from ann_benchmarks.distance import METRICS

from ..filters.named import PUBLISHED_KINDS
from . import generated
from .dataset import DATA_FOLDER, Dataset
from .downloads import get_hdf5
from .file import HDF5Dataset
from .parts import FilterSource, Parts


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

    def files(self, data: Path = DATA_FOLDER) -> list[Path]:
        """The one file, there or not."""
        return [data / f"{self.name}.hdf5"]

    def open(self, data: Path = DATA_FOLDER) -> Dataset:
        """Open the file, which must be there."""
        (path,) = self.files(data)
        return HDF5Dataset(path, self.distance, self.recompute_distances)

    def make(self) -> None:
        """Download or generate the file."""
        (path,) = self.files()
        if self.generate is not None:
            assert self.dimension is not None
            generated.write_random(path, self.distance, self.dimension, **self.generate)
        elif self.url:
            get_hdf5(self.url, path, self.distance)
        elif (size := generated.parse(self.name)) is not None:
            generated.write_generated(path, size)


Entry = SingleFile | Parts

_REGISTRY = Path(__file__).with_name("registry.yml")
# What may be said of a dataset, and as what; numbers count from 1.
_KEYS: dict[str, type] = {
    **dict.fromkeys(("distance", "test", "neighbors", "folder", "hdf5", "first_of"), str),
    **dict.fromkeys(("rows", "dimension", "queries"), int),
    **dict.fromkeys(("train", "aliases"), list),
    **dict.fromkeys(("generate", "filters"), dict),
    "recompute_distances": bool,
}
_RANGE = re.compile(r"\{([0-9]{1,9})\.\.([0-9]{1,9})\}")
_MOST_PARTS = 100_000


@cache
def registered() -> dict[str, Entry]:
    """Every registered dataset by name."""
    file = DescriptionFile(_REGISTRY, "datasets by name")
    datasets = {name: content for name, content in file.content.items() if not name.startswith(".")}
    return {name: file.entry((name,), name, content, datasets) for name, content in datasets.items()}


@cache
def aliases() -> dict[str, str]:
    """Other names of registered datasets, and the name that each stands for."""
    return {alias: name for name, entry in registered().items() for alias in entry.aliases}


def find_entry(name: str) -> Entry | None:
    """The entry of a registered name, of an alias or of a generated dataset; None for any other."""
    if (size := generated.parse(name)) is not None:
        return SingleFile(name, size.metric, size.rows, size.dimension, size.queries)
    return registered().get(aliases().get(name, name))


def read_description(path: Path) -> Parts:
    """Read data/NAME.yml, which describes a dataset by the keys of the registry; UserError if it does not."""
    file = DescriptionFile(path, "lines such as 'distance: euclidean', 'train: FILE', 'test: FILE'")
    if isinstance(file.content, dict) and "train" not in file.content and "first_of" not in file.content:
        file.fail((), "it must name its vectors as 'train: FILE' and its queries as 'test: FILE'")
    entry = file.entry((), path.stem, file.content, {})
    assert isinstance(entry, Parts)
    return entry


class DescriptionFile(YamlFile):
    """Turns what a file says of datasets into entries."""

    def entry(self, where: Where, name: str, content: Any, others: Mapping[str, Any]) -> Entry:
        """Make an entry of the lines under its name; UserError names the line of a mistake."""
        self._check(where, content)
        whole = None
        if "first_of" in content:
            parent = content["first_of"]
            if parent not in others or "rows" not in content:
                self.fail(where, "first_of needs `rows`, and the name of another dataset there")
            whole = others[parent]["rows"]
            shared = {"folder": parent, **others[parent], "aliases": [], "neighbors": "", "filters": {}}
            content = {**shared, **content}
        known = {key: content[key] for key in ("rows", "dimension", "queries") if key in content}
        names = tuple(content.get("aliases", ()))
        if "train" not in content:
            return SingleFile(
                name,
                content["distance"],
                **known,
                aliases=names,
                url=content.get("hdf5", "").replace("{name}", name),
                recompute_distances=content.get("recompute_distances", False),
                generate=content.get("generate"),
            )
        train = content["train"]
        return Parts(
            name,
            content["distance"],
            self._parts((*where, "train"), [train] if isinstance(train, str) else train),
            content["test"],
            content.get("neighbors", ""),
            **known,
            aliases=names,
            folder=content.get("folder", name),
            whole_rows=whole,
            filters=tuple(
                self._filter((*where, "filters", each), str(each), one)
                for each, one in content.get("filters", {}).items()
            ),
        )

    def _check(self, where: Where, content: Any) -> None:
        self.mapping(where, content, "the dataset", sorted(_KEYS))
        if "first_of" not in content and content.get("distance") not in METRICS:
            self.fail((*where, "distance"), f"distance must be one of {', '.join(METRICS)}")
        if ("train" in content) != ("test" in content):
            self.fail(where, "train and test belong together")
        if "filters" in content and "train" not in content:
            self.fail((*where, "filters"), "filters are of datasets in several files: name train and test")
        for key, value in content.items():
            kind, place = _KEYS[key], (*where, key)
            if kind is int and (type(value) is not int or value < 1):
                self.fail(place, f"{key} must be a whole number of at least 1")
            elif kind is not int and not (key == "train" and isinstance(value, str)):
                self.checked(place, value, kind)
            for at, text in enumerate(value if kind is list and isinstance(value, list) else ()):
                self.checked((*place, at), text, str)
        if content.get("train") == []:
            self.fail((*where, "train"), "train names no file")
        if problem := name_problem(content.get("folder", "-")):
            self.fail((*where, "folder"), f"folder {problem}; give the name of a folder in data/")

    def _filter(self, where: Where, name: str, content: Mapping[str, Any]) -> FilterSource:
        keys = ("of_rows", "of_queries", "neighbors", "shares", "label")
        self.mapping(where, content, "a filter set", keys, ("of_rows",))
        texts = {key: self.checked((*where, key), content[key], str) for key in content if key != "shares"}
        shares = self.checked((*where, "shares"), content.get("shares", []), list)
        if not all(is_number(share) and 0 < share < 1 for share in shares):
            self.fail((*where, "shares"), "shares must be numbers between 0 and 1")
        if bool(shares) != (name in PUBLISHED_KINDS):
            kinds = " and ".join(PUBLISHED_KINDS)
            self.fail(where, f"sets of the kinds {kinds} have shares, and no others have")
        is_tags = texts["of_rows"].endswith(".spmat")
        if is_tags != bool(texts.get("of_queries")) or is_tags == bool(shares):
            self.fail(
                where, "a set of tags has a file .spmat of_rows, and one of_queries; others have shares"
            )
        if bool(texts.get("label")) != (bool(shares) and texts["of_rows"] != "id"):
            self.fail(where, "filters on a file of labels have a label, and no others have")
        return FilterSource(name, shares=tuple(Decimal(str(share)) for share in shares), **texts)

    def _parts(self, where: Where, addresses: Sequence[str]) -> tuple[str, ...]:
        """Return the names of all parts: part{0..2}.npy is three, and {00..10} keeps two digits."""
        parts: list[str] = []
        for address in addresses:
            match = _RANGE.search(address)
            if match is None:
                parts.append(address)
                continue
            first, last = match.groups()
            if int(last) - int(first) >= _MOST_PARTS:
                self.fail(where, f"train names more than {_MOST_PARTS:,} parts: {shown(match[0])}")
            before, after = address[: match.start()], address[match.end() :]
            parts += [f"{before}{n:0{len(first)}}{after}" for n in range(int(first), int(last) + 1)]
        return tuple(parts)

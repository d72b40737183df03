"""The datasets that have a name, as registry.yml lists them, and those described next to the data."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.distance import METRICS

from . import generated
from .dataset import DATA_FOLDER
from .downloads import get_hdf5
from .file import HDF5Dataset
from .parts import Parts


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

    def open(self, data: Path = DATA_FOLDER) -> HDF5Dataset:
        """Open the file, which must be there."""
        return HDF5Dataset(self.files(data)[0], self.distance, self.recompute_distances)

    def make(self, connections: int = 4) -> None:
        """Download or generate the file."""
        (path,) = self.files()
        if self.generate is not None:
            self._generate(path, **self.generate)
        elif self.url:
            get_hdf5(self.url, path, self.distance, connections)
        elif (size := generated.parse(self.name)) is not None:
            generated.write_generated(path, size)

    def _generate(self, path: Path, kind: str, rows: int, **shape: int) -> None:
        assert self.dimension is not None
        if kind == "blobs":
            generated.write_blobs(path, self.distance, rows, self.dimension, shape["centers"])
        else:
            generated.write_random_sets(path, self.distance, rows, shape["size"], self.dimension)


Entry = SingleFile | Parts

_REGISTRY = Path(__file__).with_name("registry.yml")
_KEYS = {
    *("distance", "rows", "dimension", "queries", "aliases", "hdf5", "generate"),
    *("train", "test", "neighbors", "folder", "first_of", "sha256", "md5", "recompute_distances"),
}


@cache
def registered() -> dict[str, Entry]:
    """Every registered dataset by name."""
    lines = yaml.safe_load(_REGISTRY.read_text())
    datasets = {name: content for name, content in lines.items() if not name.startswith(".")}
    return {name: _entry(name, content, datasets, str(_REGISTRY)) for name, content in datasets.items()}


@cache
def aliases() -> dict[str, str]:
    """Other names of registered datasets, and the name that each stands for."""
    return {alias: name for name, entry in registered().items() for alias in entry.aliases}


def find_entry(name: str) -> Entry | None:
    """The entry of a registered name, of an alias or of a generated dataset; None if it is none."""
    if (size := generated.parse(name)) is not None:
        return SingleFile(name, size.metric, size.rows, size.dimension, size.queries)
    return registered().get(aliases().get(name, name))


def read_description(path: Path) -> Parts:
    """Read data/NAME.yml, which describes a dataset by the keys of the registry; UserError if it does not."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        reason = getattr(error, "problem", None) or getattr(error, "strerror", None) or "not text"
        raise UserError(f"cannot read {path}{line}: {reason}; correct it") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} must have lines such as 'distance: euclidean', 'train: FILE', 'test: FILE'")
    entry = _entry(path.stem, content, {}, str(path))
    if not isinstance(entry, Parts):
        raise UserError(f"{path} must name its vectors as 'train: FILE' and its queries as 'test: FILE'")
    return entry


def _entry(name: str, content: Mapping[str, Any], others: Mapping[str, Any], source: str) -> Entry:
    """Make an entry of the lines under its name."""
    where = f"{source}: '{name}'"
    _check(where, content)
    whole = None
    if "first_of" in content:
        parent = content["first_of"]
        if parent not in others or "rows" not in content:
            raise UserError(f"{where}: first_of needs `rows`, and the name of another dataset there")
        whole = others[parent]["rows"]
        content = {"folder": parent, **others[parent], "aliases": [], "neighbors": "", **content}
    known = {key: content[key] for key in ("rows", "dimension", "queries") if key in content}
    names = tuple(content.get("aliases", ()))
    if "train" not in content:
        address = content.get("hdf5", "").format(name=name)
        return SingleFile(
            name,
            content["distance"],
            **known,
            aliases=names,
            url=address,
            recompute_distances=content.get("recompute_distances", False),
            generate=content.get("generate"),
        )
    checksums = {
        file: f"{kind}:{digest}"
        for kind in ("sha256", "md5")
        for file, digest in content.get(kind, {}).items()
    }
    train = content["train"]
    return Parts(
        name,
        content["distance"],
        tuple(part for text in ([train] if isinstance(train, str) else train) for part in _expand(text)),
        content["test"],
        content.get("neighbors", ""),
        **known,
        aliases=names,
        folder=content.get("folder", name),
        whole_rows=whole,
        checksums=checksums,
    )


def _check(where: str, content: Mapping[str, Any]) -> None:
    unknown = set(content) - _KEYS
    if unknown:
        raise UserError(f"{where}: unknown key '{min(unknown)}'; the keys are {', '.join(sorted(_KEYS))}")
    if "first_of" not in content and content.get("distance") not in METRICS:
        raise UserError(f"{where}: distance must be one of {', '.join(METRICS)}")
    if ("train" in content) != ("test" in content):
        raise UserError(f"{where}: train and test belong together")
    for key in ("rows", "dimension", "queries"):
        if key in content and not (isinstance(content[key], int) and content[key] > 0):
            raise UserError(f"{where}: {key} must be a whole number of at least 1")
    for key in ("test", "neighbors", "folder", "hdf5", "first_of"):
        if not isinstance(content.get(key, ""), str):
            raise UserError(f"{where}: {key} must be one text, not {content[key]!r}")
    for key in ("train", "aliases"):
        texts = content.get(key, ["-"])
        texts = [texts] if isinstance(texts, str) and key == "train" else texts
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise UserError(f"{where}: {key} must be a list of texts, not {texts!r}")
    if content.get("train") == []:
        raise UserError(f"{where}: train names no file")
    for key in ("sha256", "md5", "generate"):
        if not isinstance(content.get(key) or {}, dict):
            raise UserError(f"{where}: {key} must have lines 'NAME: VALUE', not {content[key]!r}")


def _expand(address: str) -> list[str]:
    """Names of all parts: part{0..2}.npy is part0.npy, part1.npy, part2.npy; {00..10} keeps two digits."""
    match = re.search(r"\{(\d+)\.\.(\d+)\}", address)
    if match is None:
        return [address]
    first, last = match.groups()
    before, after = address[: match.start()], address[match.end() :]
    return [f"{before}{number:0{len(first)}}{after}" for number in range(int(first), int(last) + 1)]

"""What A and B name: folders of results, series, runs of --list, single files."""

import glob
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ann_benchmarks.common.errors import UserError, closest
from ann_benchmarks.results.file import RESULTS_FOLDER
from ann_benchmarks.results.records import SUFFIX

from .measurements import Key, Measurement, is_result
from .reading import read_all

ID_LENGTH = 6  # hexadecimal digits
ENDINGS = (".hdf5", SUFFIX)


@dataclass(frozen=True)
class Narrowed:
    """Which results count: of a dataset, a count, and a series or all that an algorithm's name begins."""

    dataset: str | None = None
    count: int | None = None
    algorithm: str | None = None

    def takes(self, path: Path) -> bool:
        """Whether a result is one of them."""
        dataset, count, series = path.parts[-4:-1]
        name = self.algorithm
        return (
            self.dataset in (None, dataset)
            and (self.count is None or str(self.count) == count)
            and (name is None or series == name or series.startswith(f"{name}-"))
        )

    def __str__(self) -> str:
        given = {"dataset": self.dataset, "count": self.count, "algorithm": self.algorithm}
        return " ".join(f"--{name} {value}" for name, value in given.items() if value is not None)


def run_id(folder: Path) -> str:
    """Return the short name of a run, which is a series of a dataset and count in a folder of results."""
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:ID_LENGTH]


def run_folders(roots: Sequence[Path]) -> list[Path]:
    """Return the folder of each run below some folders."""
    folders = {path.parent: None for root in roots for path in results_below(root)}
    return list(folders)


def read_side(names: Sequence[str], narrowed: Narrowed) -> list[Measurement]:
    """Read the measurements of one side, named by one or several words; UserError where there are none.

    Several folders, also by a pattern such as 'ci/main-*', are repetitions of the same measurements.
    """
    sources = [source for name in names for source in _sources(name)]
    found = [
        (path, key, number)
        for number, source in enumerate(sources)
        for path, key in source
        if narrowed.takes(path.absolute())
    ]
    read = read_all((path.absolute(), key, number) for path, key, number in found)
    if not read:
        asked = f" with {narrowed}" if str(narrowed) else ""
        raise UserError(
            f"{' '.join(names)} holds no result that can be read{asked}: compare.py --list shows all"
        )
    return read


def _sources(name: str) -> Iterator[list[tuple[Path, Key]]]:
    """Yield the results of each thing that a word names, with what it leaves open of each."""
    paths = [
        Path(path)
        for path in sorted(glob.glob(name))  # noqa: PTH207 (absolute ones, too)
    ] or [Path(name)]
    if any(path.exists() for path in paths):
        for path in paths:
            if path.is_file() and is_result(path.absolute()):
                yield [(path, ())]
            elif path.is_dir():
                yield [(found, _below(path, found)) for found in results_below(path)]
        return
    folders = run_folders([Path(RESULTS_FOLDER)])
    if re.fullmatch(f"[0-9a-f]{{{ID_LENGTH}}}", name):
        for folder in folders:
            if run_id(folder) == name:
                yield [(path, (path.stem,)) for path in results_below(folder)]
                return
    pattern = _pattern(name)
    series = [(folder, match) for folder in folders if (match := pattern.fullmatch(folder.name))]
    if not series:
        known = sorted({folder.name for folder in folders})
        raise UserError(
            f"'{name}' is no file, no folder and no series in {RESULTS_FOLDER}/; {closest(name, known)}"
        )
    yield [
        (path, (*folder.parts[-3:-1], *match.groups(), path.stem))
        for folder, match in series
        for path in results_below(folder)
    ]


def _pattern(name: str) -> re.Pattern[str]:
    """Return what matches a series: what each * of its name stands for is a group."""
    return re.compile("(.*)".join(re.escape(part) for part in name.split("*")))


def results_below(folder: Path) -> list[Path]:
    """Return every result in a folder, or in the `results` of that."""
    inner = folder / RESULTS_FOLDER
    below = inner if inner.is_dir() else folder
    return sorted(
        path for path in below.rglob("*") if path.name.endswith(ENDINGS) and is_result(path.absolute())
    )


def _below(folder: Path, path: Path) -> Key:
    inner = folder / RESULTS_FOLDER
    return (path.relative_to(inner if inner.is_dir() else folder)).with_suffix("").parts

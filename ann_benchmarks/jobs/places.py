"""What earlier runs have left: a folder of a series for each environment, and arguments that were found."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.fields.series import BATCH, BESIDE, Series, series_of
from ann_benchmarks.results.environment import (
    MARK,
    Facts,
    differences,
    environment_of,
    names_of,
    new_mark,
)
from ann_benchmarks.results.file import TRUTH_ATTRIBUTE, iter_result_paths, read_attributes, result_path
from ann_benchmarks.results.measurement import OVERSTATED
from ann_benchmarks.results.records import SUFFIX, read_record

SAME_INDEX = (TRUTH_ATTRIBUTE, "index_build_time")  # no two builds take the same number of seconds
_KEPT = (*SAME_INDEX, "target_recall", "target_parameter", "target_value", OVERSTATED)
Environments = Mapping[str, Sequence[Facts]]  # of the results in each folder of a series, by its mark


@dataclass(frozen=True)
class Folders:
    """The folders of a series: the plain one, and those beside it, of other environments."""

    plain: Path

    def there(self) -> Iterator[tuple[str, Path]]:
        """Yield each that is there, the plain one first, with its mark: what its name has more."""
        if self.plain.is_dir():
            yield "", self.plain
        if self.plain.parent.is_dir():
            for folder in sorted(self.plain.parent.iterdir()):
                mark = self.mark_of(folder)
                if mark and folder.is_dir():
                    yield mark, folder

    def mark_of(self, folder: Path) -> str | None:
        """Return what the name of a folder has more than the plain one; None for any other folder."""
        name = self.plain.name
        stem = name.removesuffix(BATCH)
        begin, end = f"{stem}{BESIDE}", name.removeprefix(stem)
        mark = folder.name.removeprefix(begin).removesuffix(end) if folder != self.plain else ""
        if folder == self.plain or (
            folder.parent == self.plain.parent
            and folder.name == f"{begin}{mark}{end}"
            and MARK.fullmatch(mark)
            and not mark.endswith(BATCH)
        ):
            return mark
        return None

    def environments(self, truth: str = "") -> dict[str, list[Facts]]:
        """Return where the results in each were measured, by the marks.

        Results on other vectors of the same name, whose mark is not `truth`, and files that cannot be read
        count for nothing: they are measured again.
        """
        found: dict[str, list[Facts]] = {}
        for mark, folder in self.there():
            every = (_attributes(path) for path in sorted(folder.iterdir()))
            found[mark] = [
                environment_of(attrs)
                for attrs in every
                if attrs is not None and truth in ("", attrs.get(TRUTH_ATTRIBUTE, truth))
            ]
        return found


def folder_for(facts: Facts, environments: Environments) -> str:
    """Return the mark of the folder for results of an environment: where its own are, else a free one."""
    taken = {mark: every for mark, every in environments.items() if every}
    for mark, every in taken.items():
        if not any(differences(each, facts) for each in every):
            return mark
    if "" not in taken:
        return ""
    return new_mark(facts, [each for every in taken.values() for each in every], taken)


def may_be_of(path: Path, facts: Facts) -> bool:
    """Whether a result may have been measured in an environment: nothing that is known contradicts it."""
    attrs = _attributes(path)
    return attrs is None or not differences(environment_of(attrs), facts)


def other_server(facts: Facts, environments: Environments) -> str:
    """Say which results are of another environment, by what differs; "" where none are."""
    others = (each for every in environments.values() for each in every if differences(each, facts))
    other = next(others, None)
    if other is None:
        return ""
    common = differences(other, facts)
    there, here = names_of([{name: every[name] for name in common} for every in (other, facts)])
    return f"there are results of {there}, and here is {here}"


def _attributes(path: Path) -> Mapping[str, Any] | None:
    """Return what a result or record says of itself; None where it is neither, or damaged."""
    try:
        status = path.stat()
    except OSError:
        return None
    return _read(path, status.st_mtime_ns, status.st_ino, os.getcwd())  # noqa: PTH109


@lru_cache(maxsize=100_000)
def _read(path: Path, *stamp: Any) -> Mapping[str, Any] | None:
    try:
        if path.name.endswith(SUFFIX):
            return read_record(path).attrs
        return read_attributes(path) if path.name.endswith(".hdf5") else None
    except UserError:
        return None


def found_before(
    series: Series, built: list[Any], dataset: str, count: int, target: float, points: Sequence[list[Any]]
) -> list[Mapping[str, Any]]:
    """Return what other curves have found for a target recall where answers depend on nothing else.

    `built` are the arguments of the index, and `points` those whose values are searched for.
    """
    names = {result_path(dataset, count, "any", built + arguments).name for arguments in points}
    found: list[Mapping[str, Any]] = []
    for path in iter_result_paths(dataset, count):
        if path.name in names and path.parent.name.startswith(series.algorithm):
            try:
                attrs = read_attributes(path)
                other = series_of(attrs, path.parent.name)
            except (UserError, OSError):
                continue
            if attrs.get("target_recall") == target and other.searched == series.searched:
                found.append({name: attrs[name] for name in _KEPT if name in attrs})
    return found


class FoundValue(NamedTuple):
    """A value that a search has found, and by how much its recall exceeds that of other queries if known."""

    value: Any
    overstated: float | None


def value_found_before(
    found: Sequence[Mapping[str, Any]], parameter: str, values: Sequence[Any], facts: Mapping[str, Any]
) -> FoundValue | None:
    """Return the one of `values` that reached the recall on the same index; None where none is known.

    Where it is slow to search, it need not be searched again for other clients or memory. `facts` identify
    the dataset and the index, by the names in SAME_INDEX.
    """
    for attrs in found:
        if attrs.get("target_parameter") == parameter and all(
            name in attrs and name in facts and attrs[name] == facts[name] for name in SAME_INDEX
        ):
            same = (value for value in values if str(value) == str(attrs.get("target_value")))
            return next((FoundValue(value, attrs.get(OVERSTATED)) for value in same), None)
    return None

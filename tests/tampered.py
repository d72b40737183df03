"""What somebody can do to each attribute and array of a bundle in memory, and whether the checker sees it."""

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.attributes import checked_attributes
from ann_benchmarks.results.file import Result, read_more, read_result
from ann_benchmarks.submission.checking.check import check_point, check_together
from ann_benchmarks.submission.checking.curves import Copies
from ann_benchmarks.submission.checking.points import (
    FOREIGN,
    HISTOGRAM,
    CheckedPoint,
    judge_point,
    open_bundle,
)  # fmt: skip
from ann_benchmarks.submission.checking.reading import sampled_totals
from ann_benchmarks.submission.checking.rules import Findings

from .tampering import PointChange, Tampering

FACTOR = 1.5
Arrays = dict[str, np.ndarray]
ARRAYS = ("times", "neighbors", "distances")


@dataclass(frozen=True)
class Raw:
    """What a result file holds: its attributes, and its arrays by their names."""

    path: Path
    attrs: dict[str, Any]
    arrays: Arrays
    sampled: dict[str, float] | None

    @classmethod
    def read(cls, path: Path) -> "Raw":
        result = read_result(path)
        arrays = {name: getattr(result, name) for name in ARRAYS}
        histogram = dict(zip(HISTOGRAM, read_more(path, *HISTOGRAM) or [], strict=False))
        return cls(path, result.attrs, arrays | histogram, sampled_totals(path))

    def with_attributes(self, **changes: Any) -> "Raw":
        """Return the same with other attributes; None deletes one."""
        attrs = {name: value for name, value in (self.attrs | changes).items() if value is not None}
        return replace(self, attrs=attrs)


@dataclass(frozen=True)
class Try:
    """A tampering with a part of a bundle, by its kind and the name of the part, and whether it was seen."""

    kind: str
    name: str
    where: str
    is_seen: bool


class HonestBundle:
    """A bundle in memory, to be tampered with."""

    def __init__(self, folder: Path) -> None:
        self.folder, findings = folder, Findings()
        opened = open_bundle(folder, findings)
        assert opened is not None and not findings.refused, findings.refused
        self.opened = opened
        self.raw = {file: Raw.read(folder / file) for file in opened.results}
        # One result of each series is tampered with.
        self.chosen = {Path(file).parent: file for file in reversed(self.raw)}.values()
        self.points = {file: self.point(file, raw) for file, raw in self.raw.items()}

    def point(self, file: str, raw: Raw) -> CheckedPoint:
        """Return a result as the checker has it; UserError where it cannot be read."""
        given = [raw.arrays.get(name, np.empty(0)) for name in (*ARRAYS, *HISTOGRAM)]
        # As an array in single precision is stored.
        times, neighbors, distances = (np.asarray(one) for one in given[:3])
        is_whole = neighbors.shape == distances.shape and (
            "clients" in raw.attrs or len(times) == len(neighbors)
        )
        if not is_whole or not 0 <= times.min() <= times.max() or neighbors.min() < -1:
            raise UserError("cannot be read")  # as read_result does
        result = Result(raw.path, checked_attributes(raw.attrs), times, neighbors, distances)
        found = judge_point(self.opened, file, result, given[3:])
        assert found is not None
        return replace(found, sampled=raw.sampled)

    @cached_property
    def others(self) -> dict[str, tuple[list[CheckedPoint], Copies]]:
        """All points but one, by its file, without their arrays, and what finds copies of them."""
        found = {}
        for file in self.points:
            copies = Copies()
            rest = [point for other, point in self.points.items() if other != file]
            for point in rest:
                list(copies.problems(point))
            found[file] = ([point.drop_arrays() for point in rest], copies)
        return found

    def findings(self, file: str, raw: Raw) -> list[str]:
        """Return what the checker says of a result in place of the one that is there."""
        findings = Findings()
        try:
            point = self.point(file, raw)
        except UserError as error:
            return [f"[readable] {error}"]
        if point.is_foreign:
            return [f"[readable] {FOREIGN}"]
        others, copies = self.others[file]
        check_point(point, findings)
        findings.refuse(file, "duplicate", *deepcopy(copies).problems(point))
        points = [*others, point.drop_arrays()]
        check_together(points, self.opened.manifest.target_recall, findings)
        return [str(finding) for finding in findings.refused]

    def sees(self, tampering: Tampering) -> bool:
        """Whether the rule of a tampering refuses it, in memory."""
        assert isinstance(tampering.change, PointChange)
        file = tampering.change.where(self.folder).relative_to(self.folder).as_posix()
        lines = self.findings(file, tampering.change.of(self.raw[file]))
        return any(f"[{tampering.rule}]" in line and tampering.words in line for line in lines)

    def tried(self, kind: str, name: str, file: str, raw: Raw) -> Try:
        return Try(kind, name, file, bool(self.findings(file, raw)))

    def attribute_tries(self) -> Iterator[Try]:
        """Yield each attribute of a result, tampered with in each way that it can be."""
        for file in self.chosen:
            raw = self.raw[file]
            for name, value in sorted(raw.attrs.items()):
                for kind, new in changed_values(value):
                    yield self.tried(f"attribute {kind}", name, file, raw.with_attributes(**{name: new}))
                others = (other.attrs.get(name) for key, other in self.raw.items() if key != file)
                if (taken := next((one for one in others if one not in (None, value)), None)) is not None:
                    new_raw = raw.with_attributes(**{name: taken})
                    yield self.tried("attribute of another point", name, file, new_raw)

    def surplus_tries(self) -> Iterator[Try]:
        """Yield each result with an attribute that another one has and it has not."""
        every = {name: value for raw in self.raw.values() for name, value in raw.attrs.items()}
        for file in self.chosen:
            raw = self.raw[file]
            for name, value in sorted(every.items()):
                if name not in raw.attrs:
                    yield self.tried("attribute added", name, file, raw.with_attributes(**{name: value}))

    def array_tries(self) -> Iterator[Try]:
        """Yield each array of each result, tampered with."""
        for file in self.chosen:
            raw = self.raw[file]
            for name, values in raw.arrays.items():
                others = (other.arrays.get(name) for key, other in self.raw.items() if key != file)
                taken = next((one for one in others if one is not None and one.shape == values.shape
                              and not np.array_equal(one, values)), None)  # fmt: skip
                ways: dict[str, Any] = {
                    "removed": None,
                    f"times {FACTOR}": (values * FACTOR).astype(values.dtype),
                    f"over {FACTOR}": (values / FACTOR).astype(values.dtype),
                    "reversed": values[::-1],
                    "cut": values[: len(values) // 2],
                    "of another point": taken,
                }
                for kind, new in ways.items():
                    if new is not None and not np.array_equal(new, values):
                        changed = replace(raw, arrays=raw.arrays | {name: new})
                        yield self.tried(f"array {kind}", name, file, changed)
                    elif kind == "removed" and name in HISTOGRAM:
                        rest = {key: array for key, array in raw.arrays.items() if key not in HISTOGRAM}
                        yield self.tried("array removed", name, file, replace(raw, arrays=rest))


def changed_values(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an attribute can be changed to, by kind; None: it is removed."""
    yield "removed", None
    yield "emptied", [] if isinstance(value, list) else ""
    numbers = value if isinstance(value, list) else [value]
    if isinstance(value, bool):
        yield "inverted", not value
        yield "of another type", "perhaps"
    elif all(isinstance(one, int | float) for one in numbers):
        yield "of another type", "much"
        if any(numbers):
            for kind, factor in ((f"times {FACTOR}", FACTOR), (f"over {FACTOR}", 1 / FACTOR)):
                scaled = [one * factor for one in numbers]
                yield kind, scaled if isinstance(value, list) else scaled[0]
    else:
        yield "of another type", 7.5
        yield "altered", f"{value} x"


def main() -> None:
    """Print how many tamperings with attributes and arrays were tried and seen, by kind."""
    from .bundle_data import measured
    from .load_bundles import measured_loads

    tried, seen = Counter[str](), Counter[str]()
    for folder in (measured(), measured_loads()):
        bundle = HonestBundle(folder / "bundle")
        for one in (*bundle.attribute_tries(), *bundle.surplus_tries(), *bundle.array_tries()):
            tried[one.kind] += 1
            seen[one.kind] += one.is_seen
    for kind, number in tried.items():
        print(f"{kind}: {seen[kind]:,} of {number:,}")


if __name__ == "__main__":
    main()

"""What somebody can do to each attribute, array and file of a bundle, with the manifest made again.

`python -m tests.tampered [BUNDLE...]` counts how much of it the checker sees, by default in the bundles of
the tests, by kind of change; docs/rules.md has the sums.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property, partial
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.attributes import checked_attributes
from ann_benchmarks.results.file import Result, read_more, read_result
from ann_benchmarks.submission.checking.check import check_bundle, check_point
from ann_benchmarks.submission.checking.claims import check_claims
from ann_benchmarks.submission.checking.curves import TOGETHER
from ann_benchmarks.submission.checking.duplicates import Copies
from ann_benchmarks.submission.checking.points import (
    FOREIGN,
    HISTOGRAM,
    CheckedPoint,
    UnjudgedError,
    judge_point,
    open_bundle,
)  # fmt: skip
from ann_benchmarks.submission.checking.reading import sampled_totals
from ann_benchmarks.submission.checking.rules import Findings
from ann_benchmarks.submission.files import files_in
from ann_benchmarks.submission.manifest import MANIFEST

from .bundle_data import remake
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
    text: str = ""


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
        """Return a result as the checker has it; UserError or UnjudgedError where it cannot be read."""
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
        except (UserError, UnjudgedError) as error:
            return [f"[readable] {error}"]
        if point.is_foreign:
            return [f"[readable] {FOREIGN}"]
        others, copies = self.others[file]
        claims = self.opened.manifest.claims
        check_point(point, file in {claim.file for claim in claims}, findings)
        findings.refuse(file, "duplicate", *deepcopy(copies).problems(point))
        points = [*others, point.drop_arrays()]
        for rule, problems in TOGETHER:
            for where, problem in problems(points):
                findings.refuse(where, rule, problem)
        check_claims(replace(self.opened, findings=findings), {one.file: one for one in points})
        return [str(finding) for finding in findings.refused]

    def sees(self, tampering: Tampering) -> bool:
        """Whether the rule of a tampering refuses it, in memory."""
        assert isinstance(tampering.change, PointChange)
        file = tampering.change.where(self.folder).relative_to(self.folder).as_posix()
        lines = self.findings(file, tampering.change.of(self.raw[file]))
        return any(f"[{tampering.rule}]" in line and tampering.words in line for line in lines)

    def tried(self, kind: str, name: str, file: str, raw: Raw) -> Try:
        said = self.findings(file, raw)
        return Try(kind, name, file, bool(said), said[0] if said else "")

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

    def file_tries(self) -> Iterator[Try]:
        """Yield each file that is no result, tampered with, as the whole checker sees it."""
        files = [name for name in files_in(self.folder) if not name.endswith("_")]
        seen: set[str] = set()
        for name in files:
            has_many = name.startswith(("logs/", "results/")) or name.endswith(".png")
            key = name[-4:] if has_many else name
            if name == MANIFEST or key in seen:
                continue
            seen.add(key)
            alike = [one for one in files if Path(one).suffix == Path(name).suffix and one != name]
            ways: dict[str, Callable[[Path], Any]] = {
                "removed": lambda path: path.unlink(),
                "emptied": lambda path: path.write_bytes(b""),
                "of NUL": lambda path: path.write_bytes(bytes(200)),
                "of a list": lambda path: path.write_text("[]"),
                "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
            }
            if alike:
                content = (self.folder / alike[0]).read_bytes()
                ways["another's"] = partial(Path.write_bytes, data=content)
            for kind, change in ways.items():
                with TemporaryDirectory() as place:
                    folder = Path(copytree(self.folder, Path(place, "bundle")))
                    change(folder / name)
                    remake(folder)
                    said = check_bundle(folder, datetime.now(timezone.utc)).findings.refused
                    yield Try(f"file {kind}", key, name, bool(said), str(said[0]) if said else "")

    def tries(self) -> Iterator[Try]:
        """Yield all of them."""
        yield from self.attribute_tries()
        yield from self.surplus_tries()
        yield from self.array_tries()
        yield from self.file_tries()


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


def table(tries: Iterable[Try]) -> str:
    """Return how many tries of each kind there were, and how many were seen, as rows in Markdown."""
    counts: dict[str, Counter[bool]] = {}
    for one in tries:
        counts.setdefault(one.kind, Counter())[one.is_seen] += 1
    rows = [f"| {kind} | {seen.total():,} | {seen[True]:,} |" for kind, seen in counts.items()]
    return "\n".join(["| what is done | tries | seen |", "| --- | ---: | ---: |", *rows])


def main() -> None:
    from .bundle_data import measured
    from .load_bundles import measured_loads

    folders = [Path(word) for word in sys.argv[1:] if word != "-v"]
    tries = [
        one
        for folder in folders or [measured() / "bundle", measured_loads() / "bundle"]
        for one in HonestBundle(folder).tries()
    ]
    print(table(tries))
    unseen: dict[str, set[str]] = {}
    for one in tries:
        if not one.is_seen:
            unseen.setdefault(one.name, set()).add(one.kind)
    if "-v" in sys.argv:
        print(json.dumps({name: sorted(kinds) for name, kinds in sorted(unseen.items())}, indent=1))


if __name__ == "__main__":
    main()

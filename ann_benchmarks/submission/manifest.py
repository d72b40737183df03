"""What a bundle says of itself: manifest.json, with the size and the SHA-256 of each of its other files.

Whoever reads a bundle may have it from a stranger. What is read here is of the kinds that it should be, no
path in it leads out of the folder, and no link is followed; whether it is true is for the checker.
"""

import json
import os
import re
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, field, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from ann_benchmarks.common.errors import UserError, closest, shown
from ann_benchmarks.common.files import atomic_path, disk_errors
from ann_benchmarks.common.names import LONGEST_FOLDER, name_problem
from ann_benchmarks.common.text import LONGEST_VALUE
from ann_benchmarks.results.attributes import made_of

from .files import checked_path, read_json

MANIFEST = "manifest.json"
FORMAT = 1
PUBLISHED, OPEN = "published", "open"
DIVISIONS = (PUBLISHED, OPEN)
MOST_FILES = 100_000
Entry = TypeVar("Entry")


@dataclass(frozen=True)
class BundledFile:
    """A file of the bundle: the SHA-256 of its content as 64 hexadecimal digits, and its size."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class BundledDataset:
    """A dataset that results are of, which the bundle does not hold.

    `fingerprint` is `truth_mark` of all its true distances; `filters` are the names of the filter sets that
    queries were measured under.
    """

    rows: int
    dimension: int
    metric: str
    queries: int
    fingerprint: str
    filters: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ClaimedPoint:
    """The figures of one result file: of a series, the fastest point that reaches the target recall.

    `series` is the label of the curve, `count` is k. `qps` is in queries per second with its 95% interval,
    `p99` in ms; None where they are not known.
    """

    dataset: str
    series: str
    count: int
    batch: bool
    clients: int
    recall: float
    qps: float
    file: str
    qps_low: float | None = None
    qps_high: float | None = None
    p99: float | None = None
    filter: str = ""
    tier: str = ""


@dataclass(frozen=True)
class Manifest:
    """All that manifest.json says. `made` is an ISO date and time of UTC; "" stands for what is not known.

    `commit` is that of the project's checkout, followed by "-changed" where files of it were changed.
    `files` are those of the bundle by their paths, with "/" between the folders, but for the manifest.
    """

    title: str
    made: str
    division: str  # one of DIVISIONS
    target_recall: float
    experiment: str | None = None
    mini: bool = False
    contact: str = ""
    commit: str = ""
    project_version: str = ""
    datasets: dict[str, BundledDataset] = field(default_factory=dict)
    claims: list[ClaimedPoint] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    files: dict[str, BundledFile] = field(default_factory=dict)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a bundle; UserError where it is missing or invalid."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: name that of a bundle")
    if not os.path.lexists(path):
        raise UserError(f"{folder} is not a bundle: it has no {MANIFEST}")
    try:
        return _manifest(read_json(path, is_strict=True))
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a bundle, whole or not at all; UserError for one that could not be read back."""
    content = {"format": FORMAT, **asdict(manifest)}
    _manifest(content)
    text = json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    with disk_errors(folder / MANIFEST), atomic_path(folder / MANIFEST) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def _describe_range(least: float, most: float) -> tuple[str, Callable[[Any], Any]]:
    return f"from {least:g} to {most:g}", lambda value: least <= value <= most


# By the names of fields: what a value must be, in words, and whether it is.
_MUST_BE: dict[str, tuple[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("rows", "dimension", "queries"), _describe_range(1, 2**63)),
    **dict.fromkeys(("count", "clients"), _describe_range(1, 2**31)),
    **dict.fromkeys(("recall", "target_recall"), _describe_range(0, 1)),
    **dict.fromkeys(("qps", "qps_low", "qps_high", "p99"), _describe_range(0, 1e100)),
    "bytes": _describe_range(0, 2**63),
    "sha256": ("64 hexadecimal digits", re.compile(r"[0-9a-f]{64}").fullmatch),
    "fingerprint": ("16 hexadecimal digits", re.compile(r"[0-9a-f]{16}").fullmatch),
    "commit": ("a commit of git", re.compile(r"([0-9a-f]{40}([0-9a-f]{24})?(-changed)?)?").fullmatch),
    "title": ("a title", len),
}
_NAMES = ("experiment", "dataset", "filters")  # they name files or folders
_PARTS = {"datasets": BundledDataset, "files": BundledFile}


def _manifest(content: Any) -> Manifest:
    """Make a manifest of what JSON holds; UserError for anything that is not of its kind."""
    if not isinstance(content, dict) or "format" not in content:
        raise UserError("it is not a manifest: it has no 'format'")
    found = dict(content)
    number = found.pop("format")
    if type(number) is not int or number != FORMAT:
        raise UserError(
            f"its format is {shown(number)}, and this release reads {FORMAT}: use a newer release"
        )
    for name, kind in _PARTS.items():
        parts = found.get(name, {})
        if not isinstance(parts, dict):
            raise UserError(f"its '{name}' is {shown(repr(parts))}, and no object")
        found[name] = {key: _part(f"{name}: '{shown(key)}'", kind, one, key) for key, one in parts.items()}
    claims = found.get("claims", [])
    if not isinstance(claims, list):
        raise UserError(f"its 'claims' is {shown(repr(claims))}, and no list")
    found["claims"] = [_part(f"claim {i}", ClaimedPoint, one) for i, one in enumerate(claims, 1)]
    if len(found["files"]) > MOST_FILES:
        raise UserError(f"it lists {len(found['files']):,} files; the most that are read is {MOST_FILES:,}")
    manifest = _made(Manifest, found)
    if manifest.division not in DIVISIONS:
        raise UserError(
            f"its division is '{shown(manifest.division)}': {closest(manifest.division, DIVISIONS)}"
        )
    try:
        is_utc = datetime.fromisoformat(manifest.made).utcoffset() == timedelta(0)
    except ValueError:
        is_utc = False
    if not is_utc:
        raise UserError(
            f"its 'made' is '{shown(manifest.made)}', and no time of UTC such as 2026-01-31T12:00:00+00:00"
        )
    return manifest


def _part(where: str, kind: type[Entry], content: Any, key: str = "") -> Entry:
    """Make a part of it, which may have a key; UserError names the part."""
    try:
        if kind is BundledFile and checked_path(key) == MANIFEST:
            raise UserError("the manifest cannot list itself")
        if kind is BundledDataset:
            _check_name("name", key)
        return _made(kind, content)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _made(kind: type[Entry], content: Any) -> Entry:
    """Make a dataclass of an object of JSON; UserError if a field is missing, unknown or of another kind."""
    if not isinstance(content, dict):
        raise UserError(f"it is {shown(repr(content))}, and no object")
    known = fields(kind)  # type: ignore[arg-type]
    if unknown := sorted(set(content) - {one.name for one in known}):
        raise UserError(f"it has '{shown(unknown[0])}', which is not known here")
    for one in known:
        if one.default is MISSING and one.default_factory is MISSING and one.name not in content:
            raise UserError(f"it has no '{one.name}'")
    try:
        made = made_of(kind, content)
    except TypeError as error:
        raise UserError(str(error)) from None
    for name, value in content.items():
        if isinstance(value, str) or name in ("filters", "left_out"):
            for text in [value] if isinstance(value, str) else value:
                _check_text(name, text)
                if name in _NAMES:
                    _check_name(name, text)
        if name == "file":
            checked_path(value)
        words, is_so = _MUST_BE.get(name, ("", None))
        if is_so is not None and value is not None and not is_so(value):
            raise UserError(f"its '{name}' must be {words}, not {shown(repr(value))}")
    return made


def _check_text(name: str, text: Any) -> None:
    if not isinstance(text, str) or len(text) > LONGEST_VALUE or not text.isprintable():
        raise UserError(
            f"its '{name}' has {shown(repr(text))}, which is not a printable line of up to {LONGEST_VALUE}"
        )


def _check_name(name: str, value: str) -> None:
    if problem := name_problem(value, LONGEST_FOLDER):
        raise UserError(f"its '{name}' is '{shown(value)}', which {problem}")

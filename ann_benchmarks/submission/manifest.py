"""What a bundle says of itself: manifest.json, with the size and the SHA-256 of each of its other files.

Whoever reads a bundle may have it from a stranger. What is read here is of the kinds that it should be, no
path in it leads out of the folder, and no link is followed; whether it is true is for the checker.
"""

import json
import os
import re
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.files import atomic_path, disk_errors
from ann_benchmarks.common.names import LONGEST_FOLDER, name_problem
from ann_benchmarks.common.text import reason_of
from ann_benchmarks.results.attributes import made_of

from .files import is_path, read_text

MANIFEST = "manifest.json"
FORMAT = 1
PUBLISHED, OPEN = "published", "open"
DIVISIONS = (PUBLISHED, OPEN)
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
class Manifest:
    """All that manifest.json says. `made` is an ISO date and time of UTC; "" stands for what is not known.

    `files` are those of the bundle by their paths, with "/" between the folders, but for the manifest.
    """

    title: str
    made: str
    division: str  # one of DIVISIONS
    target_recall: float
    experiment: str | None = None
    mini: bool = False
    contact: str = ""
    project_version: str = ""
    datasets: dict[str, BundledDataset] = field(default_factory=dict)
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
        return _manifest(json.loads(read_text(path)))
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not JSON: {reason_of(error)}") from None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a bundle, whole or not at all; UserError for one that could not be read back."""
    content = {"format": FORMAT, **asdict(manifest)}
    _manifest(content)
    text = json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    with disk_errors(folder / MANIFEST), atomic_path(folder / MANIFEST) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def _is_name(text: str) -> bool:
    """Whether it can name a file or folder."""
    return name_problem(text, LONGEST_FOLDER) is None


def _within(least: float, most: float) -> tuple[str, Callable[[Any], Any]]:
    return f"from {least:g} to {most:g}", lambda value: least <= value <= most


# By the names of fields: what a value must be, in words, and whether it is.
_MUST_BE: dict[str, tuple[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("rows", "dimension", "queries"), _within(1, 2**63)),
    "target_recall": _within(0, 1),
    "experiment": ("the name of a file", _is_name),
    "filters": ("names of files", lambda names: all(isinstance(one, str) and _is_name(one) for one in names)),
    "left_out": ("texts", lambda texts: all(isinstance(one, str) and one.isprintable() for one in texts)),
    "bytes": _within(0, 2**63),
    "sha256": ("64 hexadecimal digits", re.compile(r"[0-9a-f]{64}").fullmatch),
    "fingerprint": ("16 hexadecimal digits", re.compile(r"[0-9a-f]{16}").fullmatch),
    "title": ("a title", len),
    "division": (" or ".join(DIVISIONS), DIVISIONS.__contains__),
    "made": (
        "a time of UTC such as 2026-01-31T12:00:00+00:00",
        re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00").fullmatch,
    ),
}
_PARTS = {"datasets": BundledDataset, "files": BundledFile}
_OF_EARLIER = ("claims", "commit")  # versions


def _manifest(content: Any) -> Manifest:
    """Make a manifest of what JSON holds; UserError for anything that is not of its kind."""
    if not isinstance(content, dict) or "format" not in content:
        raise UserError("it is not a manifest: it has no 'format'")
    if type(content["format"]) is not int or content["format"] != FORMAT:
        what = f"its format is {shown(content['format'])}, and this release reads {FORMAT}"
        raise UserError(f"{what}: use a newer release")
    found = {name: value for name, value in content.items() if name not in ("format", *_OF_EARLIER)}
    for name, kind in _PARTS.items():
        parts = found.get(name, {})
        if not isinstance(parts, dict):
            raise UserError(f"its '{name}' is {shown(repr(parts))}, which is of another kind")
        found[name] = {key: _made(kind, one, f"{name}: '{shown(key)}': ", key) for key, one in parts.items()}
    return _made(Manifest, found)


def _made(kind: type[Entry], content: Any, where: str = "", key: str | None = None) -> Entry:
    """Make a dataclass of an object of JSON, which may have a key; UserError names `where` it is wrong."""
    if key is not None and (not is_path(key) or (kind is BundledDataset and "/" in key)):
        raise UserError(f"{where}it must be the path of a file in this folder")
    if not isinstance(content, dict):
        raise UserError(f"{where}it is {shown(repr(content))}, and no object")
    for one in fields(kind):  # type: ignore[arg-type]
        if one.default is MISSING and one.default_factory is MISSING and one.name not in content:
            raise UserError(f"{where}it has no '{one.name}'")
    try:
        made = made_of(kind, content)
    except TypeError as error:
        raise UserError(f"{where}{error}") from None
    for name, value in content.items():
        words, is_so = _MUST_BE.get(name, ("", lambda value: True))
        if isinstance(value, str) and not value.isprintable():
            words, is_so = "a printable line", lambda value: False
        if value is not None and not is_so(value):
            raise UserError(f"{where}its '{name}' must be {words}, not {shown(repr(value))}")
    return made

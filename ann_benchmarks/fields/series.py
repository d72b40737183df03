"""A series: the points that make one curve, as a value with fields that is stored with each of them."""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.names import LONGEST_FOLDER, too_long
from ann_benchmarks.common.text import clean_text, from_json, is_number, shortened

from .rows import CONDITIONS, FIELDS, GROUPS, NAME, SPECIAL, Field, chosen_fields

ATTRIBUTE = "series"  # of a result file: the fields that are not the default, as JSON
EXTENSIONS = ("vector", "vchord")  # a tag may name their releases on a machine without containers
WRITES = ("insert", "update", "delete")
BATCH = "-batch"  # at the end of the name of a folder, as in ann-benchmarks
BESIDE = "@"  # in the name of a folder, before what tells its environment from that of the plain folder
_ORDER = {group: place for place, group in enumerate(GROUPS)}


class Series:
    """How the points of a curve were measured, apart from their build and query arguments.

    It has a value for each of FIELDS. The label is made from them and names a folder below results/. It is
    never read back, except of files that have no attribute `series`: those of ann-benchmarks, and those of
    this project's first releases.
    """

    def __init__(self, algorithm: str, version: str = "", **others: Any) -> None:
        """Take the values that are not the default; TypeError for an unknown field."""
        given = {"algorithm": algorithm, "version": version, **others}
        if unknown := given.keys() - FIELDS.keys():
            raise TypeError(f"a series has no {', '.join(sorted(unknown))}")
        known = {name: given[name] for name in FIELDS if name in given}
        vars(self).update({name: value for name, value in known.items() if value != FIELDS[name].default})

    def __getattr__(self, name: str) -> Any:
        if name not in FIELDS:
            raise AttributeError(name)
        return FIELDS[name].default

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Series) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).items()))

    def __repr__(self) -> str:
        return f"Series({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    @property
    def values(self) -> dict[str, Any]:
        """The value of every field."""
        return {name: getattr(self, name) for name in FIELDS}

    @property
    def special_fields(self) -> list[Field]:
        """The fields that are not the default, in the order of a label."""
        return sorted((FIELDS[name] for name in vars(self)), key=lambda field: _ORDER[field.group])

    def replaced(self, **changed: Any) -> "Series":
        """Return the same with other values."""
        return Series(**{"algorithm": "", **vars(self), **changed})

    def drop(self, *names: str) -> "Series":
        """Return the same with the default of these fields, or of those of these groups."""
        return self.replaced(**{field.name: field.default for field in chosen_fields(*names)})

    def only(self, *names: str) -> "Series":
        """Return one with these fields, or those of these groups, alone."""
        return Series("").replaced(**{one.name: getattr(self, one.name) for one in chosen_fields(*names)})

    def is_plain_but_for(self, *names: str) -> bool:
        """Whether all fields but these, or those of these groups, are the default."""
        return not vars(self.drop(*names))

    def parts(self, *groups: str) -> list[str]:
        """Return what labels say of groups of fields."""
        return [part for group, part in _labelled(self) if group in groups]

    def words(self, *names: str) -> list[str]:
        """Return the same of fields or groups as the parts of a sentence."""
        chosen = {*chosen_fields(*names)}
        found = (field.write(field.words, self) for field in self.special_fields if field in chosen)
        return [part for part in found if part]

    @property
    def name(self) -> str:
        """The algorithm with its version, servers and settings, and how its answers were filtered."""
        return "-".join(self.parts(*NAME))

    @property
    def has_several_servers(self) -> bool:
        """Whether shards or replicas answered: each has the memory of a tier."""
        return bool(self.shards or self.replicas)

    @property
    def family(self) -> str:
        """The name with what tells its server from others: what a comparison is between."""
        return self.name + self._server_note

    @property
    def _server_note(self) -> str:
        return f" ({self.environment})" if self.environment else ""

    @property
    def is_open(self) -> bool:
        """Whether queries came at a rate, so that the throughput says nothing about the index."""
        return self.rate is not None or bool(self.objective)

    @property
    def special(self) -> str:
        """The part of the label that neither clients nor tier explain, such as q64 or slo-p99-50ms-cold."""
        return "-".join(self.parts(*SPECIAL))

    @property
    def conditions(self) -> str:
        """The part of the label beside the family, "" where nothing is special: what a comparison shares."""
        return "".join(f"-{part}" for part in self.parts(*CONDITIONS))

    @property
    def label(self) -> str:
        """The name of the curve."""
        return self.name + self.conditions + self._server_note

    @property
    def folder(self) -> str:
        """The name of the folder of its result files, as in ann-benchmarks."""
        where = f"{BESIDE}{self.environment}" if self.environment else ""
        return self.name + self.conditions + where + (BATCH if self.batch else "")

    @property
    def searched(self) -> "Series":
        """The fields that answers depend on: where they are alike, arguments found for a recall hold."""
        return self.only(*(field.name for field in FIELDS.values() if field.changes_answers))

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of a result that say the same as its fields that are not the default."""
        return {
            field.attribute: getattr(self, field.name) for field in self.special_fields if field.attribute
        }

    def dump_json(self) -> str:
        """Write the fields that are not the default."""
        return json.dumps({"algorithm": self.algorithm, **vars(self)})


@lru_cache(maxsize=4096)
def _labelled(series: Series) -> list[tuple[str, str]]:
    """Return the parts of a label in order, with the group of each: thousands of points are of one series."""
    found = ((field.group, field.write(field.label, series)) for field in series.special_fields)
    return [(group, part) for group, part in found if part]


def series_from(stored: Mapping[str, Any]) -> Series:
    """Return the series of fields as JSON holds them, ignoring unknown ones; TypeError for a wrong value."""
    known = {name: value for name, value in stored.items() if name in FIELDS}
    for name, value in known.items():
        if value != FIELDS[name].default and not FIELDS[name].takes(value):
            raise TypeError(f"its '{name}' is {shortened(repr(value))}")
    return Series(**known)


def series_of(attrs: Mapping[str, Any], folder: str) -> Series:
    """Return the series of a result or workload by its attributes, else by the name of its folder.

    Unknown fields, of a newer release, are ignored. A file without the field `series` that names its curve
    by `algo` is read as this project's first releases wrote it; where that does not explain the whole name,
    as of any file of ann-benchmarks, all of the name is the algorithm. UserError for a name that no folder
    can have.
    """
    series = stored_series(attrs) or _labelled_series(attrs, folder)
    if problem := too_long(series.folder, LONGEST_FOLDER):
        raise UserError(f"the name of its series {problem}: it names a folder")
    return series


def stored_series(attrs: Mapping[str, Any]) -> Series | None:
    """Return the series by its field of the attributes, None if it is missing or unreadable."""
    with suppress(KeyError, TypeError, ValueError, AttributeError):
        return series_from(from_json(attrs[ATTRIBUTE], dict[str, Any]()))
    return None


def _labelled_series(attrs: Mapping[str, Any], folder: str) -> Series:
    """Explain the label of a file without the attribute `series` by others that were stored next to it."""
    is_batch = bool(attrs.get("batch_mode", False))
    label = clean_text(attrs.get("algo", folder.removesuffix(BATCH) if is_batch else folder))
    known = _known_conditions(attrs)
    candidates = [known.replaced(is_cold=True), known] if attrs.get("warmup") == "off" else [known]
    if known.workload:  # the share of rows that was requested is stored in the label alone
        requested = re.findall(r"-l(\d[\d.e-]*\d|\d)", label)
        candidates += [known.replaced(loaded=_number(share)) for share in requested]
    fitting = (
        candidate.replaced(algorithm=algorithm)
        for candidate in candidates
        if (algorithm := label.removesuffix(candidate.conditions)) not in ("", label)
    )
    return _separate_version(next(fitting, Series(label)), attrs).replaced(batch=is_batch)


def _known_conditions(attrs: Mapping[str, Any]) -> Series:
    """Return the fields that the label of an early file may name, by its other attributes."""
    read: dict[type, Callable[[Any], Any]] = {str: str, int: _whole, float: _number, bool: bool}
    found = {
        field.name: read[field.kind](attrs[field.attribute])
        for field in chosen_fields("workload", "clients", "load", "writes", "tier")
        if field.attribute in attrs
    }
    shares = [_number(attrs.get(f"{kind}_share")) for kind in WRITES]
    found["write_mix"] = "-".join(f"{100 * share:.4g}" for share in shares if share is not None)
    found["tier_memory"] = str(attrs.get("tier_memory_series", "")).removeprefix("-")
    unknown = ["rate"] if found.get("workload") or found.get("objective") else []
    unknown += [] if found.get("workload") else ["autovacuum"]
    unknown += [] if attrs.get("tier") else ["tier_method"]
    return Series("", **found).drop(*unknown)


def _separate_version(series: Series, attrs: Mapping[str, Any]) -> Series:
    """Separate a tag at the end of the name from it, by the image or the release that was used."""
    image = str(attrs.get("docker_image", "")).rpartition(":")[2]
    for tag in (image, *(str(attrs.get(f"{extension}_version", "")) for extension in EXTENSIONS)):
        algorithm = series.algorithm.removesuffix(f"-{tag}")
        if tag and algorithm not in ("", series.algorithm):
            return series.replaced(algorithm=algorithm, version=tag)
    return series


def _number(value: Any) -> float | None:
    with suppress(TypeError, ValueError, OverflowError):
        return float(value) if is_number(float(value)) else None
    return None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)

"""Pictures and tables by the name of their kind, with the options that a chapter gives them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.plotting.published import PublishedPoints
from ann_benchmarks.plotting.styles import Style
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import Run

from .document import Block, Paragraph


@dataclass(frozen=True)
class Shown:
    """What a picture or a table is made of. Pictures are files of `folder` whose names begin with `stem`."""

    runs: Sequence[Run]
    records: Sequence[Record]
    target: float  # recall
    title: str = ""
    folder: Path = Path()
    stem: str = ""
    styles: Mapping[str, Style] = field(default_factory=dict)


Kind = Callable[..., list[Block]]  # (Shown, options by name)
SUFFIX = ".png"
MOST_ROWS = 30  # bars or lines in a picture
ANYWHERE = ("kind", "algorithms", "of", "recall", "title")


def make(kinds: Mapping[str, Kind], what: str, wanted: Mapping[str, Any], shown: Shown) -> list[Block]:
    """Make one of these kinds (`what`: picture or table); what cannot be made is said in its place.

    Options of every kind: `algorithms`, names or beginnings of curves; `of`, attributes with the value or
    values that results must have; `recall`, the target; `title`. UserError names a kind or option that is
    not known.
    """
    name = str(wanted.get("kind"))
    if name not in kinds:
        raise UserError(f"there is no {what} of kind '{name}': there are {', '.join(kinds)}")
    own = [option for option in inspect.signature(kinds[name]).parameters if option != "shown"]
    options = {key: value for key, value in wanted.items() if key not in ANYWHERE}
    if unknown := sorted(set(options) - set(own)):
        known = ", ".join([*own, *ANYWHERE[1:]])
        raise UserError(f"the {what} '{name}' has no option '{unknown[0]}': it has {known}")
    shown = replace(
        chosen(shown, wanted.get("algorithms"), wanted.get("of") or {}),
        target=float(wanted.get("recall", shown.target)),
        title=str(wanted.get("title", shown.title)),
    )
    try:
        return kinds[name](shown, **options)
    except UserError as error:
        return [Paragraph(f"No {what} of {name}: {error}.", is_note=True)]


def file_of(shown: Shown, kind: str, number: int = 0) -> Path:
    """Return where a picture is to be."""
    return shown.folder / f"{shown.stem}{kind}{f'-{number + 1}' if number else ''}{SUFFIX}"


def origins(others: PublishedPoints | None) -> list[Block]:
    """Say where published figures come from."""
    return origin_note(others.origin) if others else []


def origin_note(origin: str) -> list[Block]:
    """Return the note below a picture that shows published figures."""
    return [Paragraph(f"In grey, of another machine: {origin}", is_note=True)] if origin else []


def chosen(shown: Shown, algorithms: Any, of: Mapping[str, Any]) -> Shown:
    """Leave only the results and records of some algorithms, with some attributes."""
    names = [algorithms] if isinstance(algorithms, str) else algorithms
    wanted = {key: value if isinstance(value, list) else [value] for key, value in of.items()}

    def fits(curve: str, attrs: Mapping[str, Any]) -> bool:
        named = names is None or any(is_named(curve, str(name)) for name in names)
        return named and all(attrs.get(key) in values for key, values in wanted.items())

    return replace(
        shown,
        runs=[run for run in shown.runs if fits(run.algorithm, run.attrs)],
        records=[record for record in shown.records if fits(record.algo, record.attrs | facts_of(record))],
    )


def facts_of(record: Record) -> dict[str, Any]:
    """Return what is asked of records as of attributes."""
    return {"workload": record.workload, "clients": record.clients, "writers": record.writers}


def is_named(curve: str, name: str) -> bool:
    """Whether a curve has this name, or it with what clients and tiers add."""
    return curve == name or curve.startswith(f"{name}-")


def without_results(what: str) -> UserError:
    """Say that there is nothing to show."""
    return UserError(f"no result {what}")

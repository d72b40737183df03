"""What a report is made of: chapters, with pictures and tables by the names of their kinds."""

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.yaml_file import is_number
from ann_benchmarks.plotting.styles import Style
from ann_benchmarks.pricing.costs import CostRequest
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import LeftOut, Run
from ann_benchmarks.views.parts import Part

from .document import Block, Paragraph

MOST_ROWS = 30  # bars or lines in a picture
# The options of every kind, each with a value of its own kind.
ANYWHERE: Mapping[str, Any] = {"kind": "", "algorithms": [], "of": None, "recall": 0.0, "title": ""}


@dataclass(frozen=True)
class Chapter:
    """Results that are shown together. Pictures and tables are requested by name, with their options."""

    title: str
    text: str = ""  # Markdown
    command: str = ""  # that makes the results
    runs: Sequence[Run] = ()
    records: Sequence[Record] = ()
    missing: Sequence[str] = ()  # what should have been measured and is not there, a line each
    pictures: Sequence[dict[str, Any]] = ()  # {"kind": "frontier", ...}
    tables: Sequence[dict[str, Any]] = ()  # {"kind": "points", ...}


@dataclass(frozen=True)
class Finding:
    """What somebody has published, next to what was measured here."""

    says: str
    published: str
    measured: str  # empty where there is nothing
    verdict: str  # reproduced, not reproduced, not testable here or not measured
    why: str = ""


@dataclass(frozen=True)
class Report:
    """A whole report."""

    title: str
    text: str  # Markdown
    command: str  # that makes it all
    chapters: Sequence[Chapter]
    findings: Sequence[Finding] = ()
    source: str = ""  # where the findings were published
    left_out: LeftOut = field(default_factory=dict)
    costs: CostRequest | None = None  # what to price servers with, None: nothing

    @property
    def runs(self) -> list[Run]:
        """The results of all chapters, each once."""
        return list({identity(run): run for chapter in self.chapters for run in chapter.runs}.values())

    @property
    def records(self) -> list[Record]:
        """The records of all chapters, each once."""
        return list({identity(rec): rec for chapter in self.chapters for rec in chapter.records}.values())


def identity(outcome: Run | Record) -> Hashable:
    """Return what distinguishes results, even if two chapters have read them from the same file."""
    if isinstance(outcome, Record):
        return outcome.dataset, outcome.count, outcome.algo, outcome.name, str(outcome.path)
    run, built = outcome, str(outcome.attrs.get("build_arguments"))
    figures = tuple(str(run.metrics[name]) for name in ("recall", "qps", "p99"))  # nan is not equal to itself
    return run.dataset, run.count, run.batch, run.algorithm, run.parameters, built, figures


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

    def file(self, kind: str, number: int = 0) -> Path:
        """Return the path of a picture, the first of its kind or a later one."""
        return self.folder / f"{self.stem}{kind}{f'-{number + 1}' if number else ''}.png"

    def only(self, algorithms: Any, of: Mapping[str, Any]) -> "Shown":
        """Keep the results and records of some algorithms, with some attributes."""
        names = [algorithms] if isinstance(algorithms, str) else algorithms
        allowed = {key: value if isinstance(value, list) else [value] for key, value in of.items()}

        def fits(curve: str, attrs: Mapping[str, Any]) -> bool:
            named = names is None or any(is_named(curve, str(name)) for name in names)
            return named and all(attrs.get(key) in values for key, values in allowed.items())

        def attributes(record: Record) -> dict[str, Any]:
            names = ("workload", "clients", "writers")
            return {**record.attrs, **{name: getattr(record, name) for name in names}}

        return replace(
            self,
            runs=[run for run in self.runs if fits(run.algorithm, run.attrs)],
            records=[record for record in self.records if fits(record.algo, attributes(record))],
        )


def is_named(curve: str, name: str) -> bool:
    """Whether a curve has this name, alone or followed by its conditions, such as clients and tier."""
    return curve == name or curve.startswith((f"{name}-", f"{name} ("))


@dataclass(frozen=True)
class Overlay:
    """Published figures to lay over a picture: NAME or NAME:TABLE, and which of its rows by their columns.

    With `normalise` each curve, published or not, is divided by its first point.
    """

    published: str = ""
    where: Mapping[str, Any] | None = None
    normalise: bool = False


Kind = Callable[..., list[Block]]  # (Shown, options by name); a parameter `overlay` stands for three options
OVERLAY = tuple(option.name for option in fields(Overlay))


def make(kinds: Mapping[str, Kind], what: str, request: Mapping[str, Any], shown: Shown) -> list[Block]:
    """Make a picture or a table of one of these kinds, or a note that says why it cannot be made.

    Options of every kind: `algorithms`, names or beginnings of curves; `of`, attributes with the value or
    values that results must have; `recall`, the target; `title`. UserError names an unknown kind or option.
    """
    name = str(request.get("kind"))
    if name not in kinds:
        raise UserError(f"there is no {what} of kind '{name}': choose from {', '.join(kinds)}")
    signature = inspect.signature(kinds[name]).parameters
    parameters = [parameter for parameter in signature if parameter != "shown"]
    own = [option for one in parameters for option in (OVERLAY if one == "overlay" else (one,))]
    options = {key: value for key, value in request.items() if key not in ANYWHERE}
    if unknown := sorted(set(options) - set(own)):
        known = ", ".join([*own, *list(ANYWHERE)[1:]])
        raise UserError(f"the {what} '{name}' has no option '{unknown[0]}': it has {known}")
    defaults = {key: parameter.default for key, parameter in signature.items()}
    check_kinds(f"the {what} '{name}'", request, {**vars(Overlay()), **defaults, **ANYWHERE})
    if "overlay" in parameters:
        options["overlay"] = Overlay(
            **{option: options.pop(option) for option in OVERLAY if option in options}
        )
    shown = replace(
        shown.only(request.get("algorithms"), request.get("of") or {}),
        target=float(request.get("recall", shown.target)),
        title=str(request.get("title", shown.title)),
    )
    try:
        return kinds[name](shown, **options)
    except UserError as error:
        return [Paragraph(f"No {what} of {name}: {error}.", is_note=True)]


def check_kinds(what: str, options: Mapping[str, Any], examples: Mapping[str, Any]) -> None:
    """Raise UserError for an option whose value is of another kind than its example."""
    for name, value in options.items():
        example = examples[name]
        fits = is_number(value) if isinstance(example, float) else type(value) is type(example)
        if name == "algorithms":
            fits = isinstance(value, (str, list))
        elif example is None:
            fits = value is None or isinstance(value, Mapping)
        if not fits:
            raise UserError(f"the option '{name}' of {what} cannot be {value!r:.40}")


def part_blocks(found: Iterable[Part]) -> list[Block]:
    """Return the parts of a view as blocks."""
    return [Paragraph(part, is_note=True) if isinstance(part, str) else part for part in found]


def origin_note(origin: str) -> list[Block]:
    """Return the note below a picture that shows published figures."""
    return [Paragraph(f"In grey, from another machine: {origin}", is_note=True)] if origin else []

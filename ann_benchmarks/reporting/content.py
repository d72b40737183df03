"""What a report is made of: chapters of results, and what a picture or a table of some of them is given."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ann_benchmarks.fields.series import Series
from ann_benchmarks.plotting.chart import draw_chart
from ann_benchmarks.pricing.costs import CostRequest
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import LeftOut, Run
from ann_benchmarks.views.figures import Chart, Style, curve_names, series_styles
from ann_benchmarks.views.parts import Part

from .document import Block, Paragraph, Picture

MOST_ROWS = 30  # bars or lines in a picture


@dataclass(frozen=True)
class Chapter:
    """Results that are shown together. Pictures and tables are requested by name, with their options."""

    title: str
    text: str = ""
    command: str = ""  # makes the results
    runs: Sequence[Run] = ()
    records: Sequence[Record] = ()
    missing: Sequence[str] = ()  # a line for each point that should have been measured
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
    text: str
    command: str  # makes it all
    chapters: Sequence[Chapter]
    findings: Sequence[Finding] = ()
    source: str = ""  # published the findings
    left_out: LeftOut = field(default_factory=dict)
    costs: CostRequest | None = None  # None where nothing is priced
    samples: Sequence[Run] = ()  # results on samples of the dataset, besides those of the chapters
    whole: Sequence[Run] = ()  # results on all rows where the chapters are of samples
    sizes: Sequence[int] = ()  # numbers of rows to predict for, () for the next powers of ten

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
class Overlay:
    """Published figures to lay over a picture: NAME or NAME:TABLE, and which of its rows by their columns."""

    published: str = ""
    where: Mapping[str, Any] | None = None


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
    overlay: Overlay = Overlay()

    @property
    def series(self) -> list[Series]:
        """What series there are."""
        return [run.series for run in self.runs] + [record.series for record in self.records]

    @property
    def looks(self) -> Mapping[str, Style]:
        """How curves look in all pictures; without others, in this one."""
        return self.styles or series_styles(self.series)

    def picture(self, kind: str, chart: Chart, caption: str, number: int = 0) -> Picture:
        """Draw a chart, the first of its kind or a later one."""
        path = self.folder / f"{self.stem}{kind}{f'-{number + 1}' if number else ''}.png"
        draw_chart(chart.renamed(curve_names(run.series for run in self.runs)), path)
        return Picture(path.name, caption)


def is_named(curve: str, name: str) -> bool:
    """Whether a curve has this name, alone or followed by its conditions, such as clients and tier."""
    return curve == name or curve.startswith((f"{name}-", f"{name} ("))


def part_blocks(found: Iterable[Part]) -> list[Block]:
    """Return the parts of a view as blocks."""
    return [Paragraph(part, is_note=True) if isinstance(part, str) else part for part in found]


def origin_notes(origin: str) -> list[Block]:
    """Return the note below a picture that shows published figures."""
    return part_blocks([f"In grey, from another machine: {origin}"] if origin else [])


def rest_text(rows: Sequence[Any]) -> str:
    """Say for how many rows a picture has no room."""
    return f"; {len(rows) - MOST_ROWS} more are in the tables" if len(rows) > MOST_ROWS else ""

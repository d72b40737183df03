"""What an experiment's file holds: experiments/NAME.yml, read and checked."""

import argparse
import contextlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ann_benchmarks.common.cli import HINT
from ann_benchmarks.common.errors import UserError, closest, shown
from ann_benchmarks.common.layout import shared
from ann_benchmarks.common.names import exists
from ann_benchmarks.common.yaml_file import Where, YamlFile, merged
from ann_benchmarks.data.datasets.samples import MOST_PARTS
from ann_benchmarks.definitions.configs import check_run_group
from ann_benchmarks.fields.rows import FIELDS
from ann_benchmarks.run.command_line import CommandLine, option_words
from ann_benchmarks.run.request import Request, read_request

FOLDER = shared("experiments")
KEYS = ("title", "source", "text", "steps", "findings")
STEP_KEYS = ("name", "title", "text", "run", "groups", "settings", "install", "skip", "pictures", "tables",
             "sample")  # fmt: skip
FINDING_TEXTS = ("says", "published", "not-testable", "compare", "metric", "to-metric", "over", "unit")
FINDING_KEYS = (*FINDING_TEXTS, "at-recall", "of", "to", "least", "most")
COMPARISONS = ("ratio", "spread", "value")
SELECTION_KEYS = ("step", "dataset", "tier", "build", "query", "setting")  # besides those of fields
INSTALL_KEYS = ("algorithm", "build-arg")
OPTIONS = [each.name.replace("_", "-") for each in fields(CommandLine)]
# Options of whoever runs an experiment; its file does not have them.
USER_OPTIONS = ("definitions", "list-algorithms", "json", "local", "url", "force", "rebuild", "storage",
                "parallelism", "dry-run", "experiment", "mini")  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One command, with how its results are shown; `skip` says why it is left out, if it is."""

    name: str
    title: str
    text: str
    arguments: list[str]  # of run.py
    groups: Mapping[str, Mapping[str, dict[str, Any]]]  # algorithm -> run groups, instead of its config's
    settings: Mapping[str, str]  # of the server
    install: Sequence[Mapping[str, Any]]  # images to build first, as install.py's options
    skip: str
    pictures: Sequence[dict[str, Any]]
    tables: Sequence[dict[str, Any]]
    sample: int = 1  # the step measures one row in this many of the dataset


@dataclass(frozen=True)
class Claim:
    """What somebody has found, and how to look for it here.

    `compare` is ratio (of `of` to `to`, or of its `metric` to its `to_metric`), spread (largest over smallest
    of `of`, over the values of `over`) or value; the finding is reproduced where the result is at least
    `least` and at most `most`.
    """

    says: str
    published: str
    not_testable: str = ""
    compare: str = ""
    metric: str = "qps"
    to_metric: str = ""  # empty: the same
    at_recall: float | None = None
    of: Mapping[str, Any] = field(default_factory=dict)
    to: Mapping[str, Any] = field(default_factory=dict)
    over: str = "tier"
    least: float | None = None
    most: float | None = None
    unit: str = ""


@dataclass(frozen=True)
class Experiment:
    """A whole file, or its miniature."""

    path: Path
    is_mini: bool
    title: str
    source: str
    text: str
    steps: Sequence[Step]
    claims: Sequence[Claim]

    @property
    def name(self) -> str:
        """What it is called in file names."""
        return self.path.stem + ("-mini" if self.is_mini else "")


class Options:
    """The options that a parser knows."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        """Take run.py's parser."""
        self._parser = parser

    def arguments(self, name: str, value: Any) -> list[str]:
        """Return an option as words of a command line; UserError where it, or its value, is not known."""
        known = [option for option in OPTIONS if option not in USER_OPTIONS]
        if name not in known:
            raise UserError(f"unknown option '{name}' of run.py; {closest(name, known)}")
        parts = value if isinstance(value, list) else [value]
        if not parts or any(not isinstance(part, str | int | float | None) for part in parts):
            raise UserError(f"the option '{name}' cannot be {value!r:.40}")
        if any(isinstance(part, str) and part.startswith("-") for part in parts):
            raise UserError(f"the value of '{name}' begins with '-', as options do: write it without")
        words = option_words(name, value)
        self.parse(words)
        return words

    def parse(self, words: Sequence[str]) -> Request:
        """Read a command line; UserError instead of an exit."""
        messages = io.StringIO()
        try:
            with contextlib.redirect_stderr(messages):
                return read_request(words, self._parser)
        except SystemExit:
            raise UserError(messages.getvalue().rpartition("error: ")[2].rpartition(HINT)[0]) from None


def find_experiment(name: str) -> Path:
    """Return the file of a name or a path; UserError says what there is."""
    path = Path(name)
    if path.suffix in (".yml", ".yaml") or (exists(path) and path.is_file()):
        return path
    known = sorted(file.stem for file in FOLDER.glob("*.yml"))
    if name not in known:
        raise UserError(f"unknown experiment '{shown(name)}': give a file, or one of {', '.join(known)}")
    return FOLDER / f"{name}.yml"


def read_experiment(path: Path, is_mini: bool, options: Options) -> Experiment:
    """Read a file, or the miniature that it describes; UserError names the line of a mistake."""
    return ExperimentFile(path, is_mini, options).experiment()


class ExperimentFile(YamlFile):
    """Turns what one file holds into steps and claims, or into those of its miniature."""

    def __init__(self, path: Path, is_mini: bool, options: Options) -> None:
        """Read it; `options` are those that a step may give to run.py."""
        super().__init__(path, ", ".join(KEYS))
        self._is_mini, self._options = is_mini, options

    def experiment(self) -> Experiment:
        """Return the whole file."""
        content = self.content
        self.mapping((), content, "the experiment", KEYS, ("title", "steps"))
        parts = {key: self.checked((key,), content.get(key, []), list) for key in ("steps", "findings")}
        steps = [self.step(("steps", place), step) for place, step in enumerate(parts["steps"])]
        if not steps:
            self.fail(("steps",), "the experiment has no steps")
        names = [step.name for step in steps]
        for place, name in enumerate(names):
            if name in names[:place]:
                self.fail(("steps", place, "name"), f"the step '{name}' stands here a second time")
        claims = [
            self.claim(("findings", place), claim, names) for place, claim in enumerate(parts["findings"])
        ]
        title, source, text = (self.text((key,), content.get(key, "")) for key in ("title", "source", "text"))
        return Experiment(self.path, self._is_mini, title, source, text, steps, claims)

    def step(self, where: Where, content: Any) -> Step:
        """Return a step or its miniature, after checking both."""
        self.mapping(where, content, "the step", (*STEP_KEYS, "mini"), ("name", "run"))
        full = self.part(where, content, {})
        if "mini" not in content:
            return full
        self.mapping((*where, "mini"), content["mini"], "the miniature", STEP_KEYS)
        small = self.part(where, content, content["mini"])
        return small if self._is_mini else full

    def part(self, where: Where, content: dict[str, Any], mini: dict[str, Any]) -> Step:
        """Read a step whose keys a miniature replaces; mappings of both are merged."""
        values = merged(content, mini)

        def place(key: str, *inside: str | int) -> Where:
            """Return where a key stands, or something inside its value: in the miniature or above it."""
            own = mini.get(key, {})
            is_own = key in mini and (not isinstance(own, dict) or not inside or inside[0] in own)
            return (*where, *(("mini",) if is_own else ()), key, *inside)

        def text(key: str) -> str:
            return self.text(place(key), values.get(key, ""))

        run, groups, settings = (values.get(key, {}) for key in ("run", "groups", "settings"))
        self.mapping(place("run"), run, "options of run.py")
        arguments = []
        for name, value in run.items():
            try:
                arguments += self._options.arguments(name, value)
            except UserError as error:
                self.fail(place("run", name), str(error))
        self.mapping(place("groups"), groups, "run groups by algorithm")
        for algorithm, named in groups.items():
            self.mapping(place("groups", algorithm), named, "run groups")
            for name, group in named.items():
                check_run_group(self, place("groups", algorithm, name), name, group)
        self.mapping(place("settings"), settings, "settings of the server")
        for setting, value in settings.items():
            if not re.fullmatch(r"\w+(\.\w+)*", setting) or not isinstance(value, (str, int, float)):
                self.fail(
                    place("settings", setting), f"'{shown(setting)}' is not a setting: write NAME: VALUE"
                )
        sample = values.get("sample", 1)
        if type(sample) is not int or not 1 <= sample <= MOST_PARTS:
            self.fail(place("sample"), f"'sample' must be a whole number from 1 to {MOST_PARTS}")
        lists = {
            key: self.checked(place(key), values.get(key, []), list)
            for key in ("install", "pictures", "tables")
        }
        for i, item in enumerate(lists["install"]):
            at = place("install", i)
            self.mapping(at, item, "options of install.py", INSTALL_KEYS, INSTALL_KEYS[:1])
            for word in (item["algorithm"], *self.checked(at, item.get("build-arg", []), list)):
                if self.checked(at, word, str).startswith("-"):
                    self.fail(at, f"'{shown(word)}' is an option of install.py: leave it out")
        from ann_benchmarks.reporting.kinds import views  # imports matplotlib, which other runs do without

        for key, kinds in (("pictures", tuple(views("picture"))), ("tables", tuple(views("table")))):
            for i, item in enumerate(lists[key]):
                self.mapping(place(key, i), item, f"{key} such as kind: {kinds[0]}")
                self.member(place(key, i), item.get("kind"), "kind", kinds)
        return Step(
            name=text("name"),
            title=text("title") or text("name"),
            text=text("text"),
            arguments=arguments,
            groups=groups,
            settings={key: str(value) for key, value in settings.items()},
            skip=text("skip"),
            sample=sample,
            **lists,
        )

    def claim(self, where: Where, content: Any, steps: Sequence[str]) -> Claim:
        """Return a claim or its miniature."""
        self.mapping(where, content, "the finding", (*FINDING_KEYS, "mini"), ("says",))
        mini = content.get("mini", {})
        self.mapping((*where, "mini"), mini, "the miniature", FINDING_KEYS)
        merged = {key: value for key, value in content.items() if key != "mini"}
        if self._is_mini:
            merged |= mini
        for key in FINDING_TEXTS:
            if key in merged:
                merged[key] = self.text((*where, key), merged[key])
        if "published" not in merged:
            self.fail(where, "the finding has no 'published'")
        compare = merged.get("compare", "")
        if not merged.get("not-testable"):
            self.member((*where, "compare"), compare, "comparison", COMPARISONS)
        if compare and "of" not in merged:
            self.fail(where, f"a {compare} needs 'of'")
        if compare == "ratio" and not {"to", "to-metric"} & {*merged}:
            self.fail(where, "a ratio needs 'to' or 'to-metric'")
        keys = [field.id for field in FIELDS.values()]
        for key in ("of", "to"):
            selection = merged.get(key, {})
            self.mapping((*where, key), selection, "the selection", (*SELECTION_KEYS, *keys))
            if "setting" in selection:
                self.mapping((*where, key, "setting"), selection["setting"], "settings such as jit: 'off'")
            if "step" in selection:
                self.member((*where, key, "step"), selection["step"], "step", steps)
        for key in ("least", "most", "at-recall"):
            self.checked((*where, key), merged.get(key, 0.0), float)
        if compare and merged.get("least") is None and merged.get("most") is None:
            self.fail(where, "give the bound that the finding keeps: 'least' or 'most', or both")
        return Claim(**{key.replace("-", "_"): value for key, value in merged.items()})

    def text(self, where: Where, value: Any) -> str:
        """Return a text, on one line unless it is a description."""
        text = self.checked(where, value, str)
        return text.strip() if where[-1] == "text" else " ".join(text.split())

"""What an experiment's file holds: experiments/NAME.yml, read and checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.yaml_file import Where, YamlFile
from ann_benchmarks.definitions.configs import check_run_group

from .options import Options

FOLDER = Path(__file__).parents[2] / "experiments"
KEYS = ("title", "source", "text", "steps", "findings")
STEP_KEYS = ("name", "title", "text", "run", "groups", "settings", "install", "skip", "pictures", "tables")
FINDING_KEYS = ("says", "published", "not-testable", "compare", "metric", "to-metric", "at-recall", "of",
                "to", "over", "least", "most", "unit")  # fmt: skip
COMPARISONS = ("ratio", "spread", "value")
SELECTION_KEYS = ("step", "algorithm", "dataset", "clients", "writers", "tier", "disk", "cpus", "build",
                  "query", "order", "workload", "rate")  # fmt: skip
INSTALL_KEYS = ("algorithm", "build-arg")
PICTURES = ("frontier", "latency", "tiers", "builds", "clients", "inserts", "writes", "dashboard")
TABLES = ("points", "builds", "tiers", "speedups", "inserts", "writes", "published")


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


@dataclass(frozen=True)
class Claim:
    """What somebody has found, and how to look for it here.

    `compare` is ratio (of `of` to `to`, or of its `metric` to its `to_metric`), spread (largest over smallest
    of `of`, over the values of `over`) or value; the finding is there where the result is `least` or more and
    `most` or less.
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


def find_experiment(name: str) -> Path:
    """Return the file of a name or a path; UserError says what there is."""
    path = Path(name)
    if path.suffix in (".yml", ".yaml") or path.is_file():
        return path
    known = sorted(file.stem for file in FOLDER.glob("*.yml"))
    if name not in known:
        raise UserError(f"there is no experiment '{name}': give a file, or one of {', '.join(known)}")
    return FOLDER / f"{name}.yml"


def read_experiment(path: Path, is_mini: bool, options: Options) -> Experiment:
    """Read a file, or the miniature that it describes; UserError names the line of a mistake."""
    return _Reader(path, is_mini, options).experiment()


class _Reader(YamlFile):
    def __init__(self, path: Path, is_mini: bool, options: Options) -> None:
        super().__init__(path)
        self._is_mini, self._options = is_mini, options

    def experiment(self) -> Experiment:
        content = self.content
        if content is None:
            raise UserError(f"{self.path}: is empty; expected {', '.join(KEYS)}")
        self.mapping((), content, "an experiment's keys", KEYS)
        for key in ("title", "steps"):
            if not content.get(key):
                self.fail((), f"the experiment has no '{key}'")
        steps = [
            self.step(("steps", place), step) for place, step in enumerate(self.items((), content, "steps"))
        ]
        names = [step.name for step in steps]
        for place, name in enumerate(names):
            if name in names[:place]:
                self.fail(("steps", place, "name"), f"the step '{name}' stands here a second time")
        claims = [
            self.claim(("findings", place), claim, names)
            for place, claim in enumerate(self.items((), content, "findings"))
        ]
        title, source, text = (self.text((), content, key) for key in ("title", "source", "text"))
        return Experiment(self.path, self._is_mini, title, source, text, steps, claims)

    def step(self, where: Where, content: Any) -> Step:
        self.mapping(where, content, "a step's keys", (*STEP_KEYS, "mini"))
        for key in ("name", "run"):
            if not content.get(key):
                self.fail(where, f"the step has no '{key}'")
        full = self.part(where, content)
        if "mini" not in content:
            return full
        mini = content["mini"]
        self.mapping((*where, "mini"), mini, "keys of a miniature", STEP_KEYS)
        merged = {key: value for key, value in content.items() if key != "mini"}
        for key, value in mini.items():
            both = isinstance(value, dict) and isinstance(merged.get(key), dict)
            merged[key] = {**merged[key], **value} if both else value
        small = self.part((*where, "mini"), mini, merged, where)
        return small if self._is_mini else full

    def part(self, where: Where, given: Any, content: Any = None, above: Where | None = None) -> Step:
        """Read a step, of which `given` stands at `where`, and the rest above it."""
        content = given if content is None else content
        at = {key: where if key in given or above is None else above for key in STEP_KEYS}
        run, groups = content.get("run", {}), content.get("groups", {})
        self.mapping((*at["run"], "run"), run, "options of run.py")
        arguments = []
        for name, value in run.items():
            place = where if above is None or name in given.get("run", {}) else above
            try:
                arguments += self._options.arguments(name, value)
            except UserError as error:
                self.fail((*place, "run", name), str(error))
        self.mapping((*at["groups"], "groups"), groups, "run groups by algorithm")
        for algorithm, named in groups.items():
            self.mapping((*at["groups"], "groups", algorithm), named, "run groups")
            for name, group in named.items():
                check_run_group(self, (*at["groups"], "groups", algorithm, name), name, group)
        settings = content.get("settings", {})
        self.mapping((*at["settings"], "settings"), settings, "settings of the server")
        install = self.items(at["install"], content, "install")
        for place_, item in enumerate(install):
            self.mapping((*at["install"], "install", place_), item, "options of install.py", INSTALL_KEYS)
        shown = []
        for key, kinds in (("pictures", PICTURES), ("tables", TABLES)):
            shown.append(self.items(at[key], content, key))
            for place_, item in enumerate(shown[-1]):
                self.mapping((*at[key], key, place_), item, f"{key} such as kind: {kinds[0]}")
                if item.get("kind") not in kinds:
                    self.fail((*at[key], key, place_), f"the kind has to be one of {', '.join(kinds)}")
        name = self.text(at["name"], content, "name")
        return Step(
            name=name,
            title=self.text(at["title"], content, "title") or name,
            text=self.text(at["text"], content, "text"),
            arguments=arguments,
            groups=groups,
            settings={key: str(value) for key, value in settings.items()},
            install=install,
            skip=self.text(at["skip"], content, "skip"),
            pictures=shown[0],
            tables=shown[1],
        )

    def claim(self, where: Where, content: Any, steps: Sequence[str]) -> Claim:
        self.mapping(where, content, "a finding's keys", (*FINDING_KEYS, "mini"))
        mini = content.get("mini", {})
        self.mapping((*where, "mini"), mini, "keys of a miniature", FINDING_KEYS)
        merged = {key: value for key, value in content.items() if key != "mini"}
        if self._is_mini:
            merged |= mini
        if not merged.get("says"):
            self.fail(where, "the finding does not say what it 'says'")
        compare = merged.get("compare", "")
        if compare not in COMPARISONS and not merged.get("not-testable"):
            self.fail((*where, "compare"), f"'compare' has to be one of {', '.join(COMPARISONS)}")
        if compare and "of" not in merged:
            self.fail(where, f"a {compare} needs 'of'")
        if compare == "ratio" and not {"to", "to-metric"} & {*merged}:
            self.fail(where, "a ratio needs 'to' or 'to-metric'")
        for key in ("of", "to"):
            self.mapping((*where, key), merged.get(key, {}), "what is selected", SELECTION_KEYS)
            step = merged.get(key, {}).get("step")
            if step is not None and step not in steps:
                self.fail((*where, key, "step"), f"there is no step '{step}': there are {', '.join(steps)}")
        for key in ("least", "most", "at-recall"):
            if not isinstance(merged.get(key, 0), (int, float)):
                self.fail((*where, key), f"'{key}' has to be a number")
        if compare and merged.get("least") is None and merged.get("most") is None:
            self.fail(where, "say what is found with 'least' or 'most', or both")
        return Claim(**{key.replace("-", "_"): value for key, value in merged.items()})

    def items(self, where: Where, content: Mapping[str, Any], key: str) -> list[Any]:
        value = content.get(key, [])
        if not isinstance(value, list):
            self.fail((*where, key), f"'{key}' has to be a list")
        return value

    def text(self, where: Where, content: Mapping[str, Any], key: str) -> str:
        value = content.get(key, "")
        if not isinstance(value, str):
            self.fail((*where, key), f"'{key}' has to be a text")
        return " ".join(value.split()) if key != "text" else value.strip()

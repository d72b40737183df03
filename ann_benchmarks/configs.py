"""config.yml files: found, read and checked; a mistake is named with its file, line and key."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from .distance import METRICS
from .errors import UserError

ANY_METRIC = "any"
POINT_TYPES = ("float", "bit", "int")
TEXT_KEYS = ("name", "module", "constructor", "docker_tag")
DEFINITION_KEYS = (*TEXT_KEYS, "base_args", "run_groups", "more_run_groups", "disabled")
# A key that a run group may have is added here and read in definitions.py.
RUN_GROUP_KEYS = ("args", "arg_groups", "query_args", "query_arg_groups", "datasets", "rows")

Where = tuple[str | int, ...]


@dataclass(frozen=True)
class Config:
    """One file: point type -> metric or "any" -> the definitions as written."""

    path: Path
    entries: dict[str, dict[str, list[dict[str, Any]]]]

    def names(self) -> list[str]:
        """Names of the algorithms, each once, in the order of the file."""
        lists = (entries for metrics in self.entries.values() for entries in metrics.values())
        return list(dict.fromkeys(entry["name"] for entries in lists for entry in entries))


@dataclass(frozen=True)
class BrokenConfig:
    """A file that cannot be used, and why."""

    path: Path
    problem: str

    def mentions(self, algorithm: str) -> bool:
        """Whether the algorithm is (as far as an unreadable file can tell) one of this file's."""
        try:
            text = self.path.read_text(errors="replace")
        except OSError:
            text = ""
        names = re.findall(r"""\bname\s*:\s*["']?([^"'#,}\n]+)""", text)
        return algorithm in {self.path.parent.name, *(name.strip() for name in names)}


def closest(word: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the nearest known one, else all of them."""
    known = list(known)
    near = difflib.get_close_matches(str(word), known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"known are: {', '.join(known)}"


def read_configs(folder: Path) -> tuple[list[Config], list[BrokenConfig]]:
    """Read FOLDER/*/config.yml in the order of the folders' names; `base` holds no algorithm."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder} to read algorithm definitions from (--definitions)")
    configs: list[Config] = []
    broken: list[BrokenConfig] = []
    owners: dict[str, Path] = {}
    for path in sorted(folder.glob("*/config.yml")):
        if path.parent.name == "base":
            continue
        try:
            config = read_config(path)
            for name in config.names():
                if name in owners:
                    raise UserError(f"{path}: '{name}' is defined in {owners[name]} too; rename one of them")
            owners.update(dict.fromkeys(config.names(), path))
            configs.append(config)
        except UserError as error:
            broken.append(BrokenConfig(path, str(error)))
    if not configs and not broken:
        raise UserError(f"no algorithm in {folder}: expected {folder}/NAME/config.yml (--definitions)")
    return configs, broken


def read_config(path: Path) -> Config:
    """Read and check one file; UserError names the file, the line and the key of a mistake."""
    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, yaml.CSafeLoader)
        entries = yaml.load(text, yaml.CSafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise UserError(f"{path}{line}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    _Checker(path, root).check(entries)
    return Config(path, entries)


class _Checker:
    """Compares what a file holds with what it may hold; the YAML nodes give the line numbers."""

    def __init__(self, path: Path, root: Any):
        self.path = path
        self.root = root

    def fail(self, where: Where, problem: str) -> NoReturn:
        raise UserError(f"{self.path}:{_line(self.root, where)}: {problem}")

    def check(self, entries: Any) -> None:
        if entries is None:
            raise UserError(f"{self.path}: is empty; expected point type, metric and definitions")
        self.repeated_keys(self.root)
        self.mapping((), entries, "point types", POINT_TYPES)
        for point_type, metrics in entries.items():
            self.mapping((point_type,), metrics, "metrics", (*METRICS, ANY_METRIC))
            for metric, definitions in metrics.items():
                if not isinstance(definitions, list):
                    self.fail((point_type, metric), f"'{metric}' must be a list of definitions (- name: ...)")
                names = []
                for index, definition in enumerate(definitions):
                    where = (point_type, metric, index)
                    self.definition(where, definition)
                    if definition["name"] in names:
                        self.fail(where, f"'{definition['name']}' stands twice under '{metric}'")
                    names.append(definition["name"])

    def definition(self, where: Where, definition: Any) -> None:
        self.mapping(where, definition, "a definition's keys", DEFINITION_KEYS)
        for key in (*TEXT_KEYS, "run_groups"):
            if key not in definition:
                self.fail(where, f"the definition has no '{key}'")
        for key in TEXT_KEYS:
            if not isinstance(definition[key], str) or not definition[key]:
                self.fail((*where, key), f"'{key}' must be a text")
        if not isinstance(definition.get("disabled", False), bool):
            self.fail((*where, "disabled"), "'disabled' must be true or false")
        # ann-benchmarks has files with an empty mapping here.
        if not isinstance(definition.get("base_args", []), list) and definition["base_args"] != {}:
            self.fail((*where, "base_args"), "'base_args' must be a list")
        for key in ("run_groups", "more_run_groups"):
            groups = definition.get(key, {})
            self.mapping((*where, key), groups, "run groups")
            for name, group in groups.items():
                if key == "more_run_groups" and name in definition["run_groups"]:
                    self.fail((*where, key, name), f"run group '{name}' stands under 'run_groups', too")
                self.run_group((*where, key, name), name, group)

    def run_group(self, where: Where, name: str, group: Any) -> None:
        self.mapping(where, group, f"run group '{name}'", RUN_GROUP_KEYS)
        if "args" not in group and "arg_groups" not in group:
            self.fail(
                where, f"run group '{name}' has neither 'args' nor 'arg_groups'; write 'args: []' for none"
            )
        for key in ("args", "query_args"):
            if not isinstance(group.get(key, []), list | dict):
                self.fail((*where, key), f"'{key}' must be a list or a mapping")
        for key in ("arg_groups", "query_arg_groups"):
            if not isinstance(group.get(key, []), list):
                self.fail((*where, key), f"'{key}' must be a list")
        for key in ("args", "query_args", "arg_groups", "query_arg_groups"):
            self.choices((*where, key), group.get(key, []))
        if "datasets" in group:
            self.dataset_names((*where, "datasets"), group["datasets"])
        if "rows" in group:
            self.row_range((*where, "rows"), group["rows"])

    def choices(self, where: Where, arguments: Any) -> None:
        """Refuse a choice of nothing, which would leave nothing to run."""
        named = arguments.items() if isinstance(arguments, dict) else enumerate(arguments)
        for key, value in named:
            if value == []:
                self.fail((*where, key), "an empty list is a choice of nothing; write [[]] for an empty list")
            if isinstance(value, dict):
                self.choices((*where, key), value)

    def dataset_names(self, where: Where, names: Any) -> None:
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            self.fail(where, "'datasets' must be a list of names of datasets")

    def row_range(self, where: Where, bounds: Any) -> None:
        if not isinstance(bounds, list) or len(bounds) != 2 or {type(b) for b in bounds} - {int, type(None)}:
            self.fail(where, "'rows' must be two whole numbers, [from, below]; null is no bound")
        first, last = bounds
        if first is not None and last is not None and first >= last:
            self.fail(where, f"'rows' must be [from, below], but {first:,} is not below {last:,}")

    def mapping(self, where: Where, value: Any, what: str, known: Sequence[str] = ()) -> None:
        if not isinstance(value, dict):
            self.fail(where, f"expected {what} here, found {value!r:.40}")
        for key in value:
            if known and key not in known:
                self.fail((*where, key), f"unknown key '{key}' in {what}; {closest(key, known)}")

    def repeated_keys(self, node: Any) -> None:
        if isinstance(node, yaml.MappingNode):
            seen = set()
            for key, value in node.value:
                if key.value in seen:
                    line = key.start_mark.line + 1
                    raise UserError(f"{self.path}:{line}: the key '{key.value}' stands here a second time")
                seen.add(key.value)
                self.repeated_keys(value)
        elif isinstance(node, yaml.SequenceNode):
            for value in node.value:
                self.repeated_keys(value)


def _line(node: Any, where: Where) -> int:
    """Line of the key or list item that `where` leads to, or of the nearest one above it."""
    line = int(node.start_mark.line)
    for step in where:
        if isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == str(step)]
            if not found:  # came in by a merge key
                break
            key, node = found[0]
            line = key.start_mark.line
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
            line = node.start_mark.line
    return line + 1

"""config.yml files: found, read and checked; a mistake is named with its file, line and key."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.names import name_problem
from ann_benchmarks.common.yaml_file import Where, YamlFile, read_text
from ann_benchmarks.distance import METRICS

ANY_METRIC = "any"
POINT_TYPES = ("float", "bit", "int")
TEXT_KEYS = ("name", "module", "constructor", "docker_tag")
DEFINITION_KEYS = (*TEXT_KEYS, "base_args", "run_groups", "more_run_groups", "disabled")
# A key that a run group may have is added here and read in definitions.py.
RUN_GROUP_KEYS = ("args", "arg_groups", "query_args", "query_arg_groups", "datasets", "rows", "filtered")
OWN_INDEX = "your_index_today"  # the algorithm that makes the index which a table has already
_MODULE = re.compile(r"[\w-]+(\.[\w-]+)*")


@dataclass(frozen=True)
class Config:
    """One file: point type -> metric or "any" -> the definitions as written."""

    path: Path
    entries: dict[str, dict[str, list[dict[str, Any]]]]

    def names(self) -> list[str]:
        """Names of the algorithms, each once, in the order of the file."""
        lists = (entries for metrics in self.entries.values() for entries in metrics.values())
        return list(dict.fromkeys(entry["name"] for entries in lists for entry in entries))

    def changed(self, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> "Config":
        """Return it with other definitions for each point type and metric."""
        entries = {
            point_type: {metric: change(definitions) for metric, definitions in metrics.items()}
            for point_type, metrics in self.entries.items()
        }
        return Config(self.path, entries)


@dataclass(frozen=True)
class BrokenConfig:
    """A file that cannot be used, and why."""

    path: Path
    problem: str

    def mentions(self, algorithm: str) -> bool:
        """Whether the algorithm is (as far as an unreadable file can tell) one of this file's."""
        try:
            text = read_text(self.path)
        except UserError:
            text = ""
        names = re.findall(r"""\bname\s*:\s*["']?([^"'#,}\n]+)""", text)
        return algorithm in {self.path.parent.name, *(name.strip() for name in names)}


def read_configs(folder: Path, *others: Path) -> tuple[list[Config], list[BrokenConfig]]:
    """Read FOLDER/*/config.yml of each folder, in the order of their names; `base` holds no algorithm."""
    if not folder.is_dir():
        raise UserError(f"--definitions must name a folder of algorithm definitions, and {folder} is not one")
    configs: list[Config] = []
    broken: list[BrokenConfig] = []
    owners: dict[str, Path] = {}
    for path in (path for each in (folder, *others) for path in sorted(each.glob("*/config.yml"))):
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


def replace_run_groups(
    configs: Sequence[Config], groups: Mapping[str, Mapping[str, dict[str, Any]]]
) -> list[Config]:
    """Return configs in which algorithms have these run groups, by their names, instead of their own."""

    def replaced(entry: dict[str, Any]) -> dict[str, Any]:
        if entry["name"] not in groups:
            return entry
        return {**entry, "run_groups": groups[entry["name"]], "more_run_groups": {}}

    return [config.changed(lambda entries: [replaced(entry) for entry in entries]) for config in configs]


def add_own_index(configs: Sequence[Config], algorithm: str, arguments: Mapping[str, Any]) -> list[Config]:
    """Return configs with one more algorithm: an index that somebody has, as `algorithm` makes it.

    Its single point has the query arguments of the first run group of `algorithm`.
    """
    # config.yml expands a list to several indexes; here it is one value.
    one_of_each = {name: [value] if isinstance(value, list) else value for name, value in arguments.items()}

    def own(entry: dict[str, Any]) -> dict[str, Any]:
        first = next(iter(entry["run_groups"].values()))
        queries = {key: first[key] for key in ("query_args", "query_arg_groups") if key in first}
        groups = {"today": {"arg_groups": [one_of_each], **queries}}
        return {**entry, "name": OWN_INDEX, "run_groups": groups, "more_run_groups": {}}

    def add_own(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [*entries, *(own(entry) for entry in entries if entry["name"] == algorithm)]

    return [config.changed(add_own) for config in configs]


def read_config(path: Path) -> Config:
    """Read and check one file; UserError names the file, the line and the key of a mistake."""
    file = ConfigFile(path, "point type, metric and definitions")
    file.check()
    return Config(path, file.content)


class ConfigFile(YamlFile):
    """Compares what a file holds with what it may hold."""

    def check(self) -> None:
        """Refuse the first mistake."""
        self.mapping((), self.content, "point types", POINT_TYPES)
        for point_type, metrics in self.content.items():
            self.mapping((point_type,), metrics, "metrics", (*METRICS, ANY_METRIC))
            for metric, definitions in metrics.items():
                names = []
                for index, definition in enumerate(self.checked((point_type, metric), definitions, list)):
                    where = (point_type, metric, index)
                    self.definition(where, definition)
                    if definition["name"] in names:
                        self.fail(where, f"'{definition['name']}' stands twice under '{metric}'")
                    names.append(definition["name"])

    def definition(self, where: Where, definition: Any) -> None:
        """Refuse a definition that is not as it should be."""
        self.mapping(where, definition, "the definition", DEFINITION_KEYS, (*TEXT_KEYS, "run_groups"))
        for key in TEXT_KEYS:
            if not self.checked((*where, key), definition[key], str):
                self.fail((*where, key), f"'{key}' must not be empty")
        if problem := name_problem(definition["name"]):
            self.fail((*where, "name"), f"'name' {problem}: results are kept in a folder of that name")
        if not _MODULE.fullmatch(definition["module"]):
            self.fail((*where, "module"), f"'{shown(definition['module'])}' must be a module of Python")
        self.checked((*where, "disabled"), definition.get("disabled", False), bool)
        if definition.get("base_args") != {}:  # files of ann-benchmarks have {}
            self.checked((*where, "base_args"), definition.get("base_args", []), list)
        for key in ("run_groups", "more_run_groups"):
            groups = definition.get(key, {})
            self.mapping((*where, key), groups, "run groups")
            for name, group in groups.items():
                if key == "more_run_groups" and name in definition["run_groups"]:
                    self.fail((*where, key, name), f"run group '{name}' stands under 'run_groups', too")
                check_run_group(self, (*where, key, name), name, group)


def check_run_group(file: YamlFile, where: Where, name: str, group: Any) -> None:
    """Refuse a run group that is not as it should be."""
    file.mapping(where, group, f"run group '{shown(name)}'", RUN_GROUP_KEYS)
    if "args" not in group and "arg_groups" not in group:
        file.fail(
            where, f"run group '{shown(name)}' has neither 'args' nor 'arg_groups'; write 'args: []' for none"
        )
    for key in ("args", "query_args", "arg_groups", "query_arg_groups"):
        value = group.get(key, [])
        if not isinstance(value, dict) or key.endswith("groups"):  # arguments by name
            file.checked((*where, key), value, list)
        _check_choices(file, (*where, key), value)
    names = group.get("datasets", ["any"])
    if not isinstance(names, list) or not names or not all(isinstance(one, str) for one in names):
        file.fail((*where, "datasets"), "'datasets' must be a list of names of datasets")
    file.checked((*where, "filtered"), group.get("filtered", False), bool)
    if "rows" in group:
        _check_row_range(file, (*where, "rows"), group["rows"])


def _check_choices(file: YamlFile, where: Where, arguments: Any) -> None:
    """Refuse a choice of nothing, which would leave nothing to run."""
    named = arguments.items() if isinstance(arguments, dict) else enumerate(arguments)
    for key, value in named:
        if value == []:
            file.fail((*where, key), "an empty list is a choice of nothing; write [[]] for an empty list")
        if isinstance(value, dict):
            _check_choices(file, (*where, key), value)


def _check_row_range(file: YamlFile, where: Where, bounds: Any) -> None:
    if not isinstance(bounds, list) or len(bounds) != 2 or {type(b) for b in bounds} - {int, type(None)}:
        file.fail(where, "'rows' must be two whole numbers, [from, below]; null leaves an end open")
    first, last = bounds
    if first is not None and last is not None and first >= last:
        file.fail(where, f"'rows' must be [from, below], but {first:,} is not below {last:,}")

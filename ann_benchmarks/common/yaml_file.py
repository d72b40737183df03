"""YAML files whose mistakes are named with their line."""

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import yaml

from .errors import UserError, closest, shown
from .yaml_nodes import compose

Where = tuple[str | int, ...]
Kind = TypeVar("Kind")
KINDS = {str: "a text", list: "a list", dict: "a mapping", bool: "true or false", float: "a number"}


class YamlFile:
    """A file's `content`; `where` is the keys and places in lists that lead to a part of it."""

    def __init__(self, path: Path, expected: str) -> None:
        """Read it; UserError if it cannot be read, is no YAML within the bounds, or is empty."""
        self.path = path
        self._root, self.content = compose(path)
        if self.content is None:
            raise UserError(f"{path}: is empty; expected {expected}")

    def fail(self, where: Where, problem: str) -> NoReturn:
        """Raise UserError with file and line."""
        raise UserError(f"{self.path}:{_line(self._root, where)}: {problem}")

    def mapping(
        self, where: Where, value: Any, what: str, known: Sequence[str] = (), required: Sequence[str] = ()
    ) -> None:
        """Refuse what is no mapping, has keys other than the known ones, or lacks a required one."""
        if not isinstance(value, dict):
            self.fail(where, f"expected {what} here, found {value!r:.40}")
        for key in value:
            if known and key not in known:
                self.fail((*where, key), f"unknown key '{shown(key)}' in {what}; {closest(key, known)}")
        for key in required:
            if key not in value:
                self.fail(where, f"{what} has no '{key}'")

    def checked(self, where: Where, value: Any, kind: type[Kind]) -> Kind:
        """Return the value at a place; refuse one of another type. A `float` is finite, or a whole number."""
        fits = is_number(value) if kind is float else isinstance(value, kind)
        if not fits:
            name = f"'{where[-1]}'" if isinstance(where[-1], str) else f"entry {where[-1] + 1}"
            self.fail(where, f"{name} must be {KINDS[kind]}, not {value!r:.40}")
        return value

    def member(self, where: Where, value: Any, what: str, known: Collection[str]) -> None:
        """Refuse what is not one of the known words."""
        if not isinstance(value, str) or value not in known:
            self.fail(where, f"there is no {what} '{shown(value)}'; {closest(value, known)}")


def is_number(value: Any) -> bool:
    """Whether a value is a finite number; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _line(node: Any, where: Where) -> int:
    """Line of the key or list item that `where` leads to, or of the nearest one above it."""
    line = int(node.start_mark.line)
    for step in where:
        if isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == str(step)]
            if not found:
                break
            key, node = found[-1]  # those of a merge key come first
            line = key.start_mark.line
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
            line = node.start_mark.line
    return line + 1

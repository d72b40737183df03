"""YAML files whose mistakes are named with their line."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import yaml

from .errors import UserError, closest

Where = tuple[str | int, ...]
Kind = TypeVar("Kind")
KINDS = {str: "a text", list: "a list", dict: "a mapping", bool: "true or false", float: "a number"}


class YamlFile:
    """A file's `content`; `where` is the keys and places in lists that lead to a part of it."""

    def __init__(self, path: Path, expected: str) -> None:
        """Read it; UserError if it cannot be read, is no YAML, is empty, or has a key twice."""
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
            self._root = yaml.compose(text, yaml.CSafeLoader)
            self.content: Any = yaml.load(text, yaml.CSafeLoader)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: cannot be read: {error}") from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = f":{mark.line + 1}" if mark else ""
            raise UserError(f"{path}{line}: not valid YAML: {error.problem or error.context}") from None
        except yaml.YAMLError as error:
            raise UserError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
        if self.content is None:
            raise UserError(f"{path}: is empty; expected {expected}")
        self._refuse_repeated_keys(self._root)

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
                self.fail((*where, key), f"unknown key '{key}' in {what}; {closest(key, known)}")
        for key in required:
            if key not in value:
                self.fail(where, f"{what} has no '{key}'")

    def checked(self, where: Where, value: Any, kind: type[Kind]) -> Kind:
        """Return the value at a place; refuse one of another type. A `float` may be a whole number."""
        fits = isinstance(value, (int, float) if kind is float else kind)
        if not fits:
            name = f"'{where[-1]}'" if isinstance(where[-1], str) else f"entry {where[-1] + 1}"
            self.fail(where, f"{name} must be {KINDS[kind]}, not {value!r:.40}")
        return value

    def member(self, where: Where, value: Any, what: str, known: Collection[str]) -> None:
        """Refuse what is not one of the known words."""
        if value not in known:
            self.fail(where, f"there is no {what} '{value}'; {closest(value, known)}")

    def _refuse_repeated_keys(self, node: Any) -> None:
        if isinstance(node, yaml.MappingNode):
            seen = set()
            for key, value in node.value:
                if key.value in seen:
                    line = key.start_mark.line + 1
                    raise UserError(f"{self.path}:{line}: the key '{key.value}' stands here a second time")
                seen.add(key.value)
                self._refuse_repeated_keys(value)
        elif isinstance(node, yaml.SequenceNode):
            for value in node.value:
                self._refuse_repeated_keys(value)


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

"""YAML files whose mistakes are told with their line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml

from .errors import UserError, closest

Where = tuple[str | int, ...]


class YamlFile:
    """A file's `content`; `where` is the keys and places in lists that lead to a part of it."""

    def __init__(self, path: Path) -> None:
        """Read it; UserError if it cannot be read, is no YAML, or has a key twice."""
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
        self._refuse_repeated_keys(self._root)

    def fail(self, where: Where, problem: str) -> NoReturn:
        """Raise UserError with file and line."""
        raise UserError(f"{self.path}:{_line(self._root, where)}: {problem}")

    def mapping(self, where: Where, value: Any, what: str, known: Sequence[str] = ()) -> None:
        """Refuse what is no mapping, or has keys other than the known ones."""
        if not isinstance(value, dict):
            self.fail(where, f"expected {what} here, found {value!r:.40}")
        for key in value:
            if known and key not in known:
                self.fail((*where, key), f"unknown key '{key}' in {what}; {closest(key, known)}")

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

"""YAML files within bounds, whose mistakes are named with their line.

A file of whatever content becomes values that JSON has, or one line of an error. Depth and size are known
from the events of the parser, before libyaml composes nodes, which it does recursively, and before aliases
are followed.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import yaml

from .errors import UserError, closest, shown
from .files import read_regular

Where = tuple[str | int, ...]
Kind = TypeVar("Kind")
KINDS = {str: "a text", list: "a list", dict: "a mapping", bool: "true or false", float: "a number"}
MOST_BYTES = 4 << 20
MOST_DEPTH = 64  # mappings and lists within each other
MOST_NODES = 200_000  # keys, values, mappings and lists, each as often as aliases repeat it
LONGEST_NUMBER = 100  # characters; some of YAML's notations take quadratic time
_PREFIX = "tag:yaml.org,2002:"
_TAGS = {
    yaml.ScalarNode: ("str", "int", "float", "bool", "null"),
    yaml.SequenceNode: ("seq",),
    yaml.MappingNode: ("map",),
}
_WHOLE_NUMBERS = range(-(1 << 63), 1 << 64)

Fail = Callable[[str, int | None], NoReturn]


class YamlFile:
    """A file's `content`; `where` is the keys and places in lists that lead to a part of it."""

    def __init__(self, path: Path, expected: str) -> None:
        """Read it; UserError if it cannot be read, is empty, or is not YAML within the bounds."""
        self.path = path
        self._root, self.content = _compose(path)
        if self.content is None:
            raise UserError(f"{path}: is empty; expected {expected}")

    def fail(self, where: Where, problem: str) -> NoReturn:
        """Raise UserError with file and line."""
        raise UserError(f"{self.path}:{_line(self._root, where)}: {problem}")

    def mapping(
        self, where: Where, value: Any, what: str, known: Sequence[str] = (), required: Sequence[str] = ()
    ) -> None:
        """Refuse what is not a mapping, has keys other than the known ones, or lacks a required one."""
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

    def line(self, where: Where, value: Any) -> str:
        """Return a text on one line; refuse an empty or an unprintable one."""
        text = " ".join(self.checked(where, value, str).split())
        if not text or not text.isprintable():
            self.fail(where, f"'{where[-1]}' must be a text that can be printed")
        return text

    def member(self, where: Where, value: Any, what: str, known: Collection[str]) -> None:
        """Refuse what is not one of the known words."""
        if not isinstance(value, str) or value not in known:
            self.fail(where, f"unknown {what} '{shown(value)}'; {closest(value, known)}")


def merged(content: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with some values replaced; where both are mappings, they are merged."""
    found = dict(content)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = {**found[key], **value} if both else value
    return found


def is_number(value: Any) -> bool:
    """Whether a value is a finite number; true and false are not."""
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


def read_text(path: Path) -> str:
    """Return the text of a file of settings; UserError for other content, or too much."""
    try:
        return read_regular(path, MOST_BYTES).decode()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # UnicodeDecodeError, or a path that no file can have
        raise UserError(f"{path}: cannot be read: {error}") from None


def _compose(path: Path) -> tuple[Any, Any]:
    """Return the root node of a file and its value, both None if it is empty; UserError names the line."""

    def fail(problem: str, line: int | None = None) -> NoReturn:
        raise UserError(f"{path}{'' if line is None else f':{line + 1}'}: {problem}")

    text = read_text(path)
    try:
        _check_size(text, fail)
        root = yaml.compose(text, yaml.CSafeLoader)
        if root is None:
            return None, None
        loader = yaml.CSafeLoader("")
        _check_nodes(root, loader, fail)
        return root, loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context
        fail(f"not valid YAML: {problem}", None if mark is None else mark.line)
    except (yaml.YAMLError, ValueError) as error:
        fail(f"not valid YAML: {error}")


def _check_size(text: str, fail: Fail) -> None:
    """Refuse what is too deep or too large, without recursion; an alias counts as all that it repeats."""
    finished: dict[str | None, tuple[int, int]] = {}  # anchor: nodes, and levels
    opened: list[tuple[str | None, int]] = []  # anchors of the collections around, nodes before each
    levels: list[int] = [0]  # below each of them
    nodes = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        line = event.start_mark.line if event.start_mark else 0
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((anchor, nodes))
            levels.append(0)
            nodes += 1
            finished.pop(anchor, None)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            height = levels.pop() + 1
            levels[-1] = max(levels[-1], height)
            if anchor is not None:
                finished[anchor] = nodes - before, height
        elif isinstance(event, yaml.AliasEvent):
            if any(name == anchor for name, _ in opened):
                fail(f"'*{shown(anchor)}' stands within '&{shown(anchor)}', so that it has no end", line)
            size, height = finished.get(anchor, (1, 0))  # the composer reports an unknown one
            nodes += size
            levels[-1] = max(levels[-1], height)
        elif isinstance(event, yaml.ScalarEvent):
            nodes += 1
            if anchor is not None:
                finished[anchor] = 1, 0
        if len(opened) + levels[-1] > MOST_DEPTH:
            fail(f"it has more than {MOST_DEPTH} levels of mappings and lists", line)
        if nodes > MOST_NODES:
            fail(f"it has more than {MOST_NODES:,} entries, counting what aliases repeat", line)


def _check_nodes(root: Any, loader: Any, fail: Fail) -> None:
    """Refuse keys that are not texts or stand twice, and values that are not JSON's or cannot be built."""
    pending, seen = [(root, "")], set()
    while pending:
        node, of = pending.pop()  # `of` names the key that a value belongs to
        if id(node) in seen:
            continue
        seen.add(id(node))
        kind, line = node.tag.removeprefix(_PREFIX), node.start_mark.line
        if kind not in _TAGS[type(node)]:
            text = shown(node.value) if isinstance(node, yaml.ScalarNode) else "this"
            fail(f"{of}{text} is read as {shown(kind)}: write it without a tag, or in quotes", line)
        if isinstance(node, yaml.MappingNode):
            _check_keys(node, of, fail)
            inside = [
                (value, of if _is_merge(key) else f"'{shown(key.value)}': ") for key, value in node.value
            ]
            pending += reversed(inside)
        elif isinstance(node, yaml.SequenceNode):
            pending += [(value, of) for value in reversed(node.value)]
        elif problem := _problem(node, kind, loader):
            fail(f"{of}{shown(node.value)} {problem}", line)


def _check_keys(mapping: yaml.MappingNode, of: str, fail: Fail) -> None:
    words = set()
    for key, _ in mapping.value:
        word, line = key.value, key.start_mark.line
        if not isinstance(key, yaml.ScalarNode):
            fail(f"{of}a mapping or a list cannot be a key: write a text", line)
        if key.tag != f"{_PREFIX}str" and not _is_merge(key):
            fail(f"{of}the key '{shown(word)}' must be a text: put it in quotes", line)
        if "\0" in word:
            fail(f"{of}the key '{shown(word)}' has a zero byte", line)
        if word in words:
            fail(f"the key '{shown(word)}' stands here a second time", line)
        words.add(word)


def _is_merge(key: Any) -> bool:
    return bool(key.tag == f"{_PREFIX}merge")


def _problem(node: yaml.ScalarNode, kind: str, loader: Any) -> str | None:
    """Say what is wrong with a text or a number, None if nothing is."""
    if kind == "str":
        return "has a zero byte" if "\0" in node.value else None
    what = {"int": "whole number", "float": "number", "bool": "truth value", "null": "null"}[kind]
    try:
        if len(node.value) > LONGEST_NUMBER:
            raise ValueError
        value = loader.construct_object(node)
    except (ValueError, LookupError, ArithmeticError, TypeError):
        return f"must be a {what}: correct it, or put it in quotes"
    if kind == "int" and value not in _WHOLE_NUMBERS:
        return "is a number beyond 64 bits: put it in quotes"
    return None

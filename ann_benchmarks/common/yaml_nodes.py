"""YAML within bounds: a file of whatever content becomes nodes that are safe to build values of, or a line.

Values are those that JSON has. Depth and size are known from the events of the parser, before libyaml
composes nodes, which it does recursively, and before aliases are followed.
"""

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import yaml

from .errors import UserError, shown

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


def read_text(path: Path) -> str:
    """Return the text of a file of settings; UserError where it is none, or too large."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe would wait for a writer
            raise UserError(f"{path}: cannot be read: it is not a file")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise UserError(f"{path}: cannot be read: it has more than {MOST_BYTES:,} bytes")
        return content.decode()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # UnicodeDecodeError, or a path that no file can have
        raise UserError(f"{path}: cannot be read: {error}") from None


def compose(path: Path) -> tuple[Any, Any]:
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
    """Refuse keys that are no text or stand twice, and values that are not JSON's or cannot be built."""
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
            fail(f"{of}the key '{shown(word)}' is no text: put it in quotes", line)
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
        return f"is no {what}: correct it, or put it in quotes"
    if kind == "int" and value not in _WHOLE_NUMBERS:
        return "is a number beyond 64 bits: put it in quotes"
    return None

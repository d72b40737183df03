"""Counts the names, comments, messages and sizes that the house avoids: `python -m tests.house`.

A count above its limit fails. Limits only fall: lower one where its count has fallen.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("ann_benchmarks", "algorithms", "tiers", "benchmarks")
LONGEST_FILE, MOST_PARAMETERS = 300, 7
PREPOSITION_OR_PRONOUN = re.compile(
    "_*(of|as|at|besides?|after|before|between|by|for|how|in|on|over|per|since|under|what|when|where|which|who|whose|why"
    "|with|without|it|its|they|them|this|these|those)(_|$)"
)
Finds = Iterator[tuple[int, str]]  # numbers of lines, and what is wrong there


@dataclass(frozen=True)
class Rule:
    """Something to avoid: what finds it in a text, how often it may occur, and what to write instead."""

    name: str
    find: Callable[[str, ast.Module], Finds]
    limit: int
    instead: str


def match_lines(expression: str) -> Callable[[str, ast.Module], Finds]:
    """Return what finds the lines that the regular expression matches."""

    def find(text: str, _: ast.Module) -> Finds:
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(expression, line):
                yield number, line.strip()

    return find


def find_names(_: str, tree: ast.Module) -> Finds:
    """Yield the functions whose names begin with a preposition or a pronoun."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and PREPOSITION_OR_PRONOUN.match(node.name):
            yield node.lineno, node.name


def find_wide(_: str, tree: ast.Module) -> Finds:
    """Yield the functions with too many parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if len({each.arg for each in parameters} - {"self", "cls"}) > MOST_PARAMETERS:
                yield node.lineno, node.name


def find_long(text: str, tree: ast.Module) -> Finds:
    """Yield the length of a file of Python that is too long."""
    if tree.body and text.count("\n") > LONGEST_FILE:
        yield LONGEST_FILE, f"{text.count(chr(10))} lines"


RELATIVE = r"# (which|that|who|whose|of which|from which|where|as) "
NEGATED_NOUN = r"\b(is|are) (no(?! longer| lower)|none)\b"  # "is no longer" is English
RULES = (
    Rule("functions named by a preposition or pronoun", find_names, 0, "a verb, or a noun for a property"),
    Rule("comments that are a relative clause", match_lines(RELATIVE), 0, "a sentence"),
    Rule('"is no X" and "is none"', match_lines(NEGATED_NOUN), 2, "what must be true"),
    Rule("functions with more than 7 parameters", find_wide, 0, "a value that holds what belongs together"),
    Rule("files with more than 300 lines", find_long, 0, "two files that can be read alone"),
)


def main() -> int:
    """Print each count, and what exceeds its limit; return the exit status."""
    files = [*ROOT.glob("*.py"), *ROOT.glob("docs/*.md"), ROOT / "README.md"]
    files += [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    linked = ROOT / "ann_benchmarks/algorithms"  # the same files as algorithms/
    texts = {path.relative_to(ROOT): path.read_text() for path in sorted(files) if linked not in path.parents}
    trees = {path: ast.parse(text if path.suffix == ".py" else "") for path, text in texts.items()}
    failed = False
    for rule in RULES:
        found = [f"{path}:{n}: {what}" for path in texts for n, what in rule.find(texts[path], trees[path])]
        print(f"{rule.name}: {len(found)} (limit {rule.limit})")
        if len(found) > rule.limit:
            print(*found, f"write {rule.instead} instead", sep="\n")
        elif len(found) < rule.limit:
            print(f"lower this limit in tests/house.py to {len(found)}")
        failed |= len(found) > rule.limit
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

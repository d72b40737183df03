"""The house as docs/house.md draws it: floors, one adapter for plug-ins, and one table of their methods."""

import re
from pathlib import Path

import pytest

from ann_benchmarks.plugin import ATTRIBUTES, METHODS

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("kind", "names"), [("methods", METHODS), ("attributes", ATTRIBUTES)])
def test_the_tables_of_plugins_are_what_the_adapter_looks_for(kind: str, names: tuple[str, ...]):
    text = (ROOT / "docs/plugins.md").read_text()
    table = text[text.index(f"<!-- {kind} -->") : text.index(f"<!-- /{kind} -->")]
    assert sorted(re.findall(r"^\| `(\w+)", table, re.M)) == sorted(names)


def test_nothing_but_the_adapter_looks_for_methods():
    files = [*ROOT.glob("ann_benchmarks/**/*.py"), *ROOT.glob("tiers/*.py"), *ROOT.glob("*.py")]
    looking = [str(path) for path in files if re.search(r"\bhasattr\(", path.read_text())]
    assert [path for path in looking if "/algorithms/" not in path] == []

"""The pages for readers: their links lead somewhere, and their commands have only options that exist."""

import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from .programs import call_program

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "docs/examples/README.md",
         ROOT / "reference/README.md"]  # fmt: skip
README_LINES = 120
COMMAND = re.compile(r"python (?:\S+/)?((?:\w+\.py)|-m tiers sweep)\b([^`]*)")


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@cache
def options_of(command: str) -> set[str]:
    first, *words = command.split()
    if first == "-m":
        called = [sys.executable, first, *words, "--help"]
        shown = subprocess.run(called, cwd=ROOT, capture_output=True, text=True, check=True)
    else:
        shown = call_program(first, *words, "--help", cwd=ROOT)
        assert shown.returncode == 0, shown.stderr
    return set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", shown.stdout))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_have_only_options_that_exist(page):
    text = page.read_text().replace("\\\n", " ")
    for script, arguments in COMMAND.findall(re.sub(r" #.*", "", text)):
        for option in re.findall(r"(?<=\s)--?[a-zA-Z][\w-]*", arguments.partition("\n")[0]):
            known = any(name.startswith(option) for name in options_of(script))
            assert known, f"{script} has no option {option}"


def test_the_readme_stays_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_parts_of_the_code_exist(page):
    text = page.read_text()
    for path in re.findall(r"`((?:ann_benchmarks|algorithms|tiers|benchmarks|experiments)/[\w/.-]*)`", text):
        assert (ROOT / path).exists() or "NAME" in path or "sampled" in path, path
    imports = re.findall(r"^ *from ((?:ann_benchmarks|tiers)[\w.]*) import ([\w, ]+)$", text, re.MULTILINE)
    for module, names in imports:
        assert all(hasattr(import_module(module), name) for name in names.split(", ")), module

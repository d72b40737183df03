"""The pages for readers: links lead somewhere, commands are accepted, and messages are those of the code."""

import argparse
import re
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.layout import COMMANDS
from ann_benchmarks.results.metrics import all_metrics

from .programs import ROOT, call_program

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "docs/examples/README.md",
         ROOT / "reference/README.md"]  # fmt: skip
SCRIPTS = sorted(path.name for path in ROOT.glob("*.py"))
README_LINES = 100
MODULES = "tiers|benchmarks|algorithms|ann_benchmarks"
COMMAND = re.compile(
    rf"(?:python (?:\S+/)?|(?<!\S)annpg )(\w+\.py|-m (?:{MODULES})[\w.]*|(?<=annpg )[a-z]+)([^`\n]*)"
)
OTHERS_OPTIONS = {"--cpus", "--gpus", "--interleave", "--network", "--rm", "--scope", "--tmpfs", "--user"}


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def read_code(page: Path) -> tuple[str, list[str]]:
    """Return a page without code of Python, each `code` of its text on one line, and these."""
    text = re.sub(r"^```python.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"(?<!`)`[^`]+`", lambda code: code[0].replace("\n", " "), text)
    return text, re.findall(r"(?<!`)`([^`\n]+)`", text)


def commands(page: Path) -> Iterator[tuple[str, str]]:
    """Yield each command of a page: a script or `-m` and a module, and its arguments."""
    return iter(COMMAND.findall(re.sub(r" +#.*", "", read_code(page)[0].replace("\\\n", " "))))


@cache
def all_options() -> set[str]:
    """The options of all commands, and those of other programs that the pages name."""
    shown = [call_program(script, "--help", cwd=ROOT) for script in SCRIPTS]
    assert [each.stderr for each in shown if each.returncode] == []
    files = [path for room in MODULES.split("|") for path in (ROOT / room).rglob("*.py")]
    texts = [*(each.stdout for each in shown), *(path.read_text() for path in files)]
    found = {option for text in texts for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", text)}
    claims = " ".join(
        path.read_text() for path in (ROOT / "benchmarks").glob("*.py")
    )  # OPTIONS = {"name": ...}
    return (
        OTHERS_OPTIONS | found | {f"--{name.replace('_', '-')}" for name in re.findall(r'"(\w+)":', claims)}
    )


def by_page(test):
    return pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))(test)


@by_page
def test_links_lead_to_files_and_headings(page):
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@by_page
def test_a_table_is_whole(page):
    blocks = re.findall(r"(?:^\|.*\n)+", page.read_text(), re.MULTILINE)
    assert [block for block in blocks if not re.match(r".*\n\|[ :|-]+\|\n\|", block)] == []


class Accepted(Exception):
    """A command line was understood; what it requests is not done."""


@by_page
def test_commands_are_accepted_as_pasted(page, monkeypatch, tmp_path):
    parse = argparse.ArgumentParser.parse_args

    def parse_only(*arguments, **settings):
        parse(*arguments, **settings)
        raise Accepted

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT)
    for name in ("prices", "experiments"):
        (tmp_path / name).symlink_to(ROOT / name)
    modules = {name: each.module for each in COMMANDS for name in (each.name, each.script)}
    for called, words in commands(page):
        words = re.split(r"[|<;&>)]", words)[0]
        if not words.strip() or "..." in words or "--experiment NAME" in words:
            continue
        module = modules.get(called, f"{called[3:]}.__main__")
        monkeypatch.setattr(sys, "argv", [called, *shlex.split(words)])
        try:
            import_module(module).main()
        except Accepted:
            pass
        except UserError as error:  # report.py has understood its options when it looks for results
            assert called in ("report.py", "report") and "results/ is empty" in str(error), (called, words)
        except SystemExit:
            pytest.fail(f"not accepted: {called} {words}")


@by_page
def test_named_options_exist(page):
    codes = read_code(page)[1]
    named = {option for code in codes for option in re.findall(r"(?<!\S)--[a-z][\w-]*", code)}
    assert named - all_options() == set()


def test_messages_of_the_troubleshooting_page_are_in_the_code():
    files = [path for room in MODULES.split("|") for path in (ROOT / room).rglob("*.py")]
    code = " ".join(path.read_text() for path in files) + (ROOT / "Makefile").read_text()
    code = re.sub(r"\"\s+f?\"", "", code)  # a message on several lines
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/troubleshooting.md").read_text(), re.MULTILINE)
    messages = {message for row in rows for message in re.findall("`([^`]+)`", row)} - {"Illegal instruction"}
    assert [message for message in sorted(messages) if message not in code] == []
    assert len(messages) > 20


def test_every_metric_is_explained():
    text = (ROOT / "docs/plotting.md").read_text()
    assert [name for name in all_metrics if f"`{name}`" not in text] == []


def test_the_index_names_every_page():
    index = (ROOT / "docs/README.md").read_text()
    pages = [path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md"]
    assert [name for name in pages if f"({name}" not in index] == []


def test_the_readme_stays_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES


@by_page
def test_named_parts_of_the_code_exist(page):
    text = page.read_text()
    for path in re.findall(r"`((?:ann_benchmarks|algorithms|tiers|benchmarks|experiments)/[\w/.-]*)`", text):
        assert (ROOT / path).exists() or "NAME" in path or "sampled" in path, path
    imports = re.findall(r"^ *from ((?:ann_benchmarks|tiers)[\w.]*) import ([\w, ]+)$", text, re.MULTILINE)
    for module, names in imports:
        assert all(hasattr(import_module(module), name) for name in names.split(", ")), module

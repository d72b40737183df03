"""The house as docs/house.md draws it: floors, one adapter for plug-ins, and one table of their methods."""

import re
import shutil
import subprocess
import sys
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


@pytest.mark.parametrize(
    ("file", "line", "broken"),
    [
        ("ann_benchmarks/common/errors.py", "import ann_benchmarks.results.file", "floors"),
        (
            "ann_benchmarks/jobs/job.py",
            "from ann_benchmarks.algorithms.postgres import catalog",
            "no database",
        ),
        ("tiers/sweep.py", "import ann_benchmarks.algorithms.postgres.catalog", "no database"),
        ("ann_benchmarks/results/measurement.py", "from . import runs", "circles"),
        ("ann_benchmarks/common/files.py", "import algorithms.postgres", "no database"),
        ("ann_benchmarks/common/files.py", "import run", "no command"),
        ("algorithms/bruteforce/module.py", "import ann_benchmarks.results.file", "Plug-ins"),
    ],
)
def test_who_breaks_a_floor_is_told(tmp_path: Path, file: str, line: str, broken: str):
    for name in ("ann_benchmarks", "algorithms", "tiers"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / file).open("a") as changed:
        changed.write(f"if TYPE_CHECKING:\n    {line}\n")
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert re.search(rf"{broken}.* BROKEN", done.stdout)

"""The wheel, installed outside of the checkout: what a user has who has no checkout."""

import grp
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from ann_benchmarks.common import VERSION
from ann_benchmarks.common.layout import COMMANDS

from .postgres_fixtures import clustered
from .programs import PATIENCE, ROOT

pytestmark = pytest.mark.thorough
Annpg = Callable[..., "subprocess.CompletedProcess[str]"]
PLUGIN = """
import numpy
from ann_benchmarks.algorithms.base.module import BaseANN

class Exact(BaseANN):
    def __init__(self, metric): self.name = "exact"
    def fit(self, X): self.rows = X / numpy.linalg.norm(X, axis=1)[:, None]
    def query(self, q, n): return numpy.argsort(-(self.rows @ q))[:n]
"""
CONFIG = """
float: {any: [{name: mine, module: ann_benchmarks.algorithms.mine, constructor: Exact, docker_tag: mine,
               base_args: ['@metric'], run_groups: {all: {args: []}}}]}
"""


def done(command: list[object], **options: object) -> "subprocess.CompletedProcess[str]":
    how = {"capture_output": True, "text": True, "timeout": 300 * PATIENCE, **options}
    return subprocess.run(list(map(str, command)), **how)  # type: ignore[call-overload, no-any-return]


@pytest.fixture(scope="module")
def annpg(tmp_path_factory: pytest.TempPathFactory) -> Annpg:
    """Run the command of a wheel, in an environment that has this one's packages, and not the checkout."""
    folder = tmp_path_factory.mktemp("package")
    folder.chmod(0o755)
    source = folder / "source"
    names = done(["git", "ls-files", "-z", "-c", "-o", "--exclude-standard"], cwd=ROOT).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).exists() or (ROOT / name).is_symlink():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name, follow_symlinks=False)
    isolation = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    built = done([sys.executable, "-m", "pip", "wheel", *isolation, "--no-deps", "-w", folder, source])
    assert built.returncode == 0, built.stdout + built.stderr
    shutil.rmtree(source)
    [wheel] = folder.glob("*.whl")
    environment = folder / "environment"
    assert done([sys.executable, "-m", "venv", "--without-pip", environment]).returncode == 0
    scheme = {"base": environment, "platbase": environment}
    packages = Path(sysconfig.get_path("purelib", "venv", scheme))
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    python = environment / "bin" / "python"
    options = ["--no-deps", "--no-index", "--no-compile", "--ignore-installed"]
    installed = done([python, "-m", "pip", "install", *options, wheel])
    assert installed.returncode == 0, installed.stderr
    place = folder / "empty"
    place.mkdir()
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*words: object, **more: str) -> "subprocess.CompletedProcess[str]":
        return done([environment / "bin" / "annpg", *words], cwd=place, env=variables | more)

    run.place = place  # type: ignore[attr-defined]
    return run


def test_what_there_is_can_be_seen(annpg: Annpg):
    assert annpg("--version").stdout == f"annpg {VERSION}\n"
    help_text = annpg("--help").stdout
    assert all(f"  {command.name}" in help_text for command in COMMANDS)
    share = Path(help_text.split()[-1])
    for name in ("experiments/choose.yml", "prices/example.yml", "reference/storage.yml", "docs/words.md"):
        assert (share / name).read_bytes() == (ROOT / name).read_bytes()
    for folder, wanted in (("algorithms", "*"), ("ann_benchmarks/website", "*.js")):
        there = share.parents[1] / (folder if "/" in folder else f"ann_benchmarks/{folder}")
        files = [path for path in (ROOT / folder).rglob(wanted) if path.is_file() and path.suffix != ".pyc"]
        assert files and all((there / path.relative_to(ROOT / folder)).is_file() for path in files)
    failed = annpg("chose")
    assert (failed.returncode, failed.stderr) == (
        1,
        "error: unknown command 'chose': did you mean 'choose'?\n",
    )
    wrong = annpg("run", "--count", "0")
    assert wrong.returncode == 2 and wrong.stderr.startswith("annpg run: error: ")
    assert len(wrong.stderr.splitlines()) == 1


def test_a_shell_completes_commands_options_and_names(annpg: Annpg):
    place: Path = annpg.place  # type: ignore[attr-defined]
    (place / "rows.npy").touch()
    script = annpg("completion", "bash").stdout
    for line, completed in {
        "annpg pl": "plot",
        "annpg choose ro": "rows.npy",
        "annpg choose rows.npy --min": "--mini",
        "annpg run --algorithm pgvector_hnsw pgvector_ivfflat_h": "pgvector_ivfflat_halfvec",
        "annpg tiers sweep --dataset random-xs-20-a": "random-xs-20-angular",
    }.items():
        typed = f"COMP_WORDS=({line}); COMP_CWORD={line.count(' ')}; _shtab_annpg; echo ${{COMPREPLY[*]}}"
        said = done(["bash", "-c", f"{script}\n{typed}"], cwd=place)
        assert said.stdout.split() == [completed], said.stderr


def test_from_a_file_to_an_answer(annpg: Annpg):
    place: Path = annpg.place  # type: ignore[attr-defined]
    np.save(place / "my.npy", clustered(600, 8))
    said = annpg(
        "choose",
        "my.npy",
        "--mini",
        *("--clients", "1", "--warmup", "20", "--budget", "1s", "--until", "90%"),
    )
    assert said.returncode == 0, said.stdout + said.stderr
    assert "annpg run --algorithm pgvector_hnsw" in said.stdout and ".py" not in said.stdout
    assert "The answer for my, k = 10:" in said.stdout
    report = (place / "reports/choose-mini/report.md").read_text()
    assert "annpg run --experiment choose --mini --local --dataset my" in report
    drawn = annpg("plot", "--dataset", "my", "-o", "my.svg")
    assert drawn.returncode == 0 and (place / "my.svg").stat().st_size > 1000, drawn.stderr
    written = annpg("report", "--dataset", "my")
    assert written.returncode == 0 and (place / "reports/my/report.html").exists(), written.stderr
    assert annpg("export", "--output", "all.parquet").returncode == 0
    assert set(pyarrow.parquet.read_table(place / "all.parquet")["dataset"].to_pylist()) == {"my"}


def test_own_plugins_are_those_of_the_current_folder(annpg: Annpg):
    place: Path = annpg.place  # type: ignore[attr-defined]
    own = place / "algorithms" / "mine"
    own.mkdir(parents=True)
    (own / "module.py").write_text(PLUGIN)
    (own / "config.yml").write_text(CONFIG)
    assert "mine" in json.loads(annpg("run", "--list-algorithms", "--json").stdout)
    words = ("--local", "--algorithm", "mine", "--dataset", "random-xs-20-angular", "--runs", "1")
    said = annpg("run", *words, ANN_BENCHMARKS_DATA="elsewhere")
    assert said.returncode == 0 and "recall 1.0" in said.stdout, said.stdout + said.stderr
    assert [path.name for path in (place / "elsewhere").glob("*.hdf5")] == ["random-xs-20-angular.hdf5"]
    other_group = next(group.gr_gid for group in grp.getgrall() if group.gr_name == "users")
    groups = [(0o775, 0, 0), (0o775, other_group, 1)] if os.geteuid() == 0 else []
    for mode, group, status in [*groups, (0o777, os.getegid(), 1)]:
        os.chown(place / "algorithms", -1, group)
        (place / "algorithms").chmod(mode)
        said = annpg("run", "--list-algorithms")
        assert (said.returncode, "must be writable by you alone" in said.stderr) == (status, status == 1)

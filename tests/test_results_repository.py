"""The template of a results repository: its workflow checks each changed bundle, whatever is in it."""

import os
import re
import shutil
import subprocess

import pytest
import yaml

from .programs import ROOT

pytestmark = pytest.mark.thorough

TEMPLATE = ROOT / "templates" / "results-repository"
# In the place of Python, so that no checker is needed: it notes its arguments and refuses what is called bad.
STAND_IN = """#!/usr/bin/env bash
printf '%s\\n' "$*" >> "$CALLS"
[[ $* != *bad* ]]
"""


@pytest.fixture(scope="module")
def job():
    workflow = yaml.safe_load((TEMPLATE / ".github" / "workflows" / "check.yml").read_text())
    assert workflow["permissions"] == {} and [*workflow["jobs"]] == ["check"]
    assert workflow[True] == {"pull_request": None}  # "on"; pull_request_target would give strangers rights
    return workflow["jobs"]["check"]


def git(folder, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    """A base with two bundles, one of which the next commit is to change."""
    for name in ("old", "gone", "changed"):
        (tmp_path / "results" / "submissions" / name).mkdir(parents=True)
        (tmp_path / "results" / "submissions" / name / "manifest.json").write_text("{}")
    (tmp_path / "benchmark").mkdir()
    git(tmp_path / "results", "init", "-q")
    commit(tmp_path)
    return tmp_path


def commit(repository):
    git(repository / "results", "add", "-A")
    git(repository / "results", "commit", "-qm", "x")


def check(repository, job):
    """Run the step that checks; return its exit status and what Python was called with."""
    (script,) = [step["run"] for step in job["steps"] if step.get("name") == "Check the bundles"]
    programs = repository / "programs"
    programs.mkdir()
    (programs / "python").write_text(STAND_IN)
    (programs / "python").chmod(0o755)
    calls = repository / "calls"
    calls.touch()
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "CALLS": str(calls)}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    done = subprocess.run(
        command, cwd=repository / "benchmark", env=environment, capture_output=True, text=True, timeout=30
    )
    assert done.stdout.startswith("::stop-commands::") and not done.stderr
    return done.returncode, calls.read_text().splitlines()


def test_each_changed_bundle_is_checked_and_no_other(repository, job):
    submissions = repository / "results" / "submissions"
    shutil.rmtree(submissions / "gone")
    (submissions / "changed" / "more.txt").write_text("x")
    (submissions / "$(touch hacked) ; x").mkdir()
    (submissions / "$(touch hacked) ; x" / "manifest.json").write_text("{}")
    commit(repository)
    status, calls = check(repository, job)
    command = "-m ann_benchmarks.submission check ../results/submissions"
    assert status == 0 and calls == [f"{command}/$(touch hacked) ; x", f"{command}/changed"]
    assert not list(repository.rglob("hacked"))


@pytest.mark.parametrize("how", ["refused", "link"])
def test_a_bundle_that_is_refused_or_a_link_fails_the_job(repository, job, how):
    submissions = repository / "results" / "submissions"
    (submissions / "new").mkdir()
    (submissions / "new" / "manifest.json").write_text("{}")
    if how == "link":
        (submissions / "a-link").symlink_to("/etc")
    else:
        (submissions / "bad").mkdir()
        (submissions / "bad" / "manifest.json").write_text("{}")
    commit(repository)
    status, calls = check(repository, job)
    assert status == 1 and calls[-1].endswith("submissions/new")  # the others are checked all the same


def test_actions_are_pinned_and_get_no_rights(job):
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert len(used) == 3 and all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", one) for one in used)
    assert job["permissions"] == {"contents": "read"}
    checkouts = [step["with"] for step in job["steps"] if "checkout" in step.get("uses", "")]
    assert all(one["persist-credentials"] is False for one in checkouts)


def test_git_leaves_the_files_of_bundles_as_they_are(tmp_path):
    (tmp_path / "submissions").mkdir()
    (tmp_path / ".gitattributes").write_bytes((TEMPLATE / ".gitattributes").read_bytes())
    (tmp_path / "submissions" / "log.txt").write_bytes(b"a\r\nb\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "core.autocrlf", "true")
    git(tmp_path, "add", "-A")
    stored = subprocess.run(
        ["git", "cat-file", "blob", ":submissions/log.txt"], cwd=tmp_path, check=True, capture_output=True
    )
    assert stored.stdout == b"a\r\nb\n"

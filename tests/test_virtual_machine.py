"""The parts of tests/virtual_machine that need no machine: which trials there are, and what is refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from .virtual_machine.image import ACCOUNT, missing_programs
from .virtual_machine.inside import TRIALS

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]


def said(*options: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.virtual_machine", *options]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)


def test_trials_are_listed_and_chosen_by_the_beginning_of_their_names():
    done = said("--list", "--only", "user-", "kill-SIGTERM-")
    assert done.returncode == 0, done.stderr
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert names == [name for name in TRIALS if name.startswith(("user-", "kill-SIGTERM-"))]
    victims = ("run.py", "worker", "server", "hugepages", "user")
    assert set(names) >= {f"kill-SIGTERM-{victim}" for victim in victims}


def test_a_trial_that_is_not_there_is_one_line():
    done = said("--only", "kil-SIGTERM-worker")
    assert done.returncode == 1
    assert done.stderr == ("error: unknown trial 'kil-SIGTERM-worker': did you mean 'kill-SIGTERM-worker'?\n")


def test_programs_that_are_missing_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "qemu-system-x86_64" in missing_programs()
    done = said("--only", "facts", "--keep", str(tmp_path), PATH=str(tmp_path))
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: qemu-system-x86_64, ") and "apt install" in done.stderr
    assert not list(tmp_path.iterdir())


def test_every_trial_is_of_an_account_that_is_there():
    assert {trial.account for trial in TRIALS.values()} == {"root", ACCOUNT}
    assert all(trial.minutes > 0 for trial in TRIALS.values())

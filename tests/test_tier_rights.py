"""What a user is sent to who may not hold memory back: to what is there, and never in a circle."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ann_benchmarks.common.errors import UserError
from tiers import holding, options, sweep
from tiers import machine as machines
from tiers.groups import CPUS
from tiers.limits import advice_for
from tiers.machine import ways_out
from tiers.options import choose_method

from .programs import PATIENCE

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(sys.platform != "linux", reason="tiers need Linux")]

SCOPE = "run it by `systemd-run --user --scope -p Delegate=yes python ...`"
NOBODY = 65534
AS_NOBODY = """
import os, sys
from tiers.options import choose_method
from ann_benchmarks.common.errors import UserError
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    print(choose_method(sys.argv[1]))
except UserError as error:
    print("refused:", error)
"""


def test_an_ordinary_user_is_sent_to_what_there_is(monkeypatch: pytest.MonkeyPatch):
    found = "leave --local out, to measure in containers, or run it as root"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(machines.shutil, "which", lambda name: None)
    assert ways_out() == found
    monkeypatch.setattr(machines.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert ways_out() == f"log in as this user, not by su or sudo, and {SCOPE}, or {found}"
    monkeypatch.setattr(os, "geteuid", lambda: 0)  # root lacks rights in containers only
    assert ways_out().startswith("start the container with --privileged, or")


def test_a_controller_that_systemd_does_not_hand_down():
    group = Path("/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope")
    assert "have an administrator add cpuset to the line Delegate=" in advice_for("cpuset", group)


@pytest.mark.parametrize("method", ["auto", "cgroup", "hugepages"])
def test_an_ordinary_user_is_refused_before_anything_is_built(method: str, tmp_path: Path):
    """Unless the account has a group of its own; and it is sent to no method that takes rights, too.

    It has become this user by `su`, so that XDG_RUNTIME_DIR is a folder that it may not enter.
    """
    (tmp_path / "closed").mkdir(mode=0)
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, method],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=60 * PATIENCE,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "closed")},
    )  # fmt: skip
    assert done.stderr == ""
    said = done.stdout.strip()
    assert said == "cgroup" or said.startswith("refused: ")
    assert "tier-method" not in said
    if method == "auto" and said != "cgroup":
        assert "huge pages" not in said or "control group" not in said


def test_auto_takes_what_there_is(monkeypatch: pytest.MonkeyPatch):
    def refuse(*arguments: object) -> None:
        raise UserError("no groups" if arguments else "no pages")

    monkeypatch.setattr(options, "require_rights", lambda: None)
    monkeypatch.setattr(options, "choose_groups", lambda *arguments: [])
    assert choose_method("auto") == "cgroup"
    monkeypatch.setattr(options, "choose_groups", refuse)
    assert choose_method("auto") == "hugepages"
    monkeypatch.setattr(options, "require_rights", refuse)
    for place, why in ((object(), "no groups"), (None, "no pages")):
        monkeypatch.setattr(options, "find_place", lambda controller, place=place: place)
        with pytest.raises(UserError, match=why):
            choose_method("auto")


def test_another_system_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UserError, match="tiers need Linux"):
        choose_method("auto")


def test_a_limit_that_cannot_be_is_refused_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """As that of CPUs where systemd has handed a user memory alone."""

    def choose(controllers: list[str], name: str) -> list[object]:
        if CPUS in controllers:
            raise UserError("no right to limit the CPUs")
        return []

    monkeypatch.setattr(holding, "choose_groups", choose)
    monkeypatch.setattr(sweep, "check_capacity", lambda tiers, method, servers: None)
    server = SimpleNamespace(check=lambda tiers: None, folders=lambda kind, count: [tmp_path])
    assert len(sweep.Sweep("32MB:256MB", "cgroup", server).conditions(1000, 8)) == 1
    with pytest.raises(UserError, match="no right to limit the CPUs"):
        sweep.Sweep("32MB:256MB,32MB:256MB+1cpus", "cgroup", server).conditions(1000, 8)

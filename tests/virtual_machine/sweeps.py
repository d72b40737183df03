"""Trials of sweeps over tiers, by root and by an ordinary user, on the machine and in containers."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from .image import ACCOUNT, CONTAINER_ROOT, IMAGE
from .trial import (
    LARGE,
    ROOT,
    SMALL,
    NotThere,
    home,
    measured,
    points,
    require_nothing_held,
    run,
    sweep_command,
    trial,
    work_folder,
)

SCOPE = ("systemd-run", "--user", "--scope", "-p", "Delegate=yes")
_DELEGATION = "/etc/systemd/system/user@.service.d"
_TESTS = (
    *("tier_parse", "tier_memory", "tier_rights", "tier_holding", "tier_safety", "tier_external", "tiers"),
    *("cooling", "monitoring", "monitoring_postgres", "watching", "servers"),
)


@trial("facts")
def facts() -> None:
    """Print what the machine is."""
    run("uname", "-r")
    run("systemctl", "--version")
    run("docker", "--version")
    run(sys.executable, "--version")
    run("cat", "/proc/self/cgroup", "/sys/fs/cgroup/cgroup.controllers", "/proc/meminfo")
    run("systemctl", "--failed")


@trial("root-cgroup")
def root_cgroup() -> None:
    """Two tiers by control group, with a CPU and a disk."""
    work_folder("root-cgroup")
    out = measured(4, "--local", "--tiers", f"{SMALL},{LARGE}", "--tier-method", "cgroup", "--clients", "1,4")
    assert f"{LARGE} by cgroup, {SMALL} by cgroup" in out


@trial("root-rounds")
def root_rounds() -> None:
    """Two tiers by control group, in each of which one client and four have their turns."""
    work_folder("root-rounds")
    measured(4, "--local", "--tiers", f"{SMALL},{LARGE}", "--clients", "1,4", "--rounds", "2")
    _require_rounds()


def _require_rounds() -> None:
    assert all(point["rounds_ended"] == "rounds" for point in points().values())


@trial("root-hugepages")
def root_hugepages() -> None:
    """A tier by huge pages."""
    work_folder("root-hugepages")
    measured(1, "--local", "--tiers", "48MB:2GB", "--tier-method", "hugepages", "--clients", "2")


@trial("root-systemd")
def root_systemd() -> None:
    """systemd starts and ends units with limits of their own meanwhile: those of the tier stay."""
    from ann_benchmarks.common.numbers import MB
    from tiers.holding import Holding
    from tiers.tier import Disk, Tier

    work_folder("root-systemd")
    with Holding("cgroup", [home()]) as holding:
        holding.apply(Tier(ram=256 * MB, cpus=1, disk=Disk("gp3", 3000, 125_000_000)))
        before = dict(holding.limits)
        print(before, flush=True)
        assert len(before) == 2, "a limit was not set"
        for name in (_slice(), "system.slice", _slice()):
            unit = ("systemd-run", "--wait", "-q", f"--slice={name}")
            run(*unit, "-p", "AllowedCPUs=0", "-p", "IOWeight=200", "-p", "MemoryHigh=1G", "true")
            assert {file: file.read_text() for file in before} == before, f"changed by a unit in {name}"
        run("systemctl", "daemon-reload")
        assert {file: file.read_text() for file in before} == before, "changed by a reload"
    require_nothing_held()


def _slice() -> str:
    """The slice of this session."""
    parts = Path("/proc/self/cgroup").read_text().strip().split("/")
    return next(part for part in reversed(parts) if part.endswith(".slice"))


@trial("user-without-delegation", ACCOUNT)
def user_without_delegation() -> None:
    """An ordinary user in a login session is told in one line what to do."""
    work_folder("user-without")
    for method in ("auto", "cgroup", "hugepages"):
        out = run(*sweep_command("--local", "--tiers", "32MB:256MB", "--tier-method", method), status=1)
        (line,) = (line for line in out.splitlines() if line.startswith("error:"))
        assert "systemd-run --user --scope -p Delegate=yes" in line, line


@trial("user-memory", ACCOUNT)
def user_memory() -> None:
    """An ordinary user's sweep in a delegated scope, with limits on memory."""
    work_folder("user-memory")
    measured(2, "--local", "--tiers", f"32MB:256MB,{LARGE}", "--clients", "2", before=SCOPE)


@trial("user-cpus-and-disk", ACCOUNT)
def user_cpus_and_disk() -> None:
    """CPUs and disks are not an ordinary user's as systemd comes; the message says so, in one line."""
    work_folder("user-cpus-and-disk")
    for part in ("1cpus", "gp3"):
        out = run(*SCOPE, *sweep_command("--local", "--tiers", f"32MB:256MB+{part}"), status=1)
        (line,) = (line for line in out.splitlines() if line.startswith("error:"))
        assert "Delegate=cpu memory pids" in line and "building" not in out and not points(), line


@trial("root-delegates", minutes=3)
def root_delegates() -> None:
    """Root hands cpuset and io on to users, as docs/tiers.md says, and Docker to this one."""
    folder = Path(_DELEGATION)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "delegate.conf").write_text("[Service]\nDelegate=cpu cpuset io memory pids\n")
    run("systemctl", "daemon-reload")
    run("systemctl", "stop", "user@1000.service")
    run("usermod", "-aG", "docker", ACCOUNT)


@trial("user-all", ACCOUNT)
def user_all() -> None:
    """With cpuset and io handed on by systemd, a user's sweep limits all three."""
    if not Path(_DELEGATION).exists():
        raise NotThere("the trial root-delegates has not run")
    work_folder("user-all")
    measured(2, "--local", "--tiers", f"{SMALL},{LARGE}", "--clients", "2", before=SCOPE)


@trial("docker-run")
def docker_run() -> None:
    """A small run in a container, as root."""
    _start_docker()
    work_folder("docker-run")
    run(*sweep_command("--memory", "1g", "--clients", "2"))
    assert len(points()) == 1
    assert not run("docker", "ps", "-aq").strip(), "a container is left"


@trial("docker-rounds")
def docker_rounds() -> None:
    """Rounds in a container, as root."""
    _start_docker()
    work_folder("docker-rounds")
    run(*sweep_command("--memory", "1g", "--clients", "1,4", "--rounds", "2"))
    assert len(points()) == 2
    _require_rounds()
    assert not run("docker", "ps", "-aq").strip(), "a container is left"


def _start_docker() -> None:
    """Start it, with the image of the definition."""
    run("systemctl", "start", "docker")
    run("docker", "version")
    if "ann-benchmarks" not in run("docker", "images"):
        bin_folder = "/usr/lib/postgresql/17/bin"
        changes = (
            "ENV PATH=/opt/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "WORKDIR /home/app",
            f"ENV ANN_BENCHMARKS_PG_SERVER=installed ANN_BENCHMARKS_PG_BIN={bin_folder}",
            "ENV ANN_BENCHMARKS_PG_DATA=/home/app/storage",
            'LABEL ann-benchmarks.environment="ANN_BENCHMARKS_PG_SETTINGS"',
        )
        words = [word for change in changes for word in ("--change", change)]
        run("docker", "import", *words, f"/{CONTAINER_ROOT}", IMAGE)


@trial("docker-tiers", ACCOUNT, minutes=60)
def docker_tiers() -> None:
    """Tiers in containers, as an ordinary user of the group docker."""
    work_folder("docker-tiers")
    measured(2, "--tiers", f"{SMALL},{LARGE}", "--clients", "2")
    assert not run("docker", "ps", "-aq").strip(), "a container is left"


def tests(name: str) -> Callable[[], None]:
    """Return what runs the project's tests of a file."""

    def act() -> None:
        work_folder(f"tests-{name}")
        del os.environ["ANN_BENCHMARKS_PG_DATA"]  # each has folders of its own
        environment = {**os.environ, "TMPDIR": "/var/tmp", "ANN_BENCHMARKS_TEST_PATIENCE": "15"}
        options = ["-vv", "-rs", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", *options, f"tests/test_{name}.py"]
        assert subprocess.run(command, cwd=ROOT, env=environment).returncode == 0, "tests failed"

    return act


for _name in _TESTS:
    trial(f"tests-{_name}", minutes=120)(tests(_name))

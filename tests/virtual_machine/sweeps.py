"""Trials of sweeps over tiers, by root and by an ordinary user."""

from pathlib import Path

from .image import ACCOUNT
from .trial import (
    LARGE,
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
    """Root hands cpuset and io on to users, as docs/tiers.md says."""
    folder = Path(_DELEGATION)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "delegate.conf").write_text("[Service]\nDelegate=cpu cpuset io memory pids\n")
    run("systemctl", "daemon-reload")
    run("systemctl", "stop", "user@1000.service")


@trial("user-all", ACCOUNT)
def user_all() -> None:
    """With cpuset and io handed on by systemd, a user's sweep limits all three."""
    if not Path(_DELEGATION).exists():
        raise NotThere("the trial root-delegates has not run")
    work_folder("user-all")
    measured(2, "--local", "--tiers", f"{SMALL},{LARGE}", "--clients", "2", before=SCOPE)

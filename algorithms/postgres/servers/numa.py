"""Memory of several nodes: a server's buffers are spread over all of them, so that no core is favoured."""

import re
import shutil
import subprocess
from pathlib import Path

NODES = Path("/sys/devices/system/node")
PROCESSES = Path("/proc")


def interleaving(nodes: Path = NODES) -> list[str]:
    """Return what to put before a program so that its memory comes from all nodes in turn; often nothing.

    Some containers forbid it, which is found out by trying.
    """
    numactl = shutil.which("numactl")
    if numactl is None or not _has_several(nodes):
        return []
    command = [numactl, "--interleave=all"]
    try:
        subprocess.run([*command, "true"], capture_output=True, stdin=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return command


def advice(postmaster: int | None = None, nodes: Path = NODES, processes: Path = PROCESSES) -> str | None:
    """Return what to do where there are several nodes and the memory is not spread over them.

    `postmaster` is the pid of somebody else's server; without it, ours is meant.
    """
    if not _has_several(nodes):
        return None
    unspread = "this machine has several NUMA nodes, and PostgreSQL's memory is not spread over them"
    if postmaster is not None:
        is_spread = _is_spread(processes / str(postmaster))
        return None if is_spread else f"{unspread}: start it by `numactl --interleave=all`"
    if interleaving(nodes):
        return None
    if shutil.which("numactl"):
        return f"{unspread}: numactl may not do that here; a container needs the capability SYS_NICE"
    return f"{unspread}, so that figures differ from start to start: install numactl"


def _has_several(nodes: Path) -> bool:
    """Whether more than one node has memory."""
    return sum(_memory(node) > 0 for node in nodes.glob("node[0-9]*")) > 1


def _memory(node: Path) -> int:
    """KiB of memory of a node, 0 if it has none."""
    try:
        found = re.search(r"MemTotal:\s*(\d+)", (node / "meminfo").read_text())
    except OSError:
        return 0
    return int(found[1]) if found else 0


def _is_spread(process: Path) -> bool:
    """Whether a process takes memory from several nodes in turn; also True where that cannot be seen."""
    try:
        maps = (process / "numa_maps").read_text()
    except OSError:
        return True
    return not maps or re.search(r"\binterleave[:=]", maps) is not None

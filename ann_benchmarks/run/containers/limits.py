"""How much of the machine containers get: bytes of memory, and CPUs; and the terms of a job's own."""

import argparse
import os
import re
import sys

import psutil

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.host import usable_cores
from ann_benchmarks.common.numbers import size_text

_MOST_CPUS = 1 << 13  # that Linux can have
LEAST_MEMORY = 6 * 2**20  # that Docker allows


def cpu_list(text: str) -> list[int]:
    """Read CPUs as Docker and the kernel write them, such as 0-3,6; for argparse."""
    cpus: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part.strip())
        if match is None or not int(match[1]) <= int(match[2] or match[1]) < _MOST_CPUS:
            raise argparse.ArgumentTypeError(f"'{shown(text)}' names no CPUs: give such as 0-3,6")
        cpus.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(cpus)


def written(cpus: list[int]) -> str:
    """Write CPUs as Docker reads them."""
    return ",".join(map(str, cpus))


def memory_of_each(requested: int | None, containers: int, engine_memory: int | None = None) -> int:
    """Return the bytes for each container: as requested, else its share of what is free now.

    `engine_memory` is what the engine has, which may run in a virtual machine.
    """
    machine = psutil.virtual_memory()
    total = min(machine.total, engine_memory or machine.total)
    memory = requested or min(machine.available, total) // containers
    if memory < LEAST_MEMORY:
        raise UserError(f"--memory {memory} is less than the {size_text(LEAST_MEMORY)} that Docker allows")
    if memory * containers > total:
        raise UserError(
            f"{containers} x {size_text(memory)} is more than this machine's {size_text(total)}:"
            " give less --memory"
        )
    return memory


def cpus_of_each(
    requested: list[int] | None, containers: int, engine_cpus: int | None = None
) -> list[list[int]]:
    """Share out the CPUs, those requested or all, among containers.

    `engine_cpus` is how many the engine has: elsewhere than on Linux, it runs in a virtual machine.
    """
    usable = [*range(engine_cpus or usable_cores())]
    if sys.platform == "linux":
        usable = sorted(os.sched_getaffinity(0))
    missing = [cpu for cpu in requested or [] if cpu not in usable]
    if missing:
        raise UserError(f"--cpuset names CPU {missing[0]}; this machine has {written(usable)}")
    cpus = requested or usable
    if len(cpus) < containers:
        raise UserError(
            f"--parallelism {containers} needs as many CPUs; there are {len(cpus)}: {written(cpus)}"
        )
    return [cpus[number::containers] for number in range(containers)]

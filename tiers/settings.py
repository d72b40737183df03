"""The settings that servers of ours are given: of a tier, and of the one that builds."""

import shlex
from collections.abc import Mapping, Sequence

from ann_benchmarks.algorithms.postgres import machine
from ann_benchmarks.algorithms.postgres.environment import PREFIX, given_settings
from ann_benchmarks.algorithms.postgres.settings import megabytes
from ann_benchmarks.common.errors import UserError

from .tier import GIB, MIB, Tier

BUILD_BUFFERS = 8 * GIB  # at most, of a server that builds: the scan of a table uses hardly any of them


def check_settings(tiers: Sequence[Tier]) -> None:
    """Refuse settings of the user's that tiers set."""
    if "shared_buffers" in given_settings() and any(tier.shared_buffers for tier in tiers):
        raise UserError(f"tiers set shared_buffers: take it out of {PREFIX}SETTINGS")


def build_settings() -> dict[str, str]:
    """Those of a server that leaves the memory to the build and to the system's cache."""
    buffers = max(min(BUILD_BUFFERS, machine.memory_bytes() // 16), 128 * MIB)
    return {"shared_buffers": megabytes(buffers)}


def tier_settings(tier: Tier) -> dict[str, str]:
    """Those of a server that has what a tier has."""
    return {} if tier.shared_buffers is None else {"shared_buffers": megabytes(tier.shared_buffers)}


def variable(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment variable that gives a server these settings, unless the user gives others."""
    every = {**settings, **given_settings()}
    return {f"{PREFIX}SETTINGS": shlex.join(f"{name}={value}" for name, value in every.items())}

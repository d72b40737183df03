"""Tests next to each other: `pytest -n 4` runs whole files on each of its workers.

Tests that are marked come last, when every worker has no others left: those marked `calm`, which measure but
mostly wait, three at a time; those marked `alone`, which need the machine's memory or processors to
themselves, one at a time.
"""

import fcntl
import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

# Tests of the Docker engine, next to each other what runs containers and what builds images.
ENGINE_FILES = (
    ("test_containers.py", "test_rounds_in_containers.py"),
    ("test_docker_end_to_end.py", "test_install_images.py", "test_install_secrets.py"),
)
LONG_FILES = ("test_tiers.py", "test_shards_on_tiers.py")  # which others would wait for in the end
TURN = os.open(Path(__file__), os.O_RDONLY)  # shared by workers that have unmarked tests left
_PLACES = ("__init__.py", "conftest.py", "docker_engine.py")  # files that are there to be locked
PLACES = [os.open(Path(__file__).with_name(name), os.O_RDONLY) for name in _PLACES]
MARKS = ("calm", "alone")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files of the Docker engine come first, then others that take long; marked tests come last."""
    items.sort(
        key=lambda item: (_mark_of(item), _engine_place(item.path.name), item.path.name not in LONG_FILES)
    )


def pytest_collection_finish() -> None:
    """Tests fork: what was imported is for good, and need not be looked through, nor copied, again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    mark = _mark_of(item)
    if not mark:
        fcntl.flock(TURN, fcntl.LOCK_SH)  # and keep it for the next
        return (yield)
    with _held(TURN):
        if mark == "alone":
            with _held(*PLACES):
                return (yield)
    with _held(PLACES[_worker_number() % len(PLACES)]):
        return (yield)


@contextmanager
def _held(*files: int) -> Iterator[None]:
    for file in files:
        fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        for file in files:
            fcntl.flock(file, fcntl.LOCK_UN)


def pytest_sessionfinish() -> None:
    fcntl.flock(TURN, fcntl.LOCK_UN)


def _engine_place(file: str) -> int:
    """The place of a file's group among those of the engine; behind them, if it is in none."""
    return next((place for place, files in enumerate(ENGINE_FILES) if file in files), len(ENGINE_FILES))


def _mark_of(item: pytest.Item) -> str:
    """Return which of the marks a test has, of several the last one, or an empty text, which sorts first."""
    return next((mark for mark in reversed(MARKS) if item.get_closest_marker(mark)), "")


def _worker_number() -> int:
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files in the order above; a group of the engine, whose tests count what it has, on one worker."""
    from xdist.scheduler import LoadScopeScheduling

    class Blocks(LoadScopeScheduling):
        def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
            super().add_node_collection(node, collection)
            self._blocks = _blocks_of(collection)

        def _split_scope(self, nodeid: str) -> str:
            return self._blocks[nodeid]

    config.option.loadscopereorder = False
    return Blocks(config, log)


def _blocks_of(tests: Sequence[str]) -> dict[str, str]:
    """Return for each test the block that it is in; a marked one, in a file with others, has its own."""
    files = {test: test.partition("::")[0] for test in tests}

    def block_of(test: str) -> int | str:
        place = _engine_place(Path(files[test]).name)
        return place if place < len(ENGINE_FILES) else files[test]

    blocks: dict[str, str] = {}
    known = set()
    for number, (name, block) in enumerate(groupby(tests, block_of)):
        is_marked = name in known  # its other tests came before
        known.add(name)
        blocks |= {test: test if is_marked else f"{number} {name}" for test in block}
    return blocks

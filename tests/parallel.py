"""Tests next to each other: `pytest -n 4` runs whole files on each of its workers.

A test marked `alone` measures something, or needs the machine's memory or processors to itself. Such tests
come last, one at a time: each waits until every worker has no others left.
"""

import fcntl
import gc
import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

# Tests of the Docker engine, next to each other what runs containers and what builds images.
ENGINE_FILES = (
    ("test_containers.py", "test_rounds_in_containers.py"),
    ("test_docker_end_to_end.py", "test_install_images.py", "test_install_secrets.py"),
)
TURN = os.open(Path(__file__), os.O_RDONLY)  # shared by workers that have other tests left


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files of the Docker engine take longest and come first, tests that are to be alone come last."""
    items.sort(key=lambda item: (_is_alone(item), _engine_place(item.path.name)))


def pytest_collection_finish() -> None:
    """Tests fork: what was imported is for good, and need not be looked through, nor copied, again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if not _is_alone(item):
        fcntl.flock(TURN, fcntl.LOCK_SH)  # and keep it for the next
        return (yield)
    fcntl.flock(TURN, fcntl.LOCK_EX)
    try:
        return (yield)
    finally:
        fcntl.flock(TURN, fcntl.LOCK_UN)


def pytest_sessionfinish() -> None:
    fcntl.flock(TURN, fcntl.LOCK_UN)


def _engine_place(file: str) -> int:
    """The place of a file's group among those of the engine; behind them, if it is in none."""
    return next((place for place, files in enumerate(ENGINE_FILES) if file in files), len(ENGINE_FILES))


def _is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


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
    """Return for each test the block that it is in: those of a file that are to be alone come apart."""
    files = {test: test.partition("::")[0] for test in tests}

    def block_of(test: str) -> int | str:
        place = _engine_place(Path(files[test]).name)
        return place if place < len(ENGINE_FILES) else files[test]

    places = groupby(tests, block_of)
    return {test: f"{number} {file}" for number, (file, block) in enumerate(places) for test in block}

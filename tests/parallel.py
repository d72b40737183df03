"""Tests next to each other: `pytest -n 2` runs whole files on each of its workers.

A test marked `alone` measures something, or needs the machine's memory or processors to itself: it waits for
the tests of other workers to end, and they wait for it. Such files come last, where little is waited for.
"""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ENGINE_FILES = (
    "test_containers.py",
    "test_docker_end_to_end.py",
    "test_install_images.py",
    "test_install_secrets.py",
    "test_rounds_in_containers.py",
)
# What is locked: the first by whoever is next, so that one that is to be alone is not kept waiting by others.
NEXT, RUNNING = (os.open(path, os.O_RDONLY) for path in (Path(__file__).parent, __file__))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files of the Docker engine take longest and come first, files whose tests are all alone come last."""
    shared = {item.path for item in items if not item.get_closest_marker("alone")}
    items.sort(key=lambda item: (item.path not in shared, item.path.name not in ENGINE_FILES))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    fcntl.flock(NEXT, fcntl.LOCK_EX)
    fcntl.flock(RUNNING, fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH)
    fcntl.flock(NEXT, fcntl.LOCK_UN)
    try:
        return (yield)
    finally:
        fcntl.flock(RUNNING, fcntl.LOCK_UN)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files in the order above; those of the engine, whose tests count its containers, on one worker."""
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "engine" if file.endswith(ENGINE_FILES) else file

    config.option.loadscopereorder = False
    return Files(config, log)

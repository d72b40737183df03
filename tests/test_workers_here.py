"""Processes that say where jobs would run are those that run them, with all the files that they may open."""

import os
import subprocess
import sys

import pytest

from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Failure, Located
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.run.execute import WorkerPool

KNOWN = Definition("b", "BruteForceBLAS", "ann_benchmarks.algorithms.bruteforce", "t", [], [[]], False)
UNKNOWN = Definition("x", "X", "no_such_module", "t", [], [[]], False)


def test_the_process_that_was_asked_runs_the_job_or_is_ended():
    with WorkerPool() as here:
        assert isinstance(here.locate(KNOWN), Located)
        (kept,) = here.idle
        assert isinstance(here.locate(KNOWN), Located) and here.idle == [kept]
        assert here.take(Job(KNOWN, [[]], "d", 10)) is kept and not here.idle
        here.idle.append(kept)
        process = kept.process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_process_that_could_not_say_is_not_kept():
    with WorkerPool() as here:
        assert isinstance(here.locate(UNKNOWN), Failure) and not here.idle


def test_a_worker_may_open_as_many_files_as_its_account_may():
    program = """
import resource
from ann_benchmarks.common.host import allow_files
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2000))
allow_files()
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "(2000, 2000)\n"

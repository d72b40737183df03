"""Processes that say where jobs would run are those that run them, with all the files that they may open."""

import os
import subprocess
import sys
from contextlib import closing

import pytest

from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Failure, Located
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.run.whereabouts import WorkersHere

KNOWN = Definition("b", "BruteForceBLAS", "ann_benchmarks.algorithms.bruteforce", "t", [], [[]], False)
UNKNOWN = Definition("x", "X", "no_such_module", "t", [], [[]], False)


def test_the_process_that_was_asked_runs_the_job():
    with closing(WorkersHere()) as here:
        assert isinstance(here.locate(KNOWN), Located)
        (kept,) = here._kept.values()
        assert isinstance(here.locate(KNOWN), Located) and [*here._kept.values()] == [kept]
        taken = here.start(Job(KNOWN, [[]], "d", 10))
        assert taken is kept and not here._kept
        another = here.start(Job(KNOWN, [[]], "d", 10))
        assert another is not kept
        for worker in (taken, another):
            worker.ask_to_end()
            worker.stop()


def test_a_process_that_could_not_say_is_not_kept():
    with closing(WorkersHere()) as here:
        assert isinstance(here.locate(UNKNOWN), Failure) and not here._kept


def test_what_no_job_has_taken_is_ended():
    here = WorkersHere()
    here.locate(KNOWN)
    (kept,) = here._kept.values()
    process = kept.process.pid
    here.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


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

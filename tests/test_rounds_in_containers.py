"""Contenders in turn in containers: one of each image, which idles while others are measured."""

import signal
import subprocess
import sys
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import pytest

from ann_benchmarks.commands.run import run
from ann_benchmarks.common.numbers import MB
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Built, Failure, Finished, Note, PointDone, TurnDone
from ann_benchmarks.jobs.job import Execution, Job, JobRequest
from ann_benchmarks.measure.rounds import Enter, Keep, Turn
from ann_benchmarks.results.file import iter_result_paths, read_attributes
from ann_benchmarks.run.containers.wire import MessageReader, write_request
from ann_benchmarks.run.request import read_request
from tiers import sweep
from tiers.tier import SimulatedServer, Tier

from .conftest import ROOT
from .programs import until
from .test_containers import ANSWER, docked, failures, images  # noqa: F401

pytestmark = pytest.mark.thorough

HOST = "def get_additional(self): return {'host': os.uname().nodename}\n"
TURNS = """
def set_query_arguments(self, number):
    if number == 9: os.kill(os.getpid(), 11)
def query(self, q, n): return list(range(n))
def set_payload(self, payload): print('with', payload)
def done(self): print('put away')
"""


def said_by(workspace, *requests) -> tuple[list, int, str]:
    """Send requests to what runs in a container; return its messages, exit status and output."""
    environment = {**workspace.environment, "PYTHONPATH": f"{ROOT}:{workspace.path}"}
    command = [sys.executable, "-u", "-m", "ann_benchmarks.run.containers.inside"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, env=environment, **pipes) as process:
        process.stdin.write(b"".join(write_request(request) for request in requests))
        process.stdin.flush()  # and stays open: its end is the end of run.py
        said = [message for message, _ in MessageReader().feed(process.stdout.read())]
        return said, process.wait(10), process.stderr.read().decode()


def job_of(points) -> Job:
    return Job(Definition("db", "Plugin", "plugins.db", "x", [], points, False), points, "tiny", 10)


def test_a_container_takes_one_request_after_the_other(workspace) -> None:
    workspace.add_plugin("db", TURNS)
    job = replace(job_of([[1], [2]]), execution=Execution(payload="text"))
    name = job.label()
    turns = [Turn(name, point, number) for number in (1, 2, 3) for point in (0, 1)]
    said, status, printed = said_by(
        workspace, Enter(JobRequest(job)), *turns, Keep(name, {"rounds": "mark"}), None
    )
    assert [type(message) for message in said] == [
        *(Built, Finished, *[TurnDone, Finished] * 6, PointDone, PointDone, Finished)
    ]
    assert [(message.point, message.round) for message in said if isinstance(message, TurnDone)] == [
        (turn.point, turn.round) for turn in turns
    ]
    assert (status, printed) == (0, "with text\nput away\n")


def test_a_process_that_dies_in_a_container_is_told_from_a_job_that_fails(workspace) -> None:
    workspace.add_plugin("db", TURNS)
    job, other = job_of([[1], [9]]), replace(job_of([[1]]), dataset="not-there")
    requests = [Enter(JobRequest(other)), Turn(job.label(), 0, 1), Turn(job.label(), 1, 1)]
    said, status, printed = said_by(workspace, Enter(JobRequest(job)), *requests)
    kinds = [type(message) for message in said if not isinstance(message, Note)]
    assert kinds == [Built, Finished, Failure, TurnDone, Finished]
    assert status == -signal.SIGSEGV and "Segmentation fault" in printed


@pytest.mark.parametrize(
    ("algorithms", "available", "obstacle"),
    [
        (["pgvector_hnsw", "vchord"], 1536, None),  # MB: the tier's, and 256 MB for processes, twice
        (["pgvector_hnsw", "vchord"], 1535, "containers of 2 images at the same time on 256MB:512MB:"),
        (["pgvector_hnsw"], 600, None),  # which has no company
    ],
)
def test_tiers_in_containers_are_measured_in_turn_if_they_fit_together(
    workspace, capsys, monkeypatch, algorithms: list[str], available: int, obstacle: str | None
) -> None:
    plans = []
    monkeypatch.setattr("ann_benchmarks.commands.run.connect", lambda way: None)
    monkeypatch.setattr("ann_benchmarks.commands.run.execute", lambda plan, *_: plans.append(plan) or 0)
    monkeypatch.setattr("tiers.sweep.available_memory", lambda: available * MB)
    words = [
        "--dataset",
        "tiny",
        "--rounds",
        "3",
        "--tiers",
        "256MB:512MB,512MB:all",
        "--algorithm",
        *algorithms,
    ]
    assert run(read_request(words)) == 0
    assert all((job.procedure.rounds is None) == bool(obstacle) for plan in plans for job in plan.jobs)
    said = capsys.readouterr().err
    assert (obstacle in said and "not in rounds" in said) if obstacle else "rounds" not in said


def test_a_container_that_starts_beside_others_leaves_them_what_they_have_cached(monkeypatch) -> None:
    dropped = []
    monkeypatch.setattr(sweep, "drop_caches", lambda folder, everything: dropped.append(everything))
    server = SimpleNamespace(environment=lambda tier: {})
    job = SimpleNamespace(procedure=SimpleNamespace(conditions=SimulatedServer(Tier(64 * MB), "container")))
    terms = sweep.ContainerSweep("64MB:all", server).terms(job)
    ends = []
    for number in (1, 2):
        terms.make_ready(Path("storage"))
        ends.append(terms.keep(SimpleNamespace(id=str(number))))
    for end in ends:
        end()
    terms.make_ready(Path("storage"))
    assert dropped == [True, False, True]


# With an engine


def test_contenders_of_several_images_take_turns(docked) -> None:  # noqa: F811
    docked.add_plugin("a", ANSWER + HOST)
    docked.add_plugin("b", ANSWER + HOST)
    docked.add_plugin("c", ANSWER + HOST, docker_tag=f"{docked.image}:other")
    done = docked.run("--rounds", "4", "--memory", "300m")
    assert done.returncode == 0 and "failed" not in done.stderr
    assert "in turn: 4 rounds" in done.stdout and "4 rounds in" in done.stdout
    points = {path.parent.name: read_attributes(path) for path in iter_result_paths()}
    assert sorted(points) == ["a", "b", "c"]
    assert len({attrs["rounds"] for attrs in points.values()}) == 1
    assert points["a"]["host"] == points["b"]["host"] != points["c"]["host"]  # a container each image
    starts = sorted(
        turn
        for attrs in points.values()
        for turn in zip(attrs["run_started"], attrs["run_rounds"], strict=True)
    )
    assert [number for number, _ in groupby(number for _, number in starts)] == [1, 2, 3, 4]
    assert not docked.containers() and docked.lock_is_free()
    assert "nothing to do: 3 points finished before" in docked.run("--rounds", "4", "--memory", "300m").stdout


def test_a_race_in_containers_that_is_interrupted_leaves_nothing(docked) -> None:  # noqa: F811
    turns = "def query(self, q, n):\n    Path.home().joinpath('storage/turn').touch()\n    return [0]\n"
    docked.add_plugin("a", turns)
    docked.add_plugin("b", ANSWER, docker_tag=f"{docked.image}:other")
    process = docked.start("--rounds", "200", "--memory", "300m")
    until(lambda: list(Path("storage").rglob("turn")) and len(docked.containers()) == 2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and errors.endswith("the same command begins anew\n")
    until(lambda: not docked.containers() and docked.lock_is_free())

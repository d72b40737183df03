"""Sweeps over simulated servers, as run.py and `python -m tiers` make them, and what their results say."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import psutil
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import GB, MB
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.fields.series import Series
from ann_benchmarks.jobs.events import Finished, Note
from ann_benchmarks.jobs.job import Job, Procedure, Scope
from ann_benchmarks.jobs.places import value_found_before
from ann_benchmarks.load.request import Load
from ann_benchmarks.results.file import TRUTH_ATTRIBUTE, result_path, write_result
from ann_benchmarks.run.console import Console, JobOutcome
from ann_benchmarks.run.execute import WorkerPool, first_definitions
from tiers.locked_memory import Ballast
from tiers.machine import meminfo
from tiers.options import finalists, find_server
from tiers.tier import Disk, MemoryWatch, SimulatedServer, Tier

from . import test_load_run
from .programs import PATIENCE, ROOT, call_program, until
from .report_data import make_run
from .tier_holds import group_of, needs_huge_pages, needs_memory_group

pytestmark = pytest.mark.thorough

folder = test_load_run.folder
KILLS = int(os.environ.get("ANN_BENCHMARKS_TEST_KILLS", "1"))
NOTE = Note("something")
SMALL, LARGE = Tier(32 * MB, 192 * MB), Tier(64 * MB)


@pytest.fixture(autouse=True)
def without_results(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test of the folder begins without results, whatever became of the one before."""
    yield
    if "folder" in request.fixturenames:
        shutil.rmtree(request.getfixturevalue("folder") / "results", ignore_errors=True)


LOAD = ("--max-queries", "4000")  # enough for clients that a busy machine begins late to query side by side


def started(folder: Path, *options: str) -> Any:
    """A sweep of one run a point, which is not waited for."""
    command = [sys.executable, "-m", "tiers", "sweep", "--dataset", "small", "--local"]
    command += ["--definitions", "definitions", "--runs", "1", *options]
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def swept(folder: Path, *options: str, status: int = 0, environment: dict[str, str] | None = None) -> str:
    own = ("sweep", "--dataset", "small", "--local", "--definitions", "definitions", "--runs", "1")
    done = call_program(
        "tiers.__main__", *own, *options, cwd=folder, env={**os.environ, **(environment or {})}
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


def groups() -> set[Path]:
    """Those of all sweeps, also of other tests'."""
    return set(group_of(0).parent.glob("ann-benchmarks-tier-*"))


def points(folder: Path) -> dict[str, dict[str, Any]]:
    """The attributes of each result, by the name of its curve and its file."""
    found = {}
    for path in sorted((folder / "results").rglob("*.hdf5")):
        with h5py.File(path) as file:
            found[f"{path.parent.name}/{path.stem}"] = dict(file.attrs)
    return found


def check(point: dict[str, Any]) -> None:
    """A point was measured under the very tier that it is stored for."""
    buffers, _, ram = point["tier"].partition(":")
    assert point["shared_buffers"] == point["tier_shared_buffers"] == int(buffers.removesuffix("MB")) * MB
    assert point["algo"].endswith(point["tier_memory_series"])
    if ram == "all":
        assert "tier_ram" not in point
    else:
        assert point["tier_ram"] == int(ram.removesuffix("MB")) * MB
        assert point["tier_available"] == pytest.approx(point["tier_ram"], rel=0.05)


@needs_memory_group
def test_a_sweep_measures_every_tier_with_every_load_and_goes_on(folder: Path):
    options = ("--algorithm", "hnsw", "ivfflat", "--tiers", "32MB:192MB,64MB:all", "--target-recall", "0.9",
               "--warmup", "50", *LOAD, "--clients", "4", "--tier-method", "cgroup")  # fmt: skip
    out = swept(folder, *options)
    assert "2 tiers, in this order: 64MB:all by cgroup, 32MB:192MB by cgroup" in out
    assert "tier 1 of 2: 64MB:all by cgroup (0 of 4 points done)" in out
    assert re.search(r"tier 2 of 2: 32MB:192MB by cgroup \(2 of 4 points done, about \d+ (s|min) left\)", out)
    assert out.count("index built in") == 2 * 2  # by the server's and by run.py's word
    found = points(folder)
    assert len(found) == 4
    for name, point in found.items():
        check(point)
        assert point["tier_method"] == "cgroup"
        assert point["index_reused"]
        # Found where there is the most memory; the same holds on all other servers.
        is_first = "-c4-cgroup-sb64MB-ramall" in name
        assert (point["target_trials"] > 1) == is_first
    for algorithm in ("hnsw", "ivfflat"):
        values = {str(point["target_value"]) for name, point in found.items() if name.startswith(algorithm)}
        assert len(values) == 1
    owners = {group.name.removeprefix("ann-benchmarks-tier-").partition("-")[0] for group in groups()}
    assert all(psutil.pid_exists(int(owner)) for owner in owners)  # others sweep meanwhile
    assert "nothing to do: 4 points finished before" in swept(folder, *options)
    (lost, *_) = (folder / "results").rglob("hnsw-c4-cgroup-sb32MB*/*.hdf5")
    lost.unlink()
    out = swept(folder, *options)
    assert "1 tier, in this order: 32MB:192MB by cgroup" in out
    assert "index found, built earlier" in out and len(points(folder)) == 4


@needs_huge_pages
def test_huge_pages_make_the_same_servers(folder: Path):
    ram = meminfo()["MemAvailable"] // MB - 1024
    before = meminfo()["HugePages_Total"]
    swept(folder, "--algorithm", "hnsw", "--tiers", f"32MB:{ram}MB", "--clients", "8",
          "--tier-method", "hugepages", *LOAD, "--warmup", "50")  # fmt: skip
    (point,) = points(folder).values()
    check(point)
    assert point["tier_method"] == "hugepages"
    assert meminfo()["HugePages_Total"] == before


def kill_sweeps(folder: Path, tiers: str, method: str, given_back: Callable[[int], bool]) -> None:
    """Kill sweeps at random moments; `given_back` tells of a process's number whether nothing is held."""
    options = ("--algorithm", "hnsw", "--tiers", tiers, "--tier-method", method, "--clients", "2",
               *LOAD, "--warmup", "20")  # fmt: skip
    swept(folder, *options)  # builds
    every = set(points(folder))
    shutil.rmtree(folder / "results")
    chance = random.Random(5)
    for _ in range(KILLS):
        process = started(folder, *options)
        time.sleep(chance.uniform(1, 10))
        process.kill()
        process.communicate()
        until(partial(given_back, process.pid), 60)
        assert not list(folder.glob("results/**/.*"))  # nothing half-written
        for point in points(folder).values():
            check(point)
    swept(folder, *options)
    found = points(folder)
    assert set(found) == every
    for point in found.values():
        check(point)


@needs_memory_group
def test_a_sweep_that_is_killed_leaves_nothing_and_goes_on(folder: Path):
    def given_back(pid: int) -> bool:
        return not group_of(pid).exists()

    kill_sweeps(folder, "32MB:192MB,48MB:all", "cgroup", given_back)


@needs_huge_pages
@pytest.mark.skipif("ANN_BENCHMARKS_TEST_KILLS" not in os.environ, reason="set ANN_BENCHMARKS_TEST_KILLS")
def test_a_sweep_by_huge_pages_that_is_killed_gives_them_back_and_goes_on(folder: Path):
    before, ram = meminfo()["HugePages_Total"], meminfo()["MemAvailable"] // MB - 2048

    def given_back(pid: int) -> bool:
        return meminfo()["HugePages_Total"] == before

    kill_sweeps(folder, f"32MB:{ram}MB,48MB:all", "hugepages", given_back)


@needs_memory_group
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_sweep_that_is_ended_gives_all_back(folder: Path, number: int):
    process = started(
        folder, "--algorithm", "hnsw", "--tiers", "32MB:192MB", "--clients", "2", "--duration", "60"
    )
    group = group_of(process.pid)
    until(lambda: group.exists() and (group / "cgroup.procs").read_text(), 60)
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=60 * PATIENCE)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number], err
    assert not group.exists()
    assert "what is finished is kept" in err


@pytest.mark.parametrize(
    "tiers, settings, said",
    [
        ("1:90000", "", "leave out 1GB:90000GB, or use mini"),
        ("32MB:all", "shared_buffers=1GB", "take it out of ANN_BENCHMARKS_PG_SETTINGS"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(
    folder: Path, tiers: str, settings: str, said: str
):
    given = {"ANN_BENCHMARKS_PG_SETTINGS": settings}
    out = swept(folder, "--algorithm", "hnsw", "--tiers", tiers, status=1, environment=given)
    dataset, refusal = out.strip().splitlines()
    assert dataset.startswith("dataset small: ") and said in refusal
    assert not (folder / "results").exists()


# Without a server


class Steady:
    """Memory of a size that is known; a test double."""

    asked = 0

    def available(self) -> int:
        self.asked += 1
        return 500 * MB


def test_what_is_available_is_sampled_in_a_run():
    memory = Steady()
    watch = MemoryWatch(memory)
    with watch.running():
        until(lambda: memory.asked > 2)
    assert watch.facts(1) == {"tier_available": 500 * MB}
    assert MemoryWatch(None).facts(1) == {}


def test_a_run_begins_when_the_memory_is_what_it_is_to_be():
    class Growing:
        """Memory that somebody corrects meanwhile; a test double."""

        asked = 0

        def available(self) -> int:
            self.asked += 1
            return min(300 + 50 * self.asked, 500) * MB

    watch = MemoryWatch(Growing(), 500 * MB)
    with watch.running():
        pass
    assert watch.facts(1)["tier_available"] == 500 * MB


@pytest.mark.parametrize(
    "facts, said",
    [
        ({}, "shared_buffers is an unknown size"),
        ({"shared_buffers": 64 * MB}, "shared_buffers is 64 MB"),
        ({"shared_buffers": 32 * MB}, "what is available could not be measured"),
        (
            {"shared_buffers": 32 * MB, "tier_available": 210 * MB},
            "210 MB were available, 9% more than 192 MB",
        ),
        (
            {"shared_buffers": 32 * MB, "tier_available": 180 * MB},
            "180 MB were available, 6% less than 192 MB",
        ),
    ],
)
def test_a_tier_that_was_not_kept_is_an_error(facts: dict[str, int], said: str):
    with pytest.raises(UserError, match="^tier 32MB:192MB was not kept: .*" + re.escape(said)):
        SimulatedServer(SMALL, "cgroup").check(facts)


def test_a_tier_that_was_kept_is_none():
    SimulatedServer(SMALL, "cgroup").check({"shared_buffers": 32 * MB, "tier_available": 200 * MB})
    SimulatedServer(LARGE, "cgroup").check({"shared_buffers": 64 * MB})
    SimulatedServer(Tier(cpus=1), "cgroup").check({})


DEFINITION = Definition("some", "some", "Some", "none", ["euclidean"], [[1], [2]], False)


def planned() -> list[Job]:
    procedures = [Procedure(conditions=SimulatedServer(tier, "cgroup")) for tier in (LARGE, SMALL)]
    return list(Scope([DEFINITION], "tiny", 10, procedures).jobs())


def test_a_sweep_says_which_tier_is_begun_and_what_is_wrong(workspace, capsys):
    first, second = planned()
    console = Console([first, second], lambda: "the pages are used")
    console.started(first)
    console.event(first, NOTE)
    console.event(first, NOTE)
    console.started(second)
    out, err = capsys.readouterr()
    assert "2 tiers, in this order: 64MB:all by cgroup, 32MB:192MB by cgroup" in out
    assert "tier 2 of 2: 32MB:192MB by cgroup (0 of 4 points done)" in out
    assert err.count("warning: the pages are used") == 1


@pytest.mark.parametrize(
    ("tier", "name", "label"),
    [
        (
            Tier(4 * GB, 16 * GB, 4, Disk("gp3", 3000, 125_000_000)),
            "4GB:16GB+4cpus+gp3",
            "some-cgroup-4cpus-gp3-sb4GB-ram16GB",
        ),
        (LARGE, "64MB:all", "some-cgroup-sb64MB-ramall"),
        (Tier(ram=16 * GB), "all:16GB", "some-cgroup-ram16GB"),
        (Tier(cpus=2), "2cpus", "some-cgroup-2cpus"),
        (Tier(), "all:all", "some-cgroup"),
    ],
)
def test_a_tier_has_a_name_and_a_series(tier: Tier, name: str, label: str):
    (job,) = Scope([DEFINITION], "tiny", 10, [Procedure(conditions=SimulatedServer(tier, "cgroup"))]).jobs()
    assert (str(tier), job.series.label) == (name, label)
    facts = job.procedure.conditions.facts
    assert facts["tier"] == name and label.endswith(facts["tier_memory_series"])
    assert facts.get("tier_bandwidth") == (tier.disk and 125_000_000)


class Kept:
    """A worker that ends when it is told to; a test double."""

    is_reusable = True

    def __init__(self) -> None:
        self.ended = 0

    def end(self) -> None:
        self.ended += 1


def test_a_worker_is_kept_for_the_same_tier_alone(workspace):
    first, second = planned()
    workers = WorkerPool(start=lambda job: Kept())  # type: ignore[arg-type, return-value]
    one = workers.take(first)
    workers.idle.append(one)
    assert workers.take(replace(first, points=[])) is one
    workers.idle.append(one)
    assert workers.take(second) is not one
    assert one.ended == 1 and workers.idle == []


def test_a_worker_of_one_version_takes_no_job_of_another_that_runs_beside_it():
    old, new = (
        Job(replace(DEFINITION, algorithm="x", version=tag, docker_tag=f"x:{tag}"), [], "tiny", 10)
        for tag in ("0.6", "0.7")
    )
    workers = WorkerPool(2, start=lambda job: Kept())  # type: ignore[arg-type, return-value]
    first = workers.take(old)
    workers.busy[first] = JobOutcome(old)
    second = workers.take(new)
    workers.busy[second] = JobOutcome(new)
    workers._release(first, Finished())
    assert first.ended == 1 and workers.idle == []
    workers._release(second, Finished())
    assert second.ended == 0 and workers.take(new) is second


def test_a_job_whose_tier_cannot_be_set_fails_alone(workspace, capsys):
    def start(job: Job) -> Any:
        raise UserError("no such tier")

    workers = WorkerPool(start=start)
    first, second = workers.run(planned(), Console(planned()))
    assert first.failure == second.failure == "no such tier"


def test_the_first_definitions_are_those_of_each_algorithm_if_several_are_named():
    others = [replace(DEFINITION, algorithm=name, arguments=[name, n]) for name in "ab" for n in (1, 2)]
    jobs = [Job(definition, [], "tiny", 10) for definition in others for _ in range(2)]
    kept = first_definitions(jobs, 1, True)
    assert [job.definition.arguments for job in kept] == [["a", 1], ["a", 1], ["b", 1], ["b", 1]]
    assert len(first_definitions(jobs, 3, False)) == 6


def test_what_was_found_for_a_recall_is_taken_from_another_curve_of_the_same_index(workspace):
    job = Job(DEFINITION, [["target_recall=0.9"]], "tiny", 10, Procedure(target_recall=0.9))
    assert not job.request().found_before
    index = {TRUTH_ATTRIBUTE: "mark", "index_build_time": 12.5}
    attrs = {"target_recall": 0.9, "target_parameter": "ef", "target_value": 40, "count": 10, "name": "x",
             "target_overstated": 0.002, "best_search_time": 1.0, **index}  # fmt: skip
    arguments = [*DEFINITION.arguments, "target_recall=0.9"]
    path = result_path("tiny", 10, "some-c1", arguments)
    nothing = np.zeros((1, 10))
    write_result(
        path, attrs | {"series": Series("some", clients=1).dump_json()}, np.ones(1), nothing, nothing
    )
    write_result(
        result_path("tiny", 10, "some_half", arguments),
        attrs | {"target_value": 99, "series": Series("some_half").dump_json()},
        np.ones(1), nothing, nothing,
    )  # fmt: skip
    found = job.request().found_before
    assert [attrs["target_value"] for attrs in found] == [40]
    values = range(1, 100)
    assert value_found_before(found, "ef", values, index) == (40, 0.002)
    assert value_found_before(found, "probes", values, index) is None
    assert value_found_before(found, "ef", values, index | {"index_build_time": 12.6}) is None
    assert value_found_before(found, "ef", range(30), index) is None


@pytest.mark.skipif(sys.platform != "linux", reason="tiers need Linux")
def test_ballast_is_locked_and_given_back():
    def locked() -> int:
        (line,) = re.findall(r"VmLck:\s+(\d+) kB", Path("/proc/self/status").read_text())
        return int(line) * 1024

    before = locked()
    ballast = Ballast()
    try:
        ballast.resize(4 * MB)
        ballast.resize(12 * MB)
    except UserError as error:
        pytest.skip(str(error))
    assert ballast.size == 12 * MB
    assert locked() - before == 12 * MB
    ballast.resize(0)
    assert locked() == before


def defined(folder: str, constructor: str) -> Definition:
    return replace(DEFINITION, module=f"ann_benchmarks.algorithms.{folder}", constructor=constructor)


def test_the_server_is_that_of_the_first_algorithm_that_runs_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANN_BENCHMARKS_PG_SETTINGS", "work_mem=5MB")
    exact, hnsw = defined("bruteforce", "ExactScan"), defined("pgvector_hnsw", "PGVectorHNSW")
    server = find_server([exact, hnsw])
    given = server.environment(SMALL, [Path("/a/cgroup.procs"), Path("/b/cgroup.procs")])
    assert given["ANN_BENCHMARKS_PG_SETTINGS"] == "shared_buffers=32MB work_mem=5MB"
    assert given["ANN_BENCHMARKS_PG_GROUPS"] == "/a/cgroup.procs:/b/cgroup.procs"
    assert given["ANN_BENCHMARKS_PG_RAM"] == "192MB"
    assert server.environment(Tier(cpus=1)).keys() == given.keys() - {"ANN_BENCHMARKS_PG_RAM"}
    assert server.environment(Tier(cpus=1))["ANN_BENCHMARKS_PG_SETTINGS"] == "work_mem=5MB"
    assert "shared_buffers=" in server.environment(None)["ANN_BENCHMARKS_PG_SETTINGS"]
    with pytest.raises(UserError, match="leave --tiers out"):
        find_server([exact])
    monkeypatch.setenv("ANN_BENCHMARKS_PG_HOST", "db.example.org")
    with pytest.raises(UserError, match="^tiers simulate servers of our own: unset ANN_BENCHMARKS_PG_HOST"):
        find_server([exact, hnsw])


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        (0.9, {(None, name) for name in "abcd"} | {(ram, name) for ram in (8, 4) for name in "bc"}),
        (0.1, {(None, name) for name in "abcd"} | {(8, "b"), (8, "c"), (4, "c")}),
        (None, {(None, name) for name in "abcd"}),
    ],
)
def test_on_tiers_of_auto_are_the_best_of_two_kinds(tmp_path, monkeypatch, kept, expected):
    """`kept` is what the best index keeps of its throughput on the larger tier; None: no tier can be had."""
    monkeypatch.chdir(tmp_path)
    loads = [Load(clients) for clients in (1, 16)]
    definitions = [
        Definition(name, "C", module, "t", [{}], [], False)
        for name, module in zip("abcd", ("hnsw", "vchord", "hnsw", "vchord"), strict=True)
    ]
    rungs = [None, *(SimulatedServer(Tier(GB, ram * GB), "cgroup") for ram in (8, 4))]
    procedures = [Procedure(conditions=c, load=load, target_recall=0.9) for c in rungs for load in loads]
    jobs = list(Scope(definitions, "mine", 10, procedures).jobs())
    speeds = {"a": 100, "b": 400, "c": 300, "d": 200}
    runs = []

    def measure(job, share, ram=None, **attrs):
        rate = speeds[job.definition.algorithm] * share
        clients = job.procedure.load.clients
        run = make_run(
            job.definition.algorithm, (rate, rate * 1.01, rate * 0.99), 0.95, clients, ram, **attrs
        )
        path = job.path(job.points[0])
        path.parent.mkdir(parents=True)
        path.touch()
        runs.append(replace(run, path=path))

    def is_best(job):
        return job.definition.algorithm in "bc"

    for job in jobs:
        if job.procedure.conditions is None:
            measure(job, 1, **({} if kept else {"tiers_left_out": "no root"}))
        elif kept and (job.procedure.load, job.procedure.conditions) == (loads[1], rungs[1]) and is_best(job):
            measure(job, kept if job.definition.algorithm == "b" else 1, ram=8)
    monkeypatch.setattr("tiers.options.load_runs", lambda places: runs)
    found = finalists(jobs, jobs)
    on_tiers = [job for job in found if job.procedure.conditions]
    assert {job.procedure.load.clients for job in on_tiers} <= {16}
    assert {(job.procedure.conditions and job.procedure.conditions.tier.ram // GB, job.definition.algorithm)
            for job in found} == expected  # fmt: skip

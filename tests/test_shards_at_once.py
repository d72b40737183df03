"""Shards of several hosts are loaded and built at the same time, each host's by a fork."""

import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.topology import at_once, sharded

from .programs import ROOT, until
from .test_shard_hosts import hosts, shard_servers
from .test_shards import BUILD, COUNT, QUERIES, K, fitted

pytestmark = pytest.mark.thorough

__all__ = ["hosts", "shard_servers"]


@pytest.fixture
def two_hosts(hosts, monkeypatch):
    """The two servers, as if each were on a host of its own; their indexes are built anew."""
    monkeypatch.setattr(sharded, "hosts_with_shards", lambda shards: [[shard] for shard in shards])
    return hosts


class Meeting(PGVectorHNSW):
    """Builds an index when another is about to be built, too."""

    folder = None  # where each build leaves a file
    builds = COUNT

    def create_index(self, statement, name, table):
        """Wait for the others."""
        (self.folder / str(os.getpid())).touch()
        deadline = time.monotonic() + 300
        while len(list(self.folder.iterdir())) < self.builds:
            if time.monotonic() > deadline:
                raise PostgresError("no other index is built meanwhile")
            time.sleep(0.05)
        return super().create_index(statement, name, table)


def meeting(folder, seed):
    Meeting.folder = folder
    return Meeting("euclidean", {**BUILD, "efConstruction": seed})


def children():
    return psutil.Process().children()


def test_hosts_are_loaded_and_built_at_the_same_time(two_hosts, tmp_path, capfd):
    phases = []
    algorithm = meeting(tmp_path, 33)
    algorithm.set_servers("shards", count=COUNT, engine="client")
    algorithm.set_phase_listener(phases.append)
    before = children()
    with fitted(None, algorithm, 100) as built:
        answers = built.time_queries(QUERIES, K)[1]
        facts = built.get_additional()
    assert len(list(tmp_path.iterdir())) == COUNT and children() == before
    assert phases[:3] == ["start", "load", "build"] and phases.count("build") == 1
    assert facts["index_reused"] is False and not algorithm.has_found_index
    assert len(facts["shard_build_times"]) == COUNT
    printed = capfd.readouterr().out
    for number in range(1, COUNT + 1):
        assert f"shard {number} of {COUNT}: index built in" in printed
    with fitted("client", meeting(tmp_path, 33), 100) as found:
        assert found.time_queries(QUERIES, K)[1] == answers
        assert found.get_additional()["index_reused"] is True
    assert "built" not in capfd.readouterr().out


def test_an_index_that_is_to_be_built_anew_is_built_once(two_hosts, tmp_path):
    for _ in range(2):
        algorithm = meeting(tmp_path, 34)
        algorithm.set_build_options(True)
        with fitted("client", algorithm, 100) as built:
            assert built.get_additional()["index_reused"] is False
    assert len(list(tmp_path.iterdir())) == 2 * COUNT


def test_what_other_hosts_do_is_kept_when_one_fails(two_hosts, tmp_path, capfd):
    class OneFails(Meeting):
        """Cannot build the first shard's index."""

        def create_index(self, statement, name, table):
            """Refuse it."""
            if self._indexed._current.number == 1:
                raise PostgresError("no room")
            return super().create_index(statement, name, table)

    Meeting.folder, OneFails.builds = tmp_path, 1
    arguments = ("euclidean", {**BUILD, "efConstruction": 35})
    with (
        pytest.raises(PostgresError, match="^shard 1 of 2: no room$"),
        fitted("client", OneFails(*arguments)),
    ):
        pass
    assert "shard 1 of 2: no room (the other hosts go on)" in capfd.readouterr().out
    Meeting.builds = 1
    try:
        with fitted("client", Meeting(*arguments), 100):
            pass
    finally:
        Meeting.builds = COUNT
    printed = capfd.readouterr().out
    assert "shard 1 of 2: index built" in printed and "shard 2" not in printed


def test_a_fork_that_is_killed_is_named_and_its_build_ends(two_hosts, shard_servers):
    class Killed(PGVectorHNSW):
        """Dies while the second shard's server is busy."""

        def create_index(self, statement, name, table):
            """Be killed."""
            if self._indexed._current.number == 2:
                threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
                self.connection.execute("SELECT pg_sleep(60)")
            return super().create_index(statement, name, table)

    with (
        pytest.raises(PostgresError, match="^shard 2 of 2: the process that made it was killed"),
        fitted("client", Killed("euclidean", {**BUILD, "efConstruction": 36})),
    ):
        pass
    with shard_servers[2].connect() as connection:
        busy = "SELECT FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep%'"
        assert connection.execute(busy).rowcount
        until(lambda: not connection.execute(busy).rowcount)


def test_an_error_that_cannot_be_sent_is_told(two_hosts):
    class Odd(Exception):
        def __reduce__(self):
            raise TypeError

    class Raises(PGVectorHNSW):
        """Has an error of its own."""

        def create_index(self, statement, name, table):
            """Raise it."""
            raise Odd("something")

    with (
        pytest.raises(RuntimeError, match="^shard [12] of 2: Odd: something"),
        fitted("client", Raises("euclidean", {**BUILD, "efConstruction": 37})),
    ):
        pass


def test_servers_of_one_machine_are_one_host(hosts, shard_servers):
    class OneShard:
        def __init__(self, number, **parameters):
            self.number = number
            self.parameters, self.is_ours = parameters, not parameters

        def found_server(self):
            return self

        def connection_parameters(self):
            return self.parameters

    def numbers(*shards):
        return [[shard.number for shard in own] for own in at_once.hosts_with_shards(shards)]

    assert numbers(OneShard(1), OneShard(2)) == [[1, 2]]
    assert numbers(OneShard(1, host="/run/a"), OneShard(2, host="/run/b")) == [[1, 2]]
    assert numbers(OneShard(1, host="a", port=1), OneShard(2, host="b"), OneShard(3, host="a", port=2)) == [
        [1, 3],
        [2],
    ]


def test_forks_end_with_their_parent():
    program = (
        "import time\n"
        "from contextlib import nullcontext\n"
        "from types import SimpleNamespace\n"
        "from ann_benchmarks.algorithms.postgres.topology.at_once import make_at_once\n"
        "def wait(shard):\n"
        "    print('begun', flush=True)\n"
        "    time.sleep(600)\n"
        "hosts = [[SimpleNamespace(number=number, title='', naming=nullcontext)] for number in (1, 2, 3)]\n"
        "make_at_once(hosts, wait, print)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        for _ in range(3):
            assert process.stdout.readline().endswith("begun\n")
        forks = psutil.Process(process.pid).children()
        assert len(forks) == 3
    finally:
        process.kill()
        process.communicate()
    until(lambda: not any(fork.is_running() for fork in forks))

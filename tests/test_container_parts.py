"""The parts of run.py's Docker path that need no engine."""

import io
import math
import os
import pickle
import re
import socket
import struct
import sys
import threading
import time
from dataclasses import replace
from http.client import HTTPResponse
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from docker.errors import APIError, ImageNotFound, NotFound

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import byte_size
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.definitions.selection import split_tag, tagged
from ann_benchmarks.jobs.events import (
    BuildBegun,
    Built,
    Failure,
    Finished,
    Located,
    Note,
    PhaseDone,
    PointDone,
    PointFailed,
    WorkloadDone,
)
from ann_benchmarks.jobs.job import Job, JobRequest, Procedure
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.load.workload import Workload
from ann_benchmarks.run.containers.containers import answer_to
from ann_benchmarks.run.containers.engine import Image, connect, find_image
from ann_benchmarks.run.containers.inside import killed_processes
from ann_benchmarks.run.containers.sandbox import (
    HOME,
    MOST_PROCESSES,
    ROOT_CAPABILITIES,
    ContainerAccount,
    Sandbox,
    cpus_of_each,
    dataset_files,
    memory_of_each,
    project_files,
    storage_folder,
)
from ann_benchmarks.run.containers.wire import (
    MessageReader,
    read_request,
    write_message,
    write_request,
)
from ann_benchmarks.run.containers.worker import ContainerWorker, Log
from ann_benchmarks.run.execute import WorkerPool
from ann_benchmarks.run.worker import VERSIONS, Question
from ann_benchmarks.statistics.intervals import Interval

from .conftest import ROOT

pytestmark = pytest.mark.thorough

DEFINITION = Definition("quick", "Plugin", "plugins.quick", "ann-benchmarks-quick", ["a"], [[1], [2]], False)
JOB = Job(DEFINITION, [[1], [2]], "tiny", 10)
RESULT = Path("results/tiny/10/quick/a_1.hdf5")
POINT = PointDone(
    "quick(1)", RESULT, 0.5, Interval(0.4, 0.6), 3, 1e3, Interval(9e2, 1.1e3), None, 1e-3, None, 1.5
)
IMAGE = Image("ann-benchmarks-quick", "sha256:1", False, False, ())


def messages_of(data, piece):
    reader = MessageReader()
    return [m for at in range(0, len(data), piece) for m in reader.feed(data[at : at + piece])]


def raw(content):
    return struct.pack(">IQ", len(content), 0) + content


# What is said between run.py and a container


@pytest.mark.parametrize("piece", [1, 7, 2**20])
def test_messages_arrive_whole_however_they_are_cut(piece):
    sent = [
        (BuildBegun(), b""),
        (Built(1.5, None, True), b""),
        (POINT, os.urandom(1000)),
        (PhaseDone("before: 5 s"), b""),
        (WorkloadDone("quick", RESULT), b"{}"),
        (PointFailed("é\n", "why", "Traceback"), b""),
        (Note(""), b"\0"),
        (Failure("text", "details", True), b""),
        (Located({"postgres": "17.6"}), b""),
        (Finished(), b""),
    ]
    data = b"".join(write_message(*each) for each in sent)
    assert messages_of(data, piece) == sent


def test_numbers_of_any_kind_go_through():
    numpy = Built(np.float32(1.5), np.int64(3), np.bool_(True))
    [(back, _)] = messages_of(write_message(numpy), 100)
    assert back == Built(1.5, 3, True) and type(back.index_size) is int
    [(back, _)] = messages_of(write_message(Built(math.inf, math.nan)), 100)
    assert back.build_time == math.inf and math.isnan(back.index_size)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"\xff\xfe",
        b'{"type": "Job"}',
        b'{"type": "Note"}',
        b'{"type": "Note", "text": "x", "more": 1}',
        b'{"type": "PointDone", "path": 5, "recall_interval": [1, 2]}',
        b'{"type": "PointDone", "path": "x", "recall_interval": 5}',
        b'{"type": "PointDone", "path": "x", "recall_interval": [1, 2], "qps_interval": 5}',
        b'{"type": "Built", "build_time": "long", "index_size": null}',
        b'{"type": "Note", "text": {"a": 1}}',
    ],
)
def test_what_is_no_message_is_refused(content):
    """Values of another kind would be a traceback where they are shown."""
    with pytest.raises(ValueError):
        messages_of(raw(content), 100)


def test_a_message_of_any_length_is_not_waited_for():
    for lengths in ((2**31, 0), (2, 2**62)):
        with pytest.raises(ValueError):
            list(MessageReader().feed(struct.pack(">IQ", *lengths)))


def test_a_request_can_be_read_by_any_python():
    """Pickles name what they are made of; what is not the project's own may have moved between versions."""
    procedure = Procedure(load=Load(clients=4), warmup=Warmup(), target_recall=0.9)
    job = Job(DEFINITION, [[1]], "tiny", 10, procedure)

    class Names(pickle.Unpickler):
        packages: ClassVar[set[str]] = set()

        def find_class(self, module, name):
            self.packages.add(module.partition(".")[0])
            return super().find_class(module, name)

    for request in (JobRequest(job), Question(DEFINITION, VERSIONS)):
        content = write_request(request)
        assert read_request(io.BytesIO(content).read) == request
        with pytest.raises(EOFError):
            read_request(io.BytesIO(content[:-1]).read)
        Names(io.BytesIO(content[4:])).load()
        assert Names.packages <= {"ann_benchmarks", "builtins"} and "ann_benchmarks" in Names.packages
        assert content[5] <= 5  # the protocol, of which Python 3.10 knows 5


# A container as run.py sees it: the engine's end is a socket here, all else is what is used


class Container:
    """Stands for a container of the engine: `say` sends what its processes would have written."""

    def __init__(self):
        ours, self.theirs = socket.socketpair()
        self.socket = SimpleNamespace(_sock=ours, close=ours.close)
        self.attrs = {"State": {"ExitCode": 137, "OOMKilled": False, "Error": ""}}
        self.done = []

    def create(self, client):
        return self

    memory = 2**30

    def attach_socket(self, params):
        return self.socket

    def start(self):
        pass

    def wait(self, timeout):
        pass

    def reload(self):
        pass

    def kill(self, name):
        self.done.append(name)

    def remove(self, force, v):
        self.done.append("removed")
        self.theirs.close()

    def say(self, data, stream=1):
        self.theirs.sendall(struct.pack(">BxxxI", stream, len(data)) + data)


@pytest.fixture
def container():
    made = Container()
    yield made
    made.theirs.close()


def heard(worker):
    """All that a container says until it ends."""
    messages = []
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            message = worker.next_message()
        except EOFError:
            return messages
        if message is not None:
            messages.append(message)
        else:
            time.sleep(0.01)
    raise AssertionError(f"no end; {messages}")


def given(container, log=None, job=JOB):
    """A worker that was given a job."""
    worker = ContainerWorker(None, container, Log(log, False))
    worker.send(JobRequest(job))
    return worker


def test_a_container_is_listened_to_until_it_ends(container, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    worker = given(container, Path("log"))
    container.say(b"printed\n", stream=2)
    data = write_message(Built(1.0, None)) + write_message(POINT, b"content")
    for at in range(0, len(data), 50):
        container.say(data[at : at + 50])
        container.say(b"between", stream=2)
    container.say(write_message(Finished()))
    container.theirs.close()
    assert heard(worker) == [Built(1.0, None), POINT, Finished()]
    worker.end()
    assert container.done == ["removed"]
    assert Path("log").read_text().startswith("printed\nbetween")
    assert RESULT.read_bytes() == b"content"


def test_the_engines_answer_ends_before_its_socket(container):
    container.theirs.sendall(b"HTTP/1.1 101 UPGRADED\r\n\r\n")
    answer = HTTPResponse(container.socket._sock)
    answer.begin()
    container.socket = answer.fp.raw  # as Docker's client has it
    container.socket._response = SimpleNamespace(close=answer.close)
    worker = ContainerWorker(None, container, Log(None, False))
    container.theirs.close()
    assert heard(worker) == []
    worker.end()
    answer.close()  # as it is at the end of the process, where Python 3.13 prints what this raises


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"OOMKilled": True, "ExitCode": 137}, ("memory ran out", "1 GB", "--memory")),
        ({"OOMKilled": False, "ExitCode": 137}, ("killed from outside",)),
        ({"OOMKilled": False, "ExitCode": 139}, ("SIGSEGV", "native code")),
        ({"OOMKilled": False, "ExitCode": 127}, ("no python3",)),
        ({"OOMKilled": False, "ExitCode": 3, "Error": "exec: no"}, ("status 3: exec: no",)),
        ({"OOMKilled": False, "ExitCode": 3}, ("status 3: its last line",)),
    ],
)
def test_the_end_of_a_container_is_explained(container, state, words):
    container.attrs["State"] = state
    worker = ContainerWorker(None, container, Log(None, False))
    container.say(b"a line\nits last line\n", stream=2)
    container.theirs.close()
    assert heard(worker) == []
    text = worker.death().text
    assert all(word in text for word in words) and "\n" not in text
    worker.end()


@pytest.mark.parametrize(
    "data",
    [
        raw(b"nonsense"),
        *(
            write_message(PointDone(**{**vars(POINT), "path": Path(path)}), b"content")
            for path in ("../../x", "/tmp/x", "data/x.hdf5", str(RESULT.parent), f"{RESULT.parent}/b_1.hdf5",
                         f"{RESULT.parent}/../quick/a_1.hdf5")
        ),
    ],
)  # fmt: skip
def test_a_container_that_says_what_it_should_not_is_removed(container, data, tmp_path, monkeypatch):
    (tmp_path / "a/b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a/b")
    worker = given(container)
    container.say(data)
    [failure] = heard(worker)
    assert isinstance(failure, Failure) and "cannot be used" in failure.text
    worker.end()
    assert "removed" in container.done
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_container_stores_the_record_of_a_workload(container, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    worker = given(
        container, job=replace(JOB, points=[[1]], procedure=Procedure(workload=Workload("inserts", 1, 5.0)))
    )
    record = Path("results/tiny/10/quick-inserts-w1/a_1.workload.json")
    container.say(write_message(WorkloadDone("quick", record), b"{}"))
    container.theirs.close()
    assert heard(worker) == [WorkloadDone("quick", record)]
    worker.end()
    assert record.read_bytes() == b"{}"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
@pytest.mark.parametrize("what", ["result", "log"])
def test_a_full_disk_is_said(container, what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = Path("log")
    full = log if what == "log" else RESULT.with_name(f".{RESULT.name}.partial-{os.getpid()}")
    full.parent.mkdir(parents=True, exist_ok=True)
    full.symlink_to("/dev/full")
    worker = given(container, log)
    container.say(b"printed\n", stream=2)
    container.say(write_message(POINT, b"content"))
    container.say(write_message(Finished()))
    container.theirs.close()
    said = heard(worker)
    assert any(isinstance(each, Failure) and "the disk is full" in each.text for each in said), said
    worker.end()
    assert not RESULT.exists()


def test_a_container_is_stopped_whose_words_nobody_hears(container, monkeypatch):
    """What it says fills the pipe to WorkerPool, which has just decided to end it."""
    monkeypatch.setattr("ann_benchmarks.run.containers.worker.GRACE_SECONDS", -4.5)
    worker = ContainerWorker(None, container, Log(None, False))
    container.say(write_message(Note("x" * 2**20)))
    time.sleep(0.5)
    container.theirs.close()
    stopping = threading.Thread(target=worker.stop, daemon=True)
    stopping.start()
    stopping.join(60)
    assert not stopping.is_alive()


def test_a_container_that_never_stops_talking_is_ended_in_time(container, monkeypatch):
    """Neither its time-out nor the others may wait for it to be silent."""
    monkeypatch.setattr("ann_benchmarks.run.containers.worker.GRACE_SECONDS", -4.5)
    worker = ContainerWorker(None, container, Log(None, False))

    def talk():
        try:
            while True:
                container.say(write_message(Note("x")) * 100)
        except OSError:
            pass

    threading.Thread(target=talk, daemon=True).start()
    observer = SimpleNamespace(started=lambda *_: None, event=lambda *_: None, failed=lambda *_: None)
    outcomes = []

    def run():
        outcomes.extend(WorkerPool(1, 1.0, start=lambda job: worker).run([JOB], observer))

    worker.send = lambda request: None
    container.kill = lambda name: container.theirs.shutdown(socket.SHUT_RDWR)
    running = threading.Thread(target=run, daemon=True)
    running.start()
    running.join(60)
    is_over = not running.is_alive()
    container.theirs.close()
    assert is_over and "--timeout" in outcomes[0].failure


def test_a_container_that_does_not_answer_is_not_waited_for(container):
    started = time.monotonic()
    container.kill = lambda name: container.theirs.shutdown(socket.SHUT_RDWR)
    answer = answer_to(None, container, Question(DEFINITION, VERSIONS), 0.5)
    assert isinstance(answer, Failure) and "no answer within 0.5 s" in answer.text
    assert time.monotonic() - started < 60 and "removed" in container.done


def test_many_containers_leave_no_descriptor_open():
    def once():
        container = Container()
        worker = ContainerWorker(None, container, Log(None, False))
        container.say(write_message(Finished()))
        container.theirs.close()
        assert heard(worker) == [Finished()]
        worker.end()

    once()
    before, threads = len([*Path("/proc/self/fd").iterdir()]), threading.active_count()
    for _ in range(100):
        once()
    assert len([*Path("/proc/self/fd").iterdir()]) <= before + 3
    assert threading.active_count() <= threads + 1


# The log


def test_a_log_keeps_the_last_state_of_a_progress_bar(tmp_path, capsys):
    path = tmp_path / "folder/log"
    log = Log(path, True)
    for piece in (b"one\nt", b"wo\n\r 1%|", b"\r50%|", b"\r100%|\nafter\r\n\rgone\r     \r", b"end"):
        log.write(piece)
    assert path.read_bytes() == b"one\ntwo\n100%|\nafter\n"
    log.close()
    log.close()
    assert path.read_bytes() == b"one\ntwo\n100%|\nafter\nend\n"
    assert capsys.readouterr().err.startswith("one\ntwo\n\r 1%|\r50%|\r100%|\nafter")
    Log(path, False).close()
    assert path.read_bytes() == b""
    assert capsys.readouterr().err == ""


def test_letters_that_arrive_in_two_pieces_are_shown_as_one(tmp_path, capsys):
    log = Log(tmp_path / "log", True)
    text = "50%|█████▌    |\n".encode()
    for at in range(len(text)):
        log.write(text[at : at + 1])
    log.close()
    assert capsys.readouterr().err.encode() == text == (tmp_path / "log").read_bytes()


def test_a_log_goes_on_when_nobody_reads_the_terminal(tmp_path, monkeypatch):
    ends = os.pipe()
    os.close(ends[0])
    monkeypatch.setattr(sys, "stderr", os.fdopen(ends[1], "w"))
    log = Log(tmp_path / "log", True)
    for _ in range(3):
        log.write(b"a line\n")
    log.close()
    assert (tmp_path / "log").read_bytes() == b"a line\n" * 3
    with pytest.raises(OSError):
        sys.stderr.close()


def test_a_log_that_cannot_be_kept_is_one_line(tmp_path):
    (tmp_path / "logs").touch()
    with pytest.raises(UserError, match="logs/x.log"):
        Log(tmp_path / "logs/x.log", False)


# Limits


def test_sizes_are_written_as_docker_has_them():
    for text, value in {"512m": 2**29, "8G": 2**33, "1.5g": 3 * 2**29, "6291456": 6 * 2**20, "1 GiB": 2**30,
                        "100kb": 100 * 2**10, "7b": 7}.items():  # fmt: skip
        assert byte_size(text) == value
    for text in ("", "0", "0g", "-1g", "g", "1x", "1e3", "1gg", "nan", "1,5g"):
        with pytest.raises(UserError):
            byte_size(text)


def test_a_machine_is_shared_out(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3, 5}, raising=False)
    assert cpus_of_each((), 1) == [[0, 1, 2, 3, 5]]
    shares = cpus_of_each((), 2)
    assert sorted([*shares[0], *shares[1]]) == [0, 1, 2, 3, 5] and {len(share) for share in shares} == {2, 3}
    assert cpus_of_each([1, 5], 2) == [[1], [5]]
    for asked, containers, words in (([4], 1, "CPU 4"), ([1], 2, "--parallelism 2")):
        with pytest.raises(UserError, match=words):
            cpus_of_each(asked, containers)
    available = SimpleNamespace(available=8 * 2**30, total=16 * 2**30)
    monkeypatch.setattr("psutil.virtual_memory", lambda: available)
    assert memory_of_each(None, 1) == 8 * 2**30 and memory_of_each(None, 4) == 2 * 2**30
    assert memory_of_each(2**30, 4) == 2**30
    with pytest.raises(UserError, match=re.escape("16 GB")):
        memory_of_each(9 * 2**30, 2)
    with pytest.raises(UserError, match="6 MB"):
        memory_of_each(2**20, 1)


@pytest.mark.parametrize(
    "content, killed",
    [
        ("low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n", 2),
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n", 7),
        ("oom_kill_disable 0\nunder_oom 0\n", 0),
    ],
)
def test_the_kernel_is_asked_whom_it_killed(content, killed, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "ann_benchmarks.run.containers.inside._COUNTS", (tmp_path / "absent", tmp_path / "there")
    )
    assert killed_processes() == 0
    (tmp_path / "there").write_text(content)
    assert killed_processes() == killed


# Images, and what a container is created with


def test_tags_are_split_off():
    assert split_tag("pgvector_hnsw") == ("pgvector_hnsw", None)
    assert split_tag("pgvector_hnsw:0.8.5") == ("pgvector_hnsw", "0.8.5")
    for name in ("x:", "x:a b", "x:-a", "x:a/b", "x:a:b", "x:é", f"x:{'a' * 129}"):
        with pytest.raises(UserError, match="must be a tag of an image"):
            split_tag(name)
    assert tagged("ann-benchmarks-x", None) == "ann-benchmarks-x"
    assert tagged("ann-benchmarks-x", "2") == tagged("ann-benchmarks-x:1", "2") == "ann-benchmarks-x:2"


class Images:
    """Stands for an engine's images: one with these labels, or the error that it answers with."""

    def __init__(self, labels=None, error=None):
        self.found = SimpleNamespace(id="1", labels=labels, attrs={"Config": {"Env": None}})
        self.error = error
        self.images = self

    def get(self, name):
        if self.error is not None:
            raise self.error
        return self.found


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, (False, False, ())),
        ({"gpu": "none", "root": "false"}, (False, False, ())),
        ({"gpu": "all", "root": "true", "environment": "A  B"}, (True, True, ("A", "B"))),
    ],
)
def test_an_image_declares_what_it_needs(labels, expected):
    found = find_image(Images({f"ann-benchmarks.{name}": value for name, value in labels.items()}), "x")
    assert (found.needs_gpus, found.needs_root, found.environment) == expected


def test_an_image_that_cannot_be_had_is_none_or_one_line():
    assert find_image(Images(error=ImageNotFound("no such image")), "x") is None
    with pytest.raises(UserError, match=r"^the image X cannot be looked for: invalid reference format$"):
        find_image(Images(error=APIError("400", explanation="invalid\nreference format")), "X")


def client_with(*options):
    """Stands for an engine with these security options; `created` holds the arguments of its containers."""
    created = []

    def get_archive(path):
        raise NotFound("no such file")

    def create(image, **arguments):
        created.append({"image": image, **arguments})
        return SimpleNamespace(get_archive=get_archive, put_archive=lambda *_: True)

    containers = SimpleNamespace(create=create)
    info = {"SecurityOptions": list(options)}
    return SimpleNamespace(info=lambda: info, containers=containers, created=created)


def test_a_container_may_do_next_to_nothing(tmp_path):
    client, user = client_with(), ContainerAccount(1000, 100)
    Sandbox(IMAGE, user, "me", 2**30, [0, 2], {Path("/a"): "/b"}, tmp_path, {"A": "1"}).create(client)
    [arguments] = client.created
    assert arguments["image"] == "sha256:1" and arguments["user"] == "1000:100"
    assert arguments["network_mode"] == "none"
    assert arguments["cap_drop"] == ["ALL"] and not arguments["cap_add"]
    assert arguments["security_opt"] == ["no-new-privileges"]
    assert arguments["pids_limit"] == MOST_PROCESSES
    assert arguments["mem_limit"] == arguments["memswap_limit"] == arguments["shm_size"] == 2**30
    assert arguments["cpuset_cpus"] == "0,2" and arguments["environment"]["A"] == "1"
    assert arguments["environment"]["PYTHONPYCACHEPREFIX"] == "/tmp/pycache"
    assert not {"privileged", "pid_mode", "devices"} & arguments.keys() and not arguments["device_requests"]
    mounts = {mount["Source"]: (mount["Target"], mount["ReadOnly"]) for mount in arguments["mounts"]}
    assert mounts == {"/a": ("/b", True), str(tmp_path): (f"{HOME}/storage", False)}


def test_an_image_is_given_the_gpus_and_capabilities_that_it_needs():
    client = client_with()
    image = Image("x", "1", True, True, (), bytecode="/opt/pycache")
    Sandbox(image, ContainerAccount(0, 0), "me", 2**30, [0]).create(client)
    [arguments] = client.created
    assert arguments["environment"]["PYTHONPYCACHEPREFIX"] == "/opt/pycache"
    [gpus] = arguments["device_requests"]
    assert gpus["Count"] == -1 and gpus["Capabilities"] == [["gpu"]]
    assert arguments["cap_drop"] == ["ALL"] and arguments["cap_add"] == ROOT_CAPABILITIES


def test_containers_are_never_roots_unless_their_image_says_so(monkeypatch):
    root = Image("x", "1", False, True, ())
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getegid", lambda: 100)
    assert ContainerAccount.choose(IMAGE, client_with()) == ContainerAccount(1000, 100)
    assert ContainerAccount.choose(root, client_with()) == ContainerAccount(0, 0)
    for option in ("name=rootless", "name=userns"):
        assert ContainerAccount.choose(IMAGE, client_with("name=seccomp", option)).uid not in (0, 1000)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert ContainerAccount.choose(IMAGE, client_with()).uid != 0


@pytest.mark.parametrize(
    "mode, account, is_readable",
    [
        (0o644, ContainerAccount(10001, 10001), True),
        (0o600, ContainerAccount(10001, 10001), False),
        (0o600, ContainerAccount(os.getuid(), os.getgid()), True),
        (0o600, ContainerAccount(0, 0), True),
        (0o640, ContainerAccount(10001, os.getgid()), True),
        (0o600, ContainerAccount(10001, os.getgid()), False),
    ],
)
def test_files_that_a_container_could_not_read_are_named(mode, account, is_readable, tmp_path):
    file = tmp_path / "x"
    file.touch()
    file.chmod(mode)
    if is_readable:
        assert dataset_files([file], account)
    else:
        with pytest.raises(UserError, match="chmod"):
            dataset_files([file], account)


def test_files_have_the_same_names_in_a_container(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    outside = tmp_path / "outside.npy"
    outside.touch()
    linked = Path("data/a.npy")
    linked.symlink_to(outside)
    places = dataset_files([linked, outside], ContainerAccount(os.getuid(), os.getgid()))
    assert places == {tmp_path / linked: f"{HOME}/data/a.npy", outside: str(outside)}


def test_plugins_of_ones_own_are_there_beside_the_projects(tmp_path):
    assert set(project_files(ROOT / "algorithms").values()) == {
        *("/home/app/ann_benchmarks", "/home/app/algorithms")
    }
    assert project_files(tmp_path)[tmp_path] == f"/home/app/{tmp_path.name}"


def test_each_image_keeps_its_things_in_a_folder_of_its_own(tmp_path):
    account = ContainerAccount(os.geteuid() or 10001, os.getegid() or 10001)
    one, two = (storage_folder(tmp_path / "s", name, account) for name in ("a/x", "a/x:1"))
    assert one != two and one.parent == two.parent == tmp_path / "s"
    assert one.stat().st_uid == account.uid
    assert storage_folder(tmp_path, "y", replace(account, is_mapped=True)).stat().st_mode & 0o7777 == 0o1777
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="--storage"):
        storage_folder(tmp_path / "file", "x", account)


@pytest.mark.parametrize(
    "environment",
    [
        {"DOCKER_HOST": "unix:///nowhere"},
        {"DOCKER_HOST": "tcp://127.0.0.1:1"},
        {"DOCKER_HOST": "nonsense://x"},
        {"DOCKER_HOST": "ssh://nowhere.invalid"},
        {"DOCKER_HOST": "tcp://127.0.0.1:1", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/nowhere"},
    ],
)
def test_an_engine_that_is_not_there_is_one_line(environment, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError) as caught:
        connect("or add --local")
    text = str(caught.value)
    assert (
        text.startswith("no Docker engine answers (") and text.endswith("or add --local") and "\n" not in text
    )

"""run.py in containers of a real Docker engine."""

import fcntl
import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import h5py
import numpy as np
import pytest

from ann_benchmarks.results.file import damage, iter_result_paths

from .conftest import Workspace, make_dataset
from .programs import call_program, until

pytestmark = pytest.mark.thorough

ANSWER = "def query(self, q, n): return list(range(n))\n"
SLOW = """\
def set_query_arguments(self, number): self.number = number
def query(self, q, n):
    time.sleep(0.02)
    return [0]
def done(self): print("put away")
def __str__(self): return f"slow {self.number}"
"""
SIX_POINTS = {"args": [], "query_args": [[1, 2, 3, 4, 5, 6]]}
EAT = "b'x' * 2**30"
END_SECONDS = 60  # in which nothing may be left of a run that has ended, however that came
KILLS = int(os.environ.get("ANN_BENCHMARKS_TEST_KILLS", "1"))


@dataclass
class Docked(Workspace):
    """A workspace whose plug-ins run in containers of an image that no other test has."""

    engine: object
    image: str

    def add_plugin(self, name, body="pass", run_group=None, **keys):
        return super().add_plugin(name, body, run_group, **{"docker_tag": self.image, **keys})

    def command(self, *arguments):
        words = super().command(*arguments)
        return words if "--local" in arguments else [word for word in words if word != "--local"]

    def run(self, *arguments, **environment):
        words = self.command(*arguments)[2:]
        return call_program("run.py", *words, cwd=self.path, env={**self.environment, **environment})

    def containers(self, image=None):
        """What the engine has of an image, or of all of these tests."""
        label = f"ann-benchmarks.test={self.image}"
        found = self.engine.containers.list(all=True, filters={"label": label}, ignore_removed=True)
        wanted = image and self.engine.images.get(image).id
        return [container for container in found if wanted in (None, container.attrs["Image"])]

    def files(self):
        return {str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_file()}

    def lock_is_free(self, folder="storage"):
        for path in Path(folder).glob(".*.lock"):
            with path.open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    return False
        return True


@pytest.fixture(scope="session")
def images(engine, base_image):
    """Names of an image, of which there is a tag `other` too, and of those with the labels."""
    name = f"ann-benchmarks-test{uuid.uuid4().hex[:8]}"
    mark = f"LABEL ann-benchmarks.test={name}"
    made = {
        "": [],
        ":other": ["ENV MADE=other"],
        "-root": ["LABEL ann-benchmarks.root=true"],
        "-gpu": ["LABEL ann-benchmarks.gpu=all"],
        "-handed": ["LABEL ann-benchmarks.environment='HANDED NOWHERE'", "ENV PYTHONPATH=/opt/own"],
        "-bare": ["ENV PATH=/nowhere"],
    }
    container = engine.containers.create(base_image, ["true"])
    try:
        for suffix, changes in made.items():
            repository, _, tag = f"{name}{suffix}".partition(":")
            container.commit(repository, tag or "latest", changes=[mark, *changes])
    finally:
        container.remove(force=True)
    yield name
    for suffix in made:
        engine.images.remove(f"{name}{suffix}", force=True)


@pytest.fixture
def docked(engine, images, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_dataset()
    docked = Docked(tmp_path, engine, images)
    yield docked
    left = docked.containers()
    for container in left:
        container.remove(force=True)
    assert not left


def attributes(name):
    with h5py.File(Path("results", name)) as file:
        return dict(file.attrs)


def found(name):
    """What a plug-in has found out and had stored."""
    return json.loads(attributes(name)["found"])


def log(name):
    return Path("logs/tiny/10", name).read_text()


def failures(run):
    lines = [line for line in run.stderr.splitlines() if line.startswith("failed: ")]
    return {line.split()[1].partition("(")[0]: line for line in lines}


INSPECT = """\
def fit(self, X):
    import json, socket
    def attempt(action):
        try:
            action()
        except OSError as error:
            return type(error).__name__
        return "done"
    def limit(name, older):
        place = Path("/sys/fs/cgroup")
        return next(p.read_text() for p in (place / name, place / older) if p.exists()).strip()
    lines = Path("/proc/self/status").read_text().splitlines()
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    shared = os.statvfs("/dev/shm")
    count = Path("storage/count")
    count.write_text(str(int(count.read_text()) + 1 if count.exists() else 1))
    hidden = [name for top, folders, names in os.walk("/")
              for name in names if "unseen" in name and not top.startswith(("/proc", "/sys"))]
    self.found = {
        "status": dict(line.split(":\\t", 1) for line in lines if ":\\t" in line),
        "ids": [os.getuid(), os.getgid(), os.geteuid()],
        "interfaces": sorted(os.listdir("/sys/class/net")),
        "up": [line.split()[0] for line in Path("/proc/net/route").read_text().splitlines()[1:]],
        "reached": [attempt(lambda: socket.create_connection((host, 53), 3).close())
                    for host in ("192.0.2.1", "172.17.0.1", "8.8.8.8", "localhost", "example.com")],
        "reached host": attempt(lambda: socket.create_connection(("127.0.0.1", int(PORT)), 3).close()),
        "sockets": [os.path.exists(p) for p in ("/var/run/docker.sock", "/run/docker.sock")],
        "processes": limit("pids.max", "pids/pids.max"),
        "memory": limit("memory.max", "memory/memory.limit_in_bytes"),
        "shared": shared.f_blocks * shared.f_frsize,
        "read-only": [m[4] for m in mounts if m[4].startswith("/home/app") and "ro" in m[5].split(",")],
        "mounted": [m[4] for m in mounts if m[4].startswith("/home/app")],
        "written": [attempt(lambda: open(p, "a").close()) for p in
                    ("ann_benchmarks/x", "algorithms/x", "plugins/x", "data/tiny.hdf5", "/etc/passwd")],
        "hidden": hidden,
        "there": os.listdir("data"),
        "environment": dict(os.environ),
        "modules": sys.path,
        "cpus": sorted(os.sched_getaffinity(0)),
        "runs": int(count.read_text()),
        "user": __import__("pwd").getpwuid(os.getuid()).pw_dir,
    }
    print("this is", "printed")
    print("so is", "this", file=sys.stderr)
def get_additional(self): return {"found": self.found}
"""


def test_a_container_finds_modules_compiled(engine, base_image):
    """Else each would compile what Python, the libraries and the framework consist of."""
    program = (
        "import json, numpy, os; print(*map(os.path.exists, (json.__cached__, numpy.__cached__)),"
        " os.access('/opt/pycache/home/app', os.W_OK))"
    )
    options = {"remove": True, "network_mode": "none", "user": "1000:1000"}
    said = engine.containers.run(base_image, ["python3", "-c", program], **options)
    assert said.decode() == "True True True\n"


def test_a_container_gives_what_local_gives_and_nothing_else_is_in_it(docked):
    """One container, and all that can be asked of it."""
    docked.add_plugin("here", ANSWER)
    local = docked.run("--local")
    assert local.returncode == 0, local.stderr
    Path("data/unseen.hdf5").write_text("nothing for a container")
    Path("unseen").write_text("nothing for a container either")
    temporary = docked.path / "temporary"
    temporary.mkdir()
    listener = socket.create_server(("127.0.0.1", 0))
    body = INSPECT.replace("PORT", str(listener.getsockname()[1])) + ANSWER
    docked.add_plugin("there", body, docker_tag=f"{docked.image}-handed")
    before = docked.files()
    cpu = max(os.sched_getaffinity(0))
    run = docked.run(
        *("--algorithm", "there", "--memory", "1g", "--cpuset", str(cpu)),
        TMPDIR=str(temporary),
        HANDED="over",
        TOKEN="of the user's own",
        ANN_BENCHMARKS_PG_HOST="db",
    )
    assert run.returncode == 0, run.stderr
    listener.close()

    # What is left on this machine
    assert docked.containers() == []
    after = docked.files() - before
    result, its_log = "tiny/10/there/.hdf5", "tiny/10/there/no_arguments.log"
    storage = f"storage/{docked.image}-handed"
    lock = f"storage/.{docked.image}-handed.lock"
    assert after == {f"results/{result}", f"logs/{its_log}", f"{storage}/count", lock}
    assert list(temporary.iterdir()) == []
    assert all(Path(name).stat().st_uid == os.getuid() for name in (f"results/{result}", f"logs/{its_log}"))
    assert log("there/no_arguments.log").splitlines() == ["this is printed", "so is this"]

    # What it says
    assert run.stdout.count(": recall ") == 1 and "there(): recall" in run.stdout
    of_plugin = [line for line in run.stderr.splitlines() if not line.startswith("warning: ")]
    assert of_plugin == ["this is printed", "so is this"]  # and no progress bar: this is no terminal
    assert "warning: ANN_BENCHMARKS_PG_HOST" in run.stderr
    with h5py.File(f"results/{result}") as file, h5py.File("results/tiny/10/here/.hdf5") as of_local:
        assert np.array_equal(file["neighbors"], of_local["neighbors"])
        assert np.array_equal(file["distances"], of_local["distances"])
        busy = {"others_cpu", "run_others_cpu"}  # runs this short seldom know it
        assert set(of_local.attrs) - busy < set(file.attrs) and file.attrs["truth"] == of_local.attrs["truth"]
    attrs = attributes(result)
    image = docked.engine.images.get(f"{docked.image}-handed")
    assert attrs["docker_image"] == f"{docked.image}-handed"
    assert attrs["docker_image_id"] == image.id
    assert attrs["container_memory_bytes"] == 2**30

    # What it is like inside
    inside = found(result)
    status = {name: value.split()[0] for name, value in inside["status"].items() if value.split()}
    assert 0 not in inside["ids"] and inside["user"] == "/home/app"
    assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert {"lo"} <= set(inside["interfaces"]) and inside["up"] == []
    assert "done" not in inside["reached"] and inside["reached host"] != "done"
    assert inside["sockets"] == [False, False]
    assert int(inside["processes"]) <= 10_000
    assert int(inside["memory"]) == 2**30 == inside["shared"]
    data = ("data/tiny.hdf5", "data/tiny.checked.json")
    given = {f"/home/app/{name}" for name in ("ann_benchmarks", "algorithms", "plugins", *data)}
    assert set(inside["read-only"]) == given
    assert set(inside["mounted"]) == given | {"/home/app/storage"}
    assert "done" not in inside["written"]
    assert inside["hidden"] == [] and sorted(inside["there"]) == ["tiny.checked.json", "tiny.hdf5"]
    environment = inside["environment"]
    assert environment["HANDED"] == "over" and environment["HOME"] == "/home/app"
    assert not {"TOKEN", "NOWHERE", "ANN_BENCHMARKS_PG_HOST", "DOCKER_HOST", "TMPDIR"} & set(environment)
    assert "/opt/own" in inside["modules"]  # the image's own PYTHONPATH, as some of ann-benchmarks' have one
    assert inside["cpus"] == [cpu]
    assert inside["runs"] == 1


def test_storage_is_there_in_the_next_run_which_may_follow_at_once(docked):
    body = """\
    def fit(self, X):
        self.found = sorted(os.listdir("storage"))
        Path("storage", f"after-{len(self.found)}").touch()
        while not Path("storage/go").exists(): time.sleep(0.01)
    def query(self, q, n): return [0]
    def get_additional(self): return {"found": self.found}
    """
    docked.add_plugin("keeps", dedent(body))
    first = docked.start("--storage", "elsewhere")
    until(lambda: Path("elsewhere", docked.image, "after-0").exists())
    second = docked.run("--storage", "elsewhere", "--force")
    assert second.returncode == 1
    [line] = second.stderr.splitlines()
    assert f"in use by process {first.pid}" in line and "--storage" in line
    Path("elsewhere", docked.image, "go").touch()
    assert first.wait(30) == 0
    again = docked.run("--storage", "elsewhere", "--force")
    assert again.returncode == 0, again.stderr
    assert found("tiny/10/keeps/.hdf5") == ["after-0", "go"]
    assert {path.name for path in Path("elsewhere", docked.image).iterdir()} == {"after-0", "after-2", "go"}
    assert not Path("storage").exists()
    first.communicate()


def test_what_fails_in_a_container_is_said_and_the_next_goes_on(docked):
    """Each plug-in fails in another way, or prints what it should not."""
    recover = f"""\
    def set_query_arguments(self, number): self.number = number
    def recover(self): pass
    def query(self, q, n):
        if self.number == 2:
            import subprocess
            subprocess.run([sys.executable, "-c", "{EAT}"], check=True)
        return list(range(n))
    """
    docked.add_plugin("a-eats", f"def fit(self, X): self.all = {EAT}")
    docked.add_plugin(
        "b-child",
        f"def fit(self, X):\n    import subprocess\n"
        f"    subprocess.run([sys.executable, '-c', '''{EAT}'''], check=True)",
    )
    docked.add_plugin("c-query", dedent(recover), {"args": [], "query_args": [[1, 2, 3]]})
    docked.add_plugin("d-crash", "def fit(self, X):\n    import ctypes\n    ctypes.string_at(0)")
    loud = """\
    def fit(self, X):
        import subprocess
        noise = np.random.default_rng(1).bytes(2**20)
        for _ in range(24):
            os.write(1, noise)
            os.write(2, noise)
        subprocess.run(["sh", "-c", "head -c 1000000 /dev/zero; echo child"], check=True)
        print("last words")
    """
    docked.add_plugin("e-loud", dedent(loud) + ANSWER)
    docked.add_plugin("f-raise", "def fit(self, X): raise ValueError('no such\\nluck')")
    docked.add_plugin("h-bare", ANSWER, docker_tag=f"{docked.image}-bare")
    docked.add_plugin("i-gpu", ANSWER, docker_tag=f"{docked.image}-gpu")
    docked.add_plugin("k-quick", ANSWER)
    # Binary noise is shown as it comes, which need not be text.
    with Path("shown").open("wb") as shown:
        run = subprocess.run(
            docked.command("--memory", "300m"),
            env=docked.environment,
            stdout=subprocess.PIPE,
            stderr=shown,
            timeout=120,
        )
    run.stdout = run.stdout.decode()
    run.stderr = Path("shown").read_text(errors="replace")
    assert run.returncode == 1
    failed = failures(run)
    for name in ("a-eats", "b-child", "c-query"):
        assert "memory ran out" in failed[name] and "--memory" in failed[name] and "300 MB" in failed[name]
    assert "SIGSEGV" in failed["d-crash"] and "(see logs/tiny/10/d-crash/" in failed["d-crash"]
    assert "in fit" in log("d-crash/no_arguments.log")
    assert "ValueError: no such luck (see logs/" in failed["f-raise"]
    assert "Traceback" in log("f-raise/no_arguments.log")
    assert "python3" in failed["h-bare"] and "ann-benchmarks" in failed["h-bare"]
    if "i-gpu" in failed:  # else there are some
        assert "no container could be started" in failed["i-gpu"] and "toolkit" in failed["i-gpu"]
    assert set(failed) - {"i-gpu"} == {"a-eats", "b-child", "c-query", "d-crash", "f-raise", "h-bare"}
    kept = {name for name in docked.results() if "i-gpu" not in name}
    assert kept == {f"tiny/10/{name}.hdf5" for name in ("c-query/1", "c-query/3", "e-loud/", "k-quick/")}
    noise = np.random.default_rng(1).bytes(2**20)
    written = Path("logs/tiny/10/e-loud/no_arguments.log").read_bytes()
    assert written.endswith(b"child\nlast words\n")
    [*_, longest] = sorted(noise.split(b"\n"), key=lambda line: (b"\r" not in line, len(line)))
    assert written.count(longest) >= 40  # pieces of both streams may meet within a line
    rows = {row.split("(")[0]: row.split()[1:4] for row in run.stdout.splitlines() if ")  " in row}
    assert rows["c-query"] == ["2", "0", "1"] and rows["k-quick"] == ["1", "0", "0"]


def without_warnings(errors: str) -> list[str]:
    """Leave out what is said of other tests, which take CPU meanwhile."""
    return [line for line in errors.splitlines() if not line.startswith("warning: ")]


def test_a_container_killed_from_outside_is_said_and_ctrl_c_leaves_nothing(docked):
    docked.add_plugin("a-killed", "def fit(self, X): time.sleep(60)")
    docked.add_plugin("b-slow", SLOW, SIX_POINTS)
    process = docked.start()
    until(lambda: any(container.status == "running" for container in docked.containers()))
    [container] = docked.containers()
    container.kill()
    until(lambda: len(list(iter_result_paths())) >= 2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=END_SECONDS)
    assert process.returncode == 130
    killed, put_away, ending = without_warnings(errors)
    assert killed.startswith("failed: a-killed(): ") and "killed from outside" in killed
    assert "memory" not in killed
    assert put_away == "put away" == log("b-slow/no_arguments.log").rstrip()
    assert "what is finished is kept" in ending
    assert docked.containers() == []
    assert 2 <= len(docked.results()) < 6 and len(docked.results()) == len(list(iter_result_paths()))
    assert all(damage(path) is None for path in iter_result_paths())


STUBBORN = """\
def fit(self, X):
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    os.kill(os.getppid(), signal.SIGSTOP)
    Path("storage/begun").touch()
    time.sleep(600)
"""


def test_runs_killed_at_random_moments_leave_nothing_and_go_on(docked):
    docked.add_plugin("slow", SLOW, SIX_POINTS)
    # One whose container does not end by itself when run.py is gone, beside the others: it takes its time.
    stubborn = f"{docked.image}:other"
    docked.add_plugin("stubborn", STUBBORN, docker_tag=stubborn)
    process = docked.start("--algorithm", "stubborn", "--storage", "apart")
    until(Path("apart", stubborn.replace(":", "_"), "begun").exists)
    process.kill()
    process.communicate()
    assert docked.containers(stubborn) and not docked.lock_is_free("apart")

    seed = random.randrange(2**32)
    moments = random.Random(seed)
    for number in range(KILLS):
        said = f"seed {seed}, kill {number}"
        moment = moments.uniform(0.5, 6)
        process = docked.start("--algorithm", "slow")
        time.sleep(moment)
        process.kill()
        process.communicate()
        until(lambda: not docked.containers(docked.image) and docked.lock_is_free(), END_SECONDS)
        assert all(damage(path) is None for path in iter_result_paths()), said
    until(lambda: not docked.containers() and docked.lock_is_free("apart"), END_SECONDS)
    last = docked.run("--algorithm", "slow")
    assert last.returncode == 0, last.stderr
    assert docked.results() == [f"tiny/10/slow/{number}.hdf5" for number in range(1, 7)]
    assert all(damage(path) is None for path in iter_result_paths())


def test_an_image_that_is_not_there_and_a_tag_of_one_that_is(docked):
    docked.add_plugin("lacking", ANSWER, docker_tag="ann-benchmarks-no-such-image")
    docked.add_plugin("quick", ANSWER, docker_tag=docked.image)
    asked = docked.run("--algorithm", "lacking")
    assert asked.returncode == 1
    [line] = asked.stderr.splitlines()
    assert "python install.py --algorithm no-such-image'" in line and "--local" in line
    of_tag = docked.run("--algorithm", "quick:9.9")
    assert of_tag.returncode == 1 and f"{docked.image}:9.9" in of_tag.stderr
    assert len(of_tag.stderr.splitlines()) == 1 and ":9.9'" in of_tag.stderr

    others = docked.run()
    assert others.returncode == 0, others.stderr
    [line] = [line for line in others.stderr.splitlines() if "is skipped" in line]  # beside doubts about runs
    assert line.startswith("warning: algorithm 'lacking' is skipped") and "install.py" in line
    tagged = docked.run("--algorithm", "quick:other")
    assert tagged.returncode == 0, tagged.stderr
    assert docked.results() == ["tiny/10/quick-other/.hdf5", "tiny/10/quick/.hdf5"]
    attrs = attributes("tiny/10/quick-other/.hdf5")
    assert attrs["algo"] == "quick-other" and attrs["docker_image"] == f"{docked.image}:other"
    assert attrs["docker_image_id"] == docked.engine.images.get(f"{docked.image}:other").id
    drawn = call_program("plot.py", "--dataset", "tiny", "--output", "plot.svg", env=docked.environment)
    assert drawn.returncode == 0, drawn.stderr
    assert {"quick", "quick other"} <= set(re.findall(r"<!-- (quick.*?) -->", Path("plot.svg").read_text()))

    by_tag = docked.run("--docker-tag", f"{docked.image}:other")
    assert by_tag.returncode == 0 and "1 point finished before" in by_tag.stdout, by_tag.stderr
    by_name = docked.run("--docker-tag", docked.image)
    assert by_name.returncode == 0 and "1 point finished before" in by_name.stdout, by_name.stderr


def test_an_image_that_needs_root_has_it_inside_alone(docked):
    body = """\
    def fit(self, X):
        status = Path("/proc/self/status").read_text()
        self.found = {"uid": os.getuid(), "capabilities": re.search(r"CapBnd:\\s*(\\w+)", status)[1]}
        self.found |= {"privileges": re.search(r"NoNewPrivs:\\s*(\\w+)", status)[1], "written": []}
        for name in ("ann_benchmarks/x", "algorithms/x", "plugins/x", "data/tiny.hdf5"):
            try:
                open(name, "a").close()
                self.found["written"].append(name)
            except OSError:
                pass
        os.chown("storage", 1234, 1234)
    def get_additional(self): return {"found": self.found}
    """
    docked.add_plugin("root", "import re\n" + dedent(body) + ANSWER, docker_tag=f"{docked.image}-root")
    module = Path("plugins/root/module.py")
    module.write_text("import re\n" + module.read_text().replace("    import re\n", ""))
    run = docked.run()
    assert run.returncode == 0, run.stderr
    inside = found("tiny/10/root/.hdf5")
    names = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
    numbers = dict(zip(names, (0, 1, 3, 5, 6, 7), strict=True))
    assert int(inside["capabilities"], 16) == sum(1 << numbers[name] for name in names)
    assert inside["uid"] == 0 and inside["privileges"] == "1" and inside["written"] == []
    assert Path("results/tiny/10/root/.hdf5").stat().st_uid == os.getuid()


SOCKET = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")


class Forwarder:
    """Stands between run.py and the engine, and can be switched off, as an engine that is restarted."""

    def __init__(self, path):
        self.path, self.sockets = path, []
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(path))
        self.server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                ours, _ = self.server.accept()
            except OSError:
                return
            theirs = socket.socket(socket.AF_UNIX)
            theirs.connect(SOCKET)
            self.sockets += [ours, theirs]
            for source, target in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source, target):
        try:
            while piece := source.recv(65536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def end(self):
        self.path.unlink()
        self.server.close()
        for each in self.sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.mark.skipif(not Path(SOCKET).is_socket(), reason="the engine is not at a socket")
def test_an_engine_that_goes_away_is_said_and_what_is_finished_is_kept(docked, tmp_path_factory):
    forwarder = Forwarder(tmp_path_factory.mktemp("engine") / "s")
    docked.add_plugin("a-slow", SLOW, SIX_POINTS)
    docked.add_plugin("b-next", ANSWER)
    process = subprocess.Popen(
        docked.command(),
        env={**docked.environment, "DOCKER_HOST": f"unix://{forwarder.path}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: len(list(iter_result_paths())) >= 2)
    forwarder.end()
    out, errors = process.communicate(timeout=90)
    assert process.returncode == 1
    assert "Traceback" not in errors
    failed = [line for line in errors.splitlines() if line.startswith("failed: ")]
    assert len(failed) == 2 and "lost" in failed[0] and "no container could be started" in failed[1]
    assert out.splitlines()[-1].split()[:4] == ["b-next()", "0", "0", "1"]
    assert len(docked.results()) >= 2
    back = Forwarder(forwarder.path)
    until(lambda: not docked.containers() and docked.lock_is_free())
    back.end()

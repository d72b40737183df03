"""install.py builds images, with a real engine."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from .docker_engine import BASE, DEBIAN, ScratchPlugins
from .programs import ROOT, write_config

pytestmark = pytest.mark.thorough


def states(output: str) -> dict[str, str]:
    """What became of each image that was built, by its name."""
    return dict(re.findall(r"^(\S+): ((?:built|unchanged) .*)$", output, re.MULTILINE))


def only_error(done: "subprocess.CompletedProcess[str]") -> str:
    assert done.returncode == 1 and "Traceback" not in done.stderr
    [line] = done.stderr.splitlines()
    return line


def test_a_build_its_log_and_the_table(plugins: ScratchPlugins) -> None:
    name = plugins.add(
        "good",
        "ARG GREETING=none",
        "ARG FROM_ENVIRONMENT=default",
        "ARG UNSET=default",
        'RUN echo "$GREETING $FROM_ENVIRONMENT $UNSET via $http_proxy" > /greeting',
        "RUN head -c 5000000 /dev/zero > /z",
    )
    arguments = ("--algorithm", name, "--build-arg", "GREETING=hello", "FROM_ENVIRONMENT", "UNSET")
    done = plugins.install(*arguments, FROM_ENVIRONMENT="you", http_proxy="http://127.0.0.1:9")
    assert done.returncode == 0, done.stderr
    assert plugins.output(name, "cat", "/greeting") == "hello you default via http://127.0.0.1:9\n"
    image = f"ann-benchmarks-{name}"
    begun, ended = done.stdout.splitlines()
    assert begun == f"{image}: begun, its log is logs/install/{image}.log"
    assert re.fullmatch(rf"{image}: built in \d+\.\d s, \d+ MB", ended)
    log = plugins.log(name)
    assert '"FROM_ENVIRONMENT": "you", "GREETING": "hello"' in log
    assert "RUN echo" in log and "Successfully built" in log and "\x1b" not in log
    again = plugins.install(*arguments, FROM_ENVIRONMENT="you")
    assert states(again.stdout)[image].startswith("unchanged")
    assert plugins.log(name).count("Successfully built") == 1
    anew = plugins.install(*arguments, "--no-cache", FROM_ENVIRONMENT="you")
    assert states(anew.stdout)[image].startswith("built")


def test_a_failing_build_stops_no_other(plugins: ScratchPlugins) -> None:
    bad = plugins.add("bad", "RUN echo first; echo 'E: no package of that name' >&2; echo later; exit 3")
    good = plugins.add("good", "RUN true")
    line = only_error(done := plugins.install())
    log = f"logs/install/ann-benchmarks-{bad}.log"
    assert line == (
        f"failed: ann-benchmarks-{bad}: step 2/2 ended with status 3: E: no package of that name (see {log})"
    )
    assert [*states(done.stdout)] == [f"ann-benchmarks-{good}"]
    assert "first" in plugins.log(bad) and "later" in plugins.log(bad)


def test_what_is_made_of_a_failed_image_is_not_tried(plugins: ScratchPlugins) -> None:
    bad = plugins.add("a", "RUN false")
    above = plugins.add("0", "RUN true", base=f"ann-benchmarks-{bad}")
    done = plugins.install("--algorithm", above)
    assert done.returncode == 1
    assert f"ann-benchmarks-{above}: not built, since ann-benchmarks-{bad} failed" in done.stderr
    (plugins.folder / bad / "Dockerfile").write_text(f"FROM {DEBIAN}\nRUN true\n")
    done = plugins.install("--algorithm", above, "--proc", "2")
    assert [*states(done.stdout)] == [f"ann-benchmarks-{bad}", f"ann-benchmarks-{above}"]


def test_two_at_a_time(plugins: ScratchPlugins) -> None:
    """Each build waits for the other, at a server on this machine, whose network builds have."""
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(60)

    def serve() -> None:
        guests = [server.accept()[0] for _ in range(2)]
        for guest in guests:
            guest.sendall(b"both are here\n")
            guest.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    port = server.getsockname()[1]
    wait = f'exec 3<>/dev/tcp/127.0.0.1/{port}; read -t 60 line <&3; test "$line" = "both are here"'
    names = [plugins.add(name, f"RUN : {name}; bash -c '{wait}'") for name in ("one", "two")]
    done = plugins.install("--proc", "2")
    server.close()
    assert done.returncode == 0, done.stderr
    assert sorted(states(done.stdout)) == [f"ann-benchmarks-{name}" for name in names]


def add_config(plugins: ScratchPlugins, name: str, body: str) -> None:
    folder = plugins.folder / name
    (folder / "module.py").write_text(f"from ann_benchmarks.algorithms.base.module import BaseANN\n{body}")
    write_config(folder, f"{name}-algorithm", module=f"plugins.{name}", docker_tag=f"ann-benchmarks-{name}")


def test_images_are_checked(plugins: ScratchPlugins) -> None:
    good, bad = plugins.add("good", "RUN true", base=BASE), plugins.add("bad", "RUN true", base=BASE)
    works = """
class Plugin(BaseANN):
    @classmethod
    def installed_versions(cls):
        return {"postgres": "17.6", "vector": "0.8.0"}
"""
    add_config(plugins, good, works)
    add_config(plugins, bad, "import nonesuch\nclass Plugin(BaseANN): pass\n")
    done = plugins.install("--base", "debootstrap")
    assert f"ann-benchmarks-{bad}: {bad}-algorithm does not work in it: " in only_error(done)
    assert "nonesuch" in done.stderr
    said = states(done.stdout)
    assert said[f"ann-benchmarks-{good}"].endswith(" MB, postgres 17.6, vector 0.8.0")
    assert f"ann-benchmarks-{bad}" not in said
    assert said[BASE].startswith("unchanged") and DEBIAN not in said  # what the plug-ins start from
    done = plugins.install("--base", "debootstrap", "--algorithm", f"{good}-algorithm")
    assert done.returncode == 0 and f"ann-benchmarks-{bad}" not in done.stdout
    assert states(done.stdout)[BASE].endswith(" MB")  # nobody asks it for the algorithm


def test_a_base_that_does_not_exist(plugins: ScratchPlugins) -> None:
    before = plugins.image("base").id
    name = plugins.add("orphan", "RUN true", base="${BASE}")
    path = plugins.folder / name / "Dockerfile"
    path.write_text(f"ARG BASE=ann-benchmarks\n{path.read_text()}")
    done = plugins.install("--algorithm", name, "--base", "nobody.invalid/has:this")
    assert done.returncode == 1
    assert "the base image nobody.invalid/has:this cannot be had (step " in done.stderr
    assert "--base debootstrap" in done.stderr
    assert f"ann-benchmarks-{name}: not built, since ann-benchmarks-base failed" in done.stderr
    assert plugins.image("base").id == before
    done = plugins.install("--algorithm", name, "--build-arg", "BASE=nobody.invalid/has:that")
    assert (
        "nobody.invalid" in only_error(done) and "the image that it starts from cannot be had" in done.stderr
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_ends_at_once(plugins: ScratchPlugins, number: int) -> None:
    name = plugins.add("slow", f"RUN echo begun {time.time()} ; sleep 300")
    arguments = [sys.executable, ROOT / "install.py", "--definitions", "plugins", "--algorithm", name]
    program = subprocess.Popen(
        arguments, cwd=plugins.path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_for(lambda: "\nbegun" in plugins.log(name), program)
    [container] = re.findall(r"---> Running in (\w+)", plugins.log(name))
    assert plugins.engine.containers.get(container).status == "running"
    program.send_signal(number)
    _, stderr = program.communicate(timeout=60)  # of the 300 s that the build would take
    assert program.returncode == 128 + number
    word = "interrupted" if number == signal.SIGINT else "terminated"
    assert stderr == f"{word}; what is finished is kept, the same command continues\n"
    wait_for(lambda: container not in {each["Id"][:12] for each in plugins.engine.api.containers(all=True)})


def wait_for(condition, program: "subprocess.Popen[str] | None" = None) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except FileNotFoundError:
            pass
        assert program is None or program.poll() is None, program.communicate()
        time.sleep(0.05)
    raise AssertionError("it did not come")


needs_debootstrap = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("debootstrap") is None, reason="needs root and debootstrap"
)


@needs_debootstrap
def test_a_mirror_that_is_none(plugins: ScratchPlugins) -> None:
    before = plugins.engine.images.get(DEBIAN).id
    arguments = (
        "--algorithm",
        "base",
        "--base",
        "debootstrap",
        "--no-cache",
        "--mirror",
        "http://127.0.0.1:9",
    )
    line = only_error(plugins.install(*arguments, TMPDIR=str(plugins.path)))
    assert line.startswith("error: debootstrap failed with http://127.0.0.1:9/debian: ")
    assert "--base IMAGE" in line and not [*plugins.path.glob("ann-benchmarks-debian-*")]
    assert plugins.engine.images.get(DEBIAN).id == before

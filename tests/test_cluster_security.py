"""A Dask scheduler with TLS, by the commands in the docs, and one line where others can reach one without."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import dask
import distributed  # noqa: F401 (Dask's configuration has its defaults then)
import pytest

from ann_benchmarks.common import dask_cluster
from ann_benchmarks.common.dask_cluster import check_scheduler, connected

from .programs import ROOT, one_line, run_program, temporary_folder

PAGE = (ROOT / "docs/datasets.md").read_text().partition("### On a Dask cluster")[2]
ADDRESS = re.compile(r"Scheduler at: *(tls://127\.0\.0\.1:\d+)")

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made by openssl"),
]


def documented(pattern: str) -> str:
    """Commands in the page."""
    return re.search(rf"^    ({pattern})$", PAGE, re.MULTILINE)[1].replace("\n    ", "\n")


def environment(folder: Path) -> dict[str, str]:
    # Dask reads the value of its variables as Python, which warns of random names such as "1jx".
    quiet = {"PYTHONWARNINGS": "ignore::SyntaxWarning"}
    return os.environ | quiet | {"PYTHONPATH": str(ROOT), "DASK_CONFIG": str(folder / "cluster/dask.yaml")}


def command(first: str, scheduler: str = "tls://HOST:8786") -> list[str]:
    """A command of Dask's in the page, with this machine's address, and any free port."""
    program, *arguments = documented(f"{first} .*").partition(" #")[0].split()
    script = shutil.which(program, path=str(Path(sys.executable).parent))
    replaced = {"HOST": "127.0.0.1", "WORKER": "127.0.0.1", "tls://HOST:8786": scheduler}
    ports = ["--port", "0"] if first == "dask scheduler" else ["--local-directory", "."]
    return [script, *(replaced.get(word, word) for word in arguments), *ports]


@pytest.fixture(scope="module")
def certified() -> Iterator[Path]:
    """A folder with what the docs' commands make."""
    with temporary_folder() as folder:
        made = documented(r"mkdir -m 700 cluster(?:\n.*)*?\n    END")
        subprocess.run(["bash", "-e", "-c", made], cwd=folder, check=True, capture_output=True, timeout=60)
        yield folder


@pytest.fixture(scope="module")
def scheduler(certified: Path) -> Iterator[str]:
    """A scheduler with a worker, both started as in the docs."""
    with ExitStack() as stack:

        def start(what: list[str]) -> Path:
            log = certified / f"log-{what[1]}"
            with log.open("w") as output:
                started = subprocess.Popen(
                    what, cwd=certified, env=environment(certified), stdout=output, stderr=output
                )
            stack.callback(started.wait, 20)
            stack.callback(started.terminate)
            return log

        log = start(command("dask scheduler"))
        deadline = time.monotonic() + 60
        while not (found := ADDRESS.search(log.read_text())):
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        start(command("dask worker", found[1]))
        yield found[1]


def test_the_commands_of_the_docs(certified: Path, scheduler: str, workspace):
    assert (certified / "cluster/key.pem").stat().st_mode & 0o77 == 0
    arguments = ("--ground-truth", "tiny", "--neighbors", 20, "--scheduler", scheduler)
    done = run_program("create_dataset.py", *arguments, env=environment(certified), timeout=200)
    assert (done.returncode, done.stderr) == (0, "")
    assert "has the 20 nearest rows" in done.stdout


@pytest.mark.parametrize(
    ("configuration", "scheme", "problem"),
    [
        ({"require-encryption": True}, "tcp", "Dask's configuration requires TLS, and tcp://.* is without: "),
        ({}, "tls", "tls://.* needs certificates: name Dask's configuration in DASK_CONFIG"),
        ({}, "tcp", "the Dask scheduler tcp://.* cannot be reached"),
        (
            {"tls.ca-file": "CA", "tls.client.cert": "missing"},
            "tls",
            "the certificates for tls://.* cannot be",
        ),
        (
            {"tls.ca-file": "CA", "tls.client.cert": "damaged"},
            "tls",
            "the certificates for tls://.* cannot be",
        ),
    ],
)
def test_who_has_no_certificate_gets_a_line(
    certified: Path, scheduler: str, tmp_path: Path, configuration: dict, scheme: str, problem: str
):
    """At once: Dask's client would wait for a minute, and print a traceback."""
    (tmp_path / "damaged").write_text("nonsense")
    files = {
        "CA": certified / "cluster/cert.pem",
        **{name: tmp_path / name for name in ("missing", "damaged")},
    }
    configured = {
        f"distributed.comm.{key}": str(files[value]) if value in files else value
        for key, value in configuration.items()
    }
    with (
        dask.config.set(configured),
        one_line(f"^{problem}.*$"),
        connected(scheduler.replace("tls", scheme)),
    ):
        pass


@pytest.mark.parametrize(
    ("bound", "address", "warned"),
    [
        ("127.0.0.1", "tcp://127.0.0.1", None),
        ("127.0.0.1", "localhost", None),
        ("127.0.0.2", "tcp://127.0.0.2", "127.0.0.2"),
        ("0.0.0.0", "tls://127.0.0.1", None),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 stands for an address that others reach")
def test_a_scheduler_that_others_reach(
    bound: str, address: str, warned: str | None, monkeypatch: pytest.MonkeyPatch, capsys
):
    known = {"127.0.0.1": SimpleNamespace(is_loopback=True), "127.0.0.2": SimpleNamespace(is_loopback=False)}
    monkeypatch.setattr(dask_cluster, "ip_address", known.__getitem__)
    with socket.create_server((bound, 0)) as listening:
        port = listening.getsockname()[1]
        check_scheduler(f"{address}:{port}")
    said = capsys.readouterr().err
    if warned is None:
        assert said == ""
    else:
        assert said.startswith("warning: the Dask scheduler has no TLS, and whoever reaches it")
        assert f" at {warned} can run programs there: use TLS" in said
        assert said.count("\n") == 1

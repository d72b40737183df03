import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data import download as downloading
from ann_benchmarks.data.download import DownloadRequest, fetch

from .file_server import FileServer, Request
from .programs import ROOT, until

pytestmark = pytest.mark.thorough

PIECE = 2**16
SIZE = 1_000_003
BODY = random.Random(1).randbytes(SIZE)
TARGET = Path("data/file")
JOURNAL = Path("data/.file.partial.json")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(downloading, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(downloading, "CHUNK", PIECE // 16)
    running = FileServer(file=BODY)
    yield running
    running.shutdown()
    running.server_close()


def download(server: FileServer, body: bytes = BODY, **options) -> None:
    fetch([DownloadRequest(server.url(), TARGET, **options)])
    assert_whole(body)


def assert_whole(body: bytes = BODY) -> None:
    assert TARGET.read_bytes() == body
    assert names() == ["file"]


def arrived() -> int:
    assert json.loads(JOURNAL.read_text())["validator"]
    return Path("data/.file.partial").stat().st_size


def names() -> list[str]:
    return sorted(path.name for path in Path("data").iterdir())


def failure(server: FileServer, **options) -> str:
    with pytest.raises(UserError) as raised:
        fetch([DownloadRequest(server.url(), TARGET, **options)], hint="name a mirror in VARIABLE")
    message = str(raised.value)
    assert not TARGET.exists() and "\n" not in message and server.url() in message
    return message


def cuts(*sizes: int | None, then: int | None = None) -> Callable[[], int | None]:
    left = list(sizes)
    return lambda: left.pop(0) if left else then


# Whole files


def test_downloads_once(server: FileServer) -> None:
    download(server, size=SIZE)
    download(server)
    assert server.sent == SIZE and len(server.requests) == 1
    assert all("Mozilla" in request.headers["User-Agent"] for request in server.requests)


@pytest.mark.parametrize("size", [0, 1, PIECE])
def test_small_files(server: FileServer, size: int) -> None:
    server.bodies["file"] = BODY[:size]
    download(server, BODY[:size], size=size)


def test_many_small_files_use_all_connections(server: FileServer) -> None:
    bodies = {f"part{number:02}": BODY[number : 3000 + 2 * number] for number in range(40)}
    server.bodies = dict(bodies)
    gate = threading.Barrier(4, timeout=60)
    server.before = lambda request: gate.wait() and None
    requests = [DownloadRequest(server.url(name), Path("data") / name) for name in bodies]
    fetch(requests)
    assert {name: (Path("data") / name).read_bytes() for name in bodies} == bodies
    assert [request.path for request in server.requests].index("part39") >= 36  # in order, give or take


def test_only_missing_files_are_fetched(server: FileServer) -> None:
    server.bodies |= {"other": b"other"}
    download(server)
    server.requests.clear()
    fetch([DownloadRequest(server.url(name), Path("data") / name) for name in ("file", "other", "other")])
    assert {request.path for request in server.requests} == {"other"} and len(server.requests) == 1


def test_a_redirect(server: FileServer) -> None:
    fetch([DownloadRequest(server.url("moved/file"), TARGET)])
    assert_whole()


# Cut connections and failing servers


@pytest.mark.parametrize("ranges", [True, False])
def test_connections_cut_at_random_bytes(server: FileServer, ranges: bool) -> None:
    chance = random.Random(2)
    most = PIECE if ranges else SIZE
    server.ranges = ranges
    server.cut = lambda: chance.randrange(most) if chance.random() < 0.5 else None
    download(server)
    if ranges:
        assert server.sent < 1.4 * SIZE  # it goes on where it was cut, but for what was on its way


def test_goes_on_in_the_next_run(server: FileServer) -> None:
    server.cut = cuts(500_000, then=0)
    message = failure(server)
    assert "run again to go on from what has arrived, or name a mirror in VARIABLE" in message
    first, server.sent, server.cut = server.sent, 0, cuts()
    assert first > 7 * PIECE
    download(server)
    assert SIZE <= first + server.sent < SIZE + PIECE  # and what was on its way


@pytest.mark.parametrize("spoil", [lambda path: os.truncate(path, 200_000), Path.unlink])
def test_a_partial_file_that_has_become_shorter(server: FileServer, spoil: Callable) -> None:
    server.cut = cuts(300_000, then=0)
    failure(server)
    assert 200_000 < arrived() <= 300_000
    spoil(Path("data/.file.partial"))
    server.cut = cuts()
    download(server)


def test_a_server_that_stops_sending_parts_loses_nothing(server: FileServer) -> None:
    server.cut = cuts(500_000, then=0)
    failure(server)
    kept = JOURNAL.read_text()
    server.cut, server.bodies["file"], server.ranges = cuts(), b"<html>sign in</html>", False
    assert "no longer sends parts of the file" in failure(server)
    assert JOURNAL.read_text() == kept
    server.bodies["file"], server.ranges, server.sent = BODY, True, 0
    download(server)
    assert server.sent < SIZE / 2 + 2 * PIECE


def test_a_server_that_knows_ranges_but_not_their_condition(server: FileServer) -> None:
    server.if_range, server.cut = False, cuts(500_000)
    download(server)


def test_without_a_name_of_the_version_the_file_comes_in_one_piece(server: FileServer) -> None:
    server.etags, server.cut = False, cuts(500_000)
    download(server)
    assert [request.range for request in server.requests] == ["", ""]


def test_a_date_names_a_version_too(server: FileServer) -> None:
    server.etags, server.dates, server.cut = False, True, cuts(500_000)
    download(server)
    assert server.requests[1].headers["If-Range"][-3:] == "GMT" and server.sent < SIZE + PIECE


def test_a_server_that_asks_to_wait(server: FileServer) -> None:
    server.statuses = [(503, "1")]
    began = time.monotonic()
    download(server)
    assert time.monotonic() - began > 1


def test_a_server_that_asks_to_wait_too_long(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloading, "LONGEST_PAUSE", 0.2)
    server.statuses = [(503, "3600"), (429, "3600"), (503, "Fri, 01 Jan 2100 00:00:00 GMT"), (503, "later")]
    began = time.monotonic()
    download(server)
    assert 0.4 < time.monotonic() - began < 300


@pytest.mark.parametrize("status", [408, 429, 500, 502])
def test_errors_that_pass(server: FileServer, status: int) -> None:
    server.statuses = [(status, "")] * 2
    download(server)


def test_errors_that_stay(server: FileServer) -> None:
    server.statuses = [(503, "")] * 100
    assert "the server answers 503 Service Unavailable; run again" in failure(server)
    assert len(server.requests) == downloading.ATTEMPTS
    assert names() == []


def test_a_missing_file_is_not_requested_again(server: FileServer) -> None:
    del server.bodies["file"]
    message = failure(server)
    assert "404 Not Found; save the file as data/file yourself, or name a mirror in VARIABLE" in message
    assert len(server.requests) == 1
    assert names() == []


def test_a_silent_server(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloading, "TIMEOUT", (60, 1))
    silences = [3, 3]
    server.before = lambda request: time.sleep(silences.pop() if silences else 0)
    download(server)


def test_no_server(server: FileServer) -> None:
    with pytest.raises(
        UserError, match=r"cannot download http://127.0.0.1:1/x: .*refused.*; run again"
    ) as raised:
        fetch([DownloadRequest("http://127.0.0.1:1/x", TARGET)])
    assert len(str(raised.value)) < 300
    with pytest.raises(
        UserError, match=r"cannot download not-a-url: .*; save the file as data/file yourself"
    ):
        fetch([DownloadRequest("not-a-url", TARGET)])
    assert names() == []


# Servers that send what nobody expects

OK, PART = b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 206 OK\r\n"
PASSING = b"HTTP/1.1 503 \x1b[2J\r\nRetry-After: "
DIGITS = b"9" * 5000
STRANGE: dict[str, tuple[Iterable[bytes], str]] = {
    "body without end": (chain([OK + b"\r\n"], repeat(bytes(2**16))), "file has more than 1,000,003 bytes"),
    "head without end": (chain([OK], repeat(b"X: y\r\n")), "Connection aborted"),
    "redirect to nowhere": ([b"HTTP/1.1 302 Found\r\nLocation: //[::1\r\n\r\n"], "Invalid URL|IPv6"),
    "status that stays": ([b"HTTP/1.1 404 \x1b[31mno\x9b2J\r\n\r\n"], r"404 \\x1b\[31mno\\x9b2J; save"),
    "no status": ([b"\x1b[2J\r\n\r\n"], "Connection aborted"),
    "digits of a length": ([OK + b"Content-Length: %b\r\n\r\nno" % DIGITS], "bytes instead of|invalid"),
    "digits of a range": ([PART + b"Content-Range: bytes 0-0/%b\r\n\r\nx" % DIGITS], "another part than"),
    "digits of a wait": ([PASSING + DIGITS + b"\r\n\r\n"], r"503 \\x1b\[2J; run"),
}


@pytest.mark.parametrize("strange", STRANGE)
def test_strange_servers_end_in_a_line(
    server: FileServer, strange: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.raw, message = STRANGE[strange]
    monkeypatch.setattr(downloading, "LONGEST_PAUSE", 0.1)
    monkeypatch.setattr(downloading, "ATTEMPTS", 2)
    said = failure(server, size=SIZE)
    assert re.search(message, said) and not re.search("[\x1b\x9b]", said), said


# Files that change, and servers that lie


def test_a_file_that_changed_between_runs(server: FileServer) -> None:
    server.cut = cuts(500_000, then=0)
    failure(server)
    server.cut = cuts()
    server.bodies["file"] = BODY[::-1]
    download(server, BODY[::-1])


def test_a_file_that_changes_midway(server: FileServer) -> None:
    def change(request: Request) -> None:
        if len(server.requests) > 1:
            server.bodies["file"] = BODY[::-1]

    server.before, server.cut = change, cuts(500_000)
    download(server, BODY[::-1])


@pytest.mark.parametrize("field", ["start", "total"])
def test_parts_that_are_not_those_requested(server: FileServer, field: str) -> None:
    server.cut, server.wrong = cuts(500_000), {field: 10}
    assert "the server sent" in failure(server)
    server.wrong = {}
    download(server)


@pytest.mark.parametrize("error", [1000, -1000])
def test_a_stream_of_wrong_length(server: FileServer, error: int) -> None:
    server.ranges, server.wrong = False, {"length": error}
    assert f"has {SIZE + error:,} bytes instead of {SIZE:,}" in failure(server, size=SIZE)
    server.wrong = {}
    download(server)


@pytest.mark.parametrize("ranges", [True, False])
def test_another_size_than_expected(server: FileServer, ranges: bool) -> None:
    server.ranges = ranges
    assert f"the server's file has {SIZE:,} bytes instead of 7" in failure(server, size=7)
    assert names() == []


@pytest.mark.parametrize("ends", ["chunked", "until_close"])
def test_a_length_that_shows_at_the_end(server: FileServer, ends: str) -> None:
    server.ranges = False
    setattr(server, ends, True)
    assert "the server's file has more than 7 bytes; try again" in failure(server, size=7)
    assert names() == []
    download(server, size=SIZE)


# First bytes only


@pytest.mark.parametrize("ranges", [True, False])
def test_only_the_first_bytes_travel(server: FileServer, ranges: bool) -> None:
    server.bodies["file"] = BODY * 60
    server.ranges = ranges
    download(server, BODY[:300_000], first_bytes=300_000, size=60 * SIZE)
    # What is in the buffers of both ends when the client hangs up is not in our hands.
    assert server.sent <= (300_000 if ranges else 12e6)


def test_first_bytes_of_a_file_that_has_fewer(server: FileServer) -> None:
    assert "1,000,003 bytes instead of 2,000,000" in failure(server, first_bytes=2_000_000)
    server.ranges, server.chunked = False, True
    assert "1,000,003 bytes instead of 2,000,000" in failure(server, first_bytes=2_000_000)


def test_the_header_of_a_cropped_file_is_edited(server: FileServer) -> None:
    download(server, b"four" + BODY[4:200_000], first_bytes=200_000, finish=edit)


def edit(path: Path) -> None:
    with path.open("rb+") as file:
        assert file.read(4) in (BODY[:4], b"four")
        file.seek(0)
        file.write(b"four")


# Disks, other runs, and ends that nobody planned


def test_a_full_disk_is_noticed_before_the_download(server: FileServer) -> None:
    server.wrong = {"total": 10**18}
    with pytest.raises(UserError, match=r"GB are needed in .*/data"):
        fetch([DownloadRequest(server.url(), TARGET, first_bytes=10**17)])
    assert names() == []


CHILD = f"""
import os, sys
from pathlib import Path
from ann_benchmarks.data import download
from ann_benchmarks.data.download import DownloadRequest, fetch
from ann_benchmarks.common.errors import UserError
download.CHUNK, download.FIRST_PAUSE = {PIECE // 16}, 0.01
def edit(path):
    with path.open("rb+") as file:
        file.write(b"four")
        file.flush()
        os._exit(9)
try:
    fetch([DownloadRequest(sys.argv[1], Path("data/file"), finish=edit if "edit" in sys.argv else None)])
except UserError as error:
    sys.exit(f"error: {{error}}")
"""


def start(server: FileServer, *arguments: str, **options) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, server.url(), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize("ranges", [True, False])
def test_a_disk_that_takes_no_more(server: FileServer, ranges: bool) -> None:
    server.ranges = ranges
    limit = (300_000, 300_000)
    child = start(server, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    assert child.communicate(timeout=60)[1].splitlines()[1:] == [
        "error: cannot write data/.file.partial: File too large"
    ]
    assert child.returncode == 1 and all(name.startswith(".file.partial") for name in names())
    download(server)


def test_killed_while_it_edits_the_header(server: FileServer) -> None:
    child = start(server, "edit")
    child.communicate(timeout=60)
    assert child.returncode == 9 and not TARGET.exists()
    server.sent = 0
    download(server, b"four" + BODY[4:], finish=edit)
    assert server.sent == 0


def test_killed_at_random_moments(server: FileServer) -> None:
    server.pause = 0.01
    for share in (0.3, 0.6, 0.9):
        child = start(server)
        wait_for(lambda share=share: server.sent > share * SIZE, child)
        child.kill()
        child.communicate()
        assert not TARGET.exists()
    kept = arrived()
    assert kept > SIZE / 4
    until(lambda: not server.connections)  # it goes on sending until it has noticed an end
    server.pause, server.sent = 0, 0
    download(server)
    assert server.sent == SIZE - kept


def test_interrupted(server: FileServer) -> None:
    server.pause = 0.02
    child = start(server)
    partial = Path("data/.file.partial")
    wait_for(lambda: partial.exists() and partial.stat().st_size > SIZE / 2, child)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    kept, server.pause = arrived(), 0
    assert kept > SIZE / 2
    until(lambda: not server.connections)
    server.sent = 0
    download(server)
    assert server.sent == SIZE - kept


def wait_for(condition: Callable[[], bool], child: subprocess.Popen[str]) -> None:
    while not condition():
        assert child.poll() is None, child.communicate()
        time.sleep(0.002)


def test_two_runs_at_once(server: FileServer) -> None:
    server.pause = 0.001
    server.bodies["other"] = BODY[::-1]
    failures: list[BaseException] = []
    requests = [DownloadRequest(server.url(name), Path("data") / name) for name in ("file", "other")]

    def run(files: list[DownloadRequest]) -> None:
        try:
            fetch(files)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(requests[:: 1 if n % 2 else -1],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures
    assert server.sent == 2 * SIZE  # each once
    assert TARGET.read_bytes() == BODY and Path("data/other").read_bytes() == BODY[::-1]
    assert names() == ["file", "other"]


def test_a_part_of_unknown_origin_is_not_used(server: FileServer) -> None:
    Path("data").mkdir()
    Path("data/.file.partial").write_bytes(b"x" * SIZE)
    JOURNAL.write_text('{"url": "http://example.org", "segments": [1]}')
    download(server)

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.datasets import download, get_dataset
from ann_benchmarks.datasets.download import URL_VARIABLE
from ann_benchmarks.datasets.write import write_dense
from ann_benchmarks.errors import UserError

NAME = "fashion-mnist-784-euclidean"
TARGET = Path("data") / f"{NAME}.hdf5"
PARTIAL = Path("data") / f".{NAME}.hdf5.partial"


class Server(ThreadingHTTPServer):
    """Serves one body under every path, with the faults that a test asks for; keeps the requests' headers."""

    def __init__(self, body: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.body = body
        self.etag = f'"{hashlib.sha256(body).hexdigest()}"'
        self.requests: list[dict[str, str]] = []
        self.statuses: list[int] = []  # answered first, one a request
        self.cuts: list[int] = []  # bytes sent before the connection is cut, one a request
        self.ranges = True
        self.length_error = 0  # added to the Content-Length of whole answers

    def handle_error(self, request: object, client_address: object) -> None:
        """Connections that the test cuts are no news."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        server.requests.append(dict(self.headers))
        if server.statuses:
            self.send_error(server.statuses.pop(0))
            return
        start = 0
        wanted = self.headers.get("Range", "")
        if server.ranges and wanted and self.headers.get("If-Range") == server.etag:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(server.body):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(server.body) - 1}/{len(server.body)}")
        else:
            self.send_response(200)
        self.send_header("ETag", server.etag)
        self.send_header("Content-Length", str(len(server.body) - start + server.length_error))
        self.end_headers()
        cut = server.cuts.pop(0) if server.cuts else len(server.body)
        self.wfile.write(server.body[start : start + cut])
        self.close_connection = True

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    source = tmp_path / "source.hdf5"
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((4200, 64)).astype(np.float32)
    write_dense(source, "euclidean", ((4000, 64), (200, 64)), np.float32, [(vectors[200:], vectors[:200])])
    running = Server(source.read_bytes())
    threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(URL_VARIABLE, f"http://127.0.0.1:{running.server_port}/")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(download, "FIRST_PAUSE", 0.001)
    yield running
    running.shutdown()
    running.server_close()


def assert_downloaded(server: Server) -> None:
    dataset, _ = get_dataset(NAME)
    dataset.close()
    assert TARGET.read_bytes() == server.body
    assert [path.name for path in Path("data").iterdir()] == [TARGET.name]


def test_downloads_once(server: Server) -> None:
    assert_downloaded(server)
    assert_downloaded(server)
    assert len(server.requests) == 1


def test_goes_on_where_the_connection_was_cut(server: Server) -> None:
    server.cuts = [400_000, 300_000, 100_000]
    assert_downloaded(server)
    starts = [int(sent.get("Range", "bytes=0-")[6:-1]) for sent in server.requests]
    assert len(starts) == 4 and starts[0] == 0
    assert starts == sorted(set(starts))  # every request went on from further along
    assert all(sent["If-Range"] == server.etag for sent in server.requests[1:])


def test_goes_on_in_the_next_run(server: Server) -> None:
    server.cuts = [500_000] + [0] * download.ATTEMPTS
    with pytest.raises(UserError, match=r"cannot download http.*hdf5: .*run again to go on"):
        get_dataset(NAME)
    assert not TARGET.exists()
    arrived = PARTIAL.stat().st_size
    assert arrived > 300_000
    server.cuts = []
    assert_downloaded(server)
    assert server.requests[-1]["Range"] == f"bytes={arrived}-"


def test_a_changed_file_is_fetched_from_the_start(server: Server) -> None:
    server.cuts = [500_000] + [0] * download.ATTEMPTS
    with pytest.raises(UserError):
        get_dataset(NAME)
    server.cuts, server.etag = [], '"another"'
    server.body = server.body[:-8] + b"\0" * 8  # the end of the last distances
    assert_downloaded(server)


def test_a_server_that_ignores_ranges(server: Server) -> None:
    server.ranges = False
    server.cuts = [400_000, 300_000]
    assert_downloaded(server)


def test_a_part_of_unknown_origin_is_not_used(server: Server) -> None:
    Path("data").mkdir()
    PARTIAL.write_bytes(b"x" * 1000)
    assert_downloaded(server)
    assert "Range" not in server.requests[0]


def test_a_part_longer_than_the_file(server: Server) -> None:
    Path("data").mkdir()
    PARTIAL.write_bytes(b"x" * (len(server.body) + 5))
    PARTIAL.with_name(f"{PARTIAL.name}.json").write_text(f'"{server.etag[1:-1]}"')
    assert_downloaded(server)


def test_errors_that_pass(server: Server) -> None:
    server.statuses = [503, 500, 429]
    assert_downloaded(server)


def test_errors_that_stay(server: Server) -> None:
    server.statuses = [503] * download.ATTEMPTS
    with pytest.raises(UserError, match=r"the server answers 503 Service Unavailable; run again"):
        get_dataset(NAME)
    assert len(server.requests) == download.ATTEMPTS
    assert list(Path("data").iterdir()) == []


def test_a_missing_file_is_not_asked_for_again(server: Server) -> None:
    server.statuses = [404]
    with pytest.raises(
        UserError, match=r"404 Not Found; name a mirror that has it in ANN_BENCHMARKS_DATASET_URL"
    ):
        get_dataset(NAME)
    assert len(server.requests) == 1
    assert list(Path("data").iterdir()) == []


@pytest.mark.parametrize("error", [1000, -1000])
def test_a_wrong_length_never_gets_into_place(server: Server, error: int) -> None:
    server.length_error = error
    with pytest.raises(UserError, match=r"bytes|not a usable dataset"):
        get_dataset(NAME)
    assert not TARGET.exists()
    server.length_error = 0
    assert_downloaded(server)


def test_corrupt_bytes_never_get_into_place(server: Server) -> None:
    whole = server.body
    server.body = b"<html>sign in to the network</html>" * 50
    with pytest.raises(UserError, match=r"is not a usable dataset: not a whole HDF5 file; try again"):
        get_dataset(NAME)
    assert list(Path("data").iterdir()) == []
    server.body = whole
    assert_downloaded(server)


def test_no_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URL_VARIABLE, "http://127.0.0.1:1")
    with pytest.raises(UserError, match=r"cannot download http://127.0.0.1:1/.*refused") as raised:
        get_dataset(NAME)
    assert len(str(raised.value)) < 300
    monkeypatch.setenv(URL_VARIABLE, "not-a-url")
    with pytest.raises(UserError, match=r"cannot download not-a-url.*check ANN_BENCHMARKS_DATASET_URL"):
        get_dataset(NAME)


def test_a_full_disk_is_noticed_before_the_download(server: Server) -> None:
    server.length_error = 10**18
    with pytest.raises(UserError, match="MB are needed in"):
        get_dataset(NAME)
    assert list(Path("data").iterdir()) == []


def test_two_at_once_download_once(server: Server) -> None:
    server.cuts = [100_000]
    failures: list[BaseException] = []

    def fetch() -> None:
        try:
            get_dataset(NAME)[0].close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=fetch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert_downloaded(server)
    assert sum("Range" not in sent for sent in server.requests) == 1

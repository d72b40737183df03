from pathlib import Path

import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import get_dataset
from ann_benchmarks.data.datasets.downloads import URL_VARIABLE

from .conftest import make_dataset
from .file_server import FileServer
from .test_download import server  # noqa: F401

NAME = "fashion-mnist-784-euclidean"
TARGET = Path("data") / f"{NAME}.hdf5"


@pytest.fixture
def dataset_server(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileServer:  # noqa: F811
    body = make_dataset("source", folder=tmp_path / "source").read_bytes()
    server.bodies = {f"{NAME}.hdf5": body}
    monkeypatch.setenv(URL_VARIABLE, server.url(""))
    return server


def test_a_dataset_is_downloaded_once(dataset_server: FileServer) -> None:
    for _ in range(2):
        dataset, dimension = get_dataset(NAME)
        dataset.close()
        assert dimension == 8 and TARGET.read_bytes() == dataset_server.bodies[TARGET.name]
        assert len(dataset_server.requests) == 1


def test_a_page_is_no_dataset(dataset_server: FileServer) -> None:
    dataset_server.bodies[TARGET.name] = b"<html>sign in to the network</html>" * 50
    message = (
        r"cannot be used: not a whole HDF5 file; "
        rf"try again, or name a mirror in {URL_VARIABLE}$"
    )
    with pytest.raises(UserError, match=message):
        get_dataset(NAME)
    assert list(Path("data").iterdir()) == []


def test_a_missing_dataset(dataset_server: FileServer) -> None:
    dataset_server.bodies = {}
    with pytest.raises(
        UserError, match=rf"404 Not Found; save the file as {TARGET} yourself, or name a mirror"
    ):
        get_dataset(NAME)

"""The datasets that have a name: the list as it ships, and what a mistake in it says."""

from pathlib import Path

import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import canonical_name, generated, get_dataset, registered
from ann_benchmarks.data.datasets.downloads import URL_VARIABLE
from ann_benchmarks.data.datasets.parts import Parts
from ann_benchmarks.data.datasets.registry import aliases, find_entry, read_description

from .conftest import make_dataset
from .file_server import FileServer
from .test_download import server  # noqa: F401

GB = 10**9


def test_every_dense_set_of_ann_benchmarks_has_its_own_name() -> None:
    for name in ("sift-128-euclidean", "gist-960-euclidean", "glove-25-angular", "deep-image-96-angular"):
        entry = find_entry(name)
        assert entry is not None and entry.url == f"https://ann-benchmarks.com/{name}.hdf5"
    assert find_entry("random-xs-20-euclidean").generate == {"kind": "blobs", "rows": 10_000, "centers": 100}


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("deep1b-test-l2", "deep1b"),
        ("laion-5m-test-ip", "laion-5m"),
        ("laion-400m-test-ip", "laion-400m"),
        ("glove-test-cos", "glove-100-angular"),
        ("cohere-10m-cos", "cohere-10m"),
        *((f"{name}-cos", name) for name in ("openai-5k", "cohere-5k", "cohere-50k")),
        *((f"{name}-ip", name) for name in ("laion-5k", "laion-50k")),
        ("wikipedia-1M", "wikipedia-1m"),
        ("sift-128-euclidean", "sift-128-euclidean"),
    ],
)
def test_names_of_other_benchmarks_are_understood(
    alias: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert canonical_name(alias) == name
    assert find_entry(alias) is find_entry(name) is not None


def test_no_name_is_given_twice() -> None:
    assert not set(aliases()) & set(registered())
    given = [alias for entry in registered().values() for alias in entry.aliases]
    assert len(given) == len(set(given))
    assert not [name for name in [*registered(), *given] if generated.parse(name)]


def test_first_rows_lie_next_to_the_whole_and_have_their_own_neighbours() -> None:
    whole, first = find_entry("deep1b"), find_entry("deep10m")
    assert isinstance(whole, Parts) and isinstance(first, Parts)
    assert (first.rows, first.whole_rows, first.dimension) == (10_000_000, 1_000_000_000, 96)
    assert first.train == whole.train and first.test == whole.test and first.neighbors != whole.neighbors
    assert [str(path) for path in first.files()] == [
        "data/deep1b/base.1B.fbin.crop_nb_10000000",
        "data/deep1b/query.public.10K.fbin",
        "data/deep1b/deep-10M",
    ]
    assert find_entry("ssnpp10m").neighbors == ""


def test_sizes_follow_from_the_format() -> None:
    deep, bigann = find_entry("deep1b"), find_entry("bigann1b")
    assert deep.size_of(deep.train[0]) == 384 * GB + 8 and deep.size_of(deep.test) == 10_000 * 96 * 4 + 8
    assert bigann.size_of(bigann.train[0]) == 128 * GB + 8
    assert deep.size_of(deep.neighbors) is None
    web = find_entry("msmarco-100m")
    assert web.size_of(web.train[0]) == 8 + 101_070_374 * 768 * 4
    assert web.size_of(web.test) == 8 + 9376 * 768 * 4
    assert [path.name for path in find_entry("msmarco-10m").files()] == [
        "vectors.bin.crop_nb_10000000", "query.bin", "msmarco-10M-gt100",
    ]  # fmt: skip


def test_the_sets_of_vibe_are_counted() -> None:
    """19 are in its README of August 2026, and five that it calls deprecated; its paper has 18 of all."""
    vibe = {name: entry for name, entry in registered().items() if "/vibe/" in getattr(entry, "url", "")}
    assert len(vibe) == 24
    for name, entry in vibe.items():
        dimension, distance = name.split("-")[-2:]
        words = {"normalized": "angular", "cosine": "angular"}
        assert (entry.dimension, entry.distance) == (int(dimension), words.get(distance, distance)), name


def test_parts_are_expanded_in_order() -> None:
    laion, cohere = find_entry("laion-400m"), find_entry("cohere-10m")
    assert (
        len(laion.train) == 410 and laion.train[10].endswith("/img_emb_10.npy") and laion.test_rows() == 100
    )
    assert [Path(part).name for part in cohere.train[::9]] == [
        "shuffle_train-00-of-10.parquet",
        "shuffle_train-09-of-10.parquet",
    ]
    wikipedia = find_entry("cohere-wikipedia-en")
    assert len(wikipedia.train) == 253 and wikipedia.train[-1].endswith("/train/0252.parquet")
    assert wikipedia.test_rows() == 1000 and wikipedia.files()[0] == Path(
        "data/cohere-wikipedia-en/0000.parquet"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "distance: cosine\ntrain: a.npy\ntest: b.npy",
            "d.yml:1: distance must be one of euclidean, angular",
        ),
        ("distance: ip\ntrain: a.npy", "d.yml:1: train and test belong together"),
        (
            "distance: ip\ntrain: a.npy\ntest: b.npy\nrow: 3",
            "d.yml:4: unknown key 'row' in the dataset; did you mean 'rows'?",
        ),
        ("distance: ip\ntrain: a.npy\ntest: b.npy\nrows: many", "d.yml:4: rows must be a whole number"),
        ("distance: ip\ntrain: [a.npy, 7]\ntest: b.npy", "d.yml:2: entry 2 must be a text"),
        ("distance: ip\ntrain: []\ntest: b.npy", "d.yml:2: train names no file"),
        ("distance: ip\ntrain: a.npy\ntest: [b.npy]", "d.yml:3: 'test' must be a text"),
        ("distance: ip\ntrain: a.npy\ntest: b.npy\nfilters: abc", "d.yml:4: 'filters' must be a mapping"),
        ("", "d.yml: is empty; expected lines such as"),
        ("distance: ip\ntrain: 'p{0..999999999}.npy'\ntest: b.npy", "d.yml:2: train names more than 100,000"),
        ("distance: ip\ntrain: a.npy\ntest: b.npy\nfolder: ../..", "d.yml:4: folder has '/' in it"),
        ("distance: ip\nhdf5: '{0}'", "d.yml:1: it must name its vectors"),
        ("just text", "d.yml:1: expected the dataset here"),
        ("distance: ip\nfirst_of: deep1b\nrows: 5", "d.yml:1: first_of needs"),
    ],
)
def test_a_mistake_in_a_description_is_one_line(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d.yml").write_text(text)
    with pytest.raises(UserError) as error:
        read_description(Path("d.yml"))
    assert message in str(error.value) and "\n" not in str(error.value)


# Downloads by name.


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

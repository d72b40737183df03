"""The datasets that have a name: what each holds and how it is made."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from . import clustered
from .random_sets import write_blobs, write_random_sets


class Entry(NamedTuple):
    """A registered dataset: training rows and dimension where known, metric, and what writes its file."""

    rows: int | None
    dimension: int | None
    metric: str
    make: Callable[[Path], None]


# Name: training rows and dimension, as ann-benchmarks publishes them. The metric ends the name but for
# lastfm-64-dot, whose vectors were transformed so that the angle orders them as the inner product did.
_DOWNLOADABLE: dict[str, tuple[int | None, int | None]] = {
    "coco-i2i-512-angular": (113_287, 512),
    "coco-t2i-512-angular": (113_287, 512),
    **{f"dbpedia-openai-{n}k-angular": (n * 1000 - 10_000, 1536) for n in range(100, 1100, 100)},
    "deep-image-96-angular": (9_990_000, 96),
    "fashion-mnist-784-euclidean": (60_000, 784),
    "gist-960-euclidean": (1_000_000, 960),
    **{f"glove-{dimension}-angular": (1_183_514, dimension) for dimension in (25, 50, 100, 200)},
    "kosarak-jaccard": (74_962, 27_983),
    "lastfm-64-dot": (292_385, 65),
    "mnist-784-euclidean": (60_000, 784),
    "movielens1m-jaccard": (None, None),
    "movielens10m-jaccard": (69_363, 65_134),
    "movielens20m-jaccard": (None, None),
    "nytimes-16-angular": (290_000, 16),
    "nytimes-256-angular": (290_000, 256),
    "sift-128-euclidean": (1_000_000, 128),
    "sift-256-hamming": (None, 256),
    "word2bits-800-hamming": (None, 800),
}

# Name: rows and queries together, dimension, centres of the blobs (of bits: also the queries).
_BLOBS = {
    "random-xs-20-euclidean": (10_000, 20, 100),
    "random-s-100-euclidean": (100_000, 100, 1000),
    "random-xs-20-angular": (10_000, 20, 100),
    "random-s-100-angular": (100_000, 100, 1000),
    "random-xs-16-hamming": (10_000, 16, 100),
    "random-s-128-hamming": (50_000, 128, 1000),
    "random-l-256-hamming": (100_000, 256, 1000),
}

# Name: sets and queries together, size of a set, number of different items.
_SETS = {"random-s-jaccard": (10_000, 20, 40), "random-l-jaccard": (100_000, 70, 100)}


def _registered() -> dict[str, Entry]:
    entries = {}
    for name, (rows, dimension) in _DOWNLOADABLE.items():
        entries[name] = Entry(rows, dimension, _metric_of(name), partial(_download, name))
    for name, (total, width, centers) in _BLOBS.items():
        metric = _metric_of(name)
        held_out = centers if metric == "hamming" else total // 10
        make = partial(write_blobs, metric=metric, rows=total, dimension=width, centers=centers)
        entries[name] = Entry(total - held_out, width, metric, make)
    for name, (total, size, universe) in _SETS.items():
        make = partial(write_random_sets, metric="jaccard", rows=total, size=size, universe=universe)
        entries[name] = Entry(total - 100, universe, "jaccard", make)
    return entries


def _download(name: str, path: Path) -> None:
    from .download import download  # its HTTP library takes long to import, and most runs need none

    download(name, path)


def _metric_of(name: str) -> str:
    return name.rsplit("-", 1)[1].replace("dot", "angular")


REGISTRY: dict[str, Entry] = _registered()


def find_entry(name: str) -> Entry | None:
    """The entry of a registered name or of one of the clustered family; None if it is neither."""
    if (size := clustered.parse(name)) is not None:
        return Entry(size.rows, size.dimension, size.metric, partial(clustered.write_clustered, size=size))
    return REGISTRY.get(name)

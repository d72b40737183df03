"""What is lost if a query asks a few shards only: rows by k-means cells against rows by id.

Each shard has the rows of one cell, as with --shard-engine routed. A row whose nearest shard has --room times
the mean number of rows already goes to the next one. A query asks the shards with the nearest centroids, and
each answers exactly: what is missing is what routing loses. Recall is counted as in results: every row within
the distance of the k-th neighbour is a hit. "1" to "64": mean recall@10 when a query asks that number of
shards; with rows by id, it is about that share of all shards. "0.90" to "0.99": shards that have to be asked
for this recall. "largest": rows of the largest shard over the mean. "busiest": queries of the shard that is
asked most often over the mean, at a recall of 0.95.
"""

import argparse
from collections.abc import Iterator

import numpy as np

from ann_benchmarks.algorithms.clustering.clustering import ROOM, find_cells, spread
from ann_benchmarks.algorithms.clustering.settings import METRICS, ClusteringError
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import get_dataset
from ann_benchmarks.distance import candidate_distances, rounded_up

from .harness import Row
from .serving import K

GOAL = None
OPTIONS = {"dataset": "clustered-100k-96-angular", "shards": [4, 16, 64, 256, 1000], "room": ROOM}
PROBES = (1, 2, 4, 8, 16, 32, 64)
RECALLS = (0.9, 0.95, 0.99)
Way = tuple[str, np.ndarray, np.ndarray]


def cases(args: argparse.Namespace) -> Iterator[Row]:
    dataset = get_dataset(args.dataset)[0]
    metric = str(dataset.attrs["distance"])
    if metric not in METRICS:
        raise UserError(f"{args.dataset} has {metric} distances: give a dataset with {', '.join(METRICS)}")
    rows, queries = np.asarray(dataset.train(), np.float32), np.asarray(dataset.test(), np.float32)
    farthest = np.asarray(dataset["distances"], np.float64)[:, K - 1]
    every = np.arange(len(rows))[np.newaxis]
    hits = []
    for query, limit in zip(queries, rounded_up(farthest), strict=True):
        distances = candidate_distances(metric, query[np.newaxis], rows, every)[0]
        hits.append(np.flatnonzero(distances <= limit))
    for shards in args.shards:
        try:
            for name, shard_of, ranks in spreads(shards, rows, queries, metric, args.room):
                yield row(f"{shards} shards, {name}", shards, shard_of, ranks, hits)
        except ClusteringError as error:
            raise UserError(str(error)) from None


def spreads(shards: int, rows: np.ndarray, queries: np.ndarray, metric: str, room: float) -> Iterator[Way]:
    """Yield for each way to spread the rows: its name, each row's shard, and each query's ranks of shards."""
    drawn = np.random.default_rng(shards).random((len(queries), shards))
    yield "by id", np.arange(len(rows)) % shards, np.argsort(np.argsort(drawn, axis=1), axis=1)
    cells = find_cells(rows, shards, metric)
    ranks = np.argsort(np.argsort(cells.distances(queries), axis=1), axis=1)
    for name, most in (("cells", float(shards)), (f"cells, {room:g}", room)):
        yield name, spread(rows, cells, most), ranks


def row(title: str, shards: int, shard_of: np.ndarray, ranks: np.ndarray, hits: list[np.ndarray]) -> Row:
    """Return what a way to spread the rows loses."""
    first = np.full((len(hits), K), shards)  # ranks of the shards that the first hits of each query are on
    for query, found in enumerate(hits):
        nearest = np.sort(ranks[query, shard_of[found]])[:K]
        first[query, : len(nearest)] = nearest
    recalls = np.array([(first < asked).mean() for asked in range(1, shards + 1)])
    needed = {recall: int(np.argmax(recalls >= recall)) + 1 for recall in RECALLS}
    busy = (ranks < needed[0.95]).sum(axis=0)
    figures = {"largest": np.bincount(shard_of, minlength=shards).max() * shards / len(shard_of)}
    figures |= {str(asked): recalls[asked - 1] if asked <= shards else "" for asked in PROBES}
    figures |= {f"{recall:.2f}": str(asked) for recall, asked in needed.items()}
    return Row(title, {**figures, "busiest": busy.max() / busy.mean()})

"""What is lost if a query asks a few shards only: rows by k-means cells against rows by id, without servers.

    python -m benchmarks.routing --dataset mine [--shards 4 16 64 256 1000] [--room 1.25]

Each shard has the rows of one cell, as with --shard-engine routed. A row whose nearest shard has --room times
the mean number of rows already goes to the next one. A query asks the shards with the nearest centroids, and
each answers exactly: what is missing is what routing loses. Recall is counted as in results: every row within
the distance of the k-th neighbour is a hit. "1" to "64": mean recall@10 when a query asks that number of
shards; with rows by id, it is about that share of all shards. "0.90" to "0.99": shards that have to be asked
for this recall. "largest": rows of the largest shard over the mean. "busiest": queries of the shard that is
asked most often over the mean, at a recall of 0.95.
"""

from collections.abc import Iterator

import numpy as np

from ann_benchmarks.algorithms.clustering.cells import METRICS
from ann_benchmarks.algorithms.clustering.settings import ClusteringError
from ann_benchmarks.algorithms.clustering.spreading import ROOM, cells_of, spread
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import get_dataset
from ann_benchmarks.distance import rounded_up
from benchmarks.harness import K, arguments

PROBES = (1, 2, 4, 8, 16, 32, 64)
RECALLS = (0.9, 0.95, 0.99)
BLOCK = 1 << 24  # distances at a time


def ranks(order: np.ndarray) -> np.ndarray:
    """Return the place of each shard in the order in which a query asks them, (queries, shards)."""
    return np.argsort(order, axis=1)


def hits(rows: np.ndarray, queries: np.ndarray, metric: str, farthest: np.ndarray) -> list[np.ndarray]:
    """Return for each query the numbers of the rows that are no farther, by at most the slack of a recall."""
    found: list[np.ndarray] = []
    squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    step = max(BLOCK // len(rows), 1)
    for first in range(0, len(queries), step):
        some = queries[first : first + step]
        distances = -(some @ rows.T).astype(np.float64)
        own = np.einsum("ij,ij->i", some, some, dtype=np.float64)[:, np.newaxis]
        if metric == "angular":
            distances = 1 + distances / np.sqrt(own * squares)
        elif metric == "euclidean":
            distances = np.sqrt(np.maximum(own + squares + 2 * distances, 0))
        limits = rounded_up(farthest[first : first + step, np.newaxis])
        found += [np.flatnonzero(near) for near in distances <= limits]
    return found


def ranks_of_hits(found: list[np.ndarray], of_row: np.ndarray, of_query: np.ndarray) -> np.ndarray:
    """Return the ranks of the shards that the first K hits of each query are on, (queries, K), ascending."""
    first = np.full((len(found), K), of_query.shape[1])
    for query, rows in enumerate(found):
        ranks = np.sort(of_query[query, of_row[rows]])[:K]
        first[query, : len(ranks)] = ranks
    return first


def spreads(
    shards: int, rows: np.ndarray, queries: np.ndarray, metric: str, room: float
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield for each way to spread the rows: its name, each row's shard, and each query's ranks of shards."""
    rng = np.random.default_rng(shards)
    any_order = np.argsort(rng.random((len(queries), shards)), axis=1)
    yield "by id", np.arange(len(rows)) % shards, ranks(any_order)
    cells = cells_of(rows, shards, metric)
    rank = ranks(np.argsort(cells.distances(queries), axis=1))
    for name, most in (("cells", float(shards)), (f"cells, {room:g}", room)):
        yield name, spread(rows, cells, most), rank


def main() -> None:
    """Print a table for each number of shards."""
    args = arguments(__doc__, dataset="clustered-100k-96-angular", shards=[4, 16, 64, 256, 1000], room=ROOM)
    dataset = get_dataset(args.dataset)[0]
    metric = str(dataset.attrs["distance"])
    if metric not in METRICS:
        raise UserError(f"{args.dataset} has {metric} distances: give a dataset with {', '.join(METRICS)}")
    rows, queries = np.asarray(dataset.train()), np.asarray(dataset.test(), np.float32)
    farthest = np.asarray(dataset["distances"], np.float64)[:, K - 1]
    found = hits(rows.astype(np.float32), queries, metric, farthest)
    print(f"{args.dataset}: {len(rows):,} rows, {len(queries):,} queries, exact search on every shard")
    heads = [*map(str, PROBES), *(f"{recall:.2f}" for recall in RECALLS)]
    print(f"{'shards':>6} {'rows':12} {'largest':>7}" + "".join(f"{head:>7}" for head in heads), "busiest")
    for shards in args.shards:
        for name, of_row, of_query in spreads(shards, rows, queries, metric, args.room):
            rank = ranks_of_hits(found, of_row, of_query)
            recalls = np.array([(rank < asked).mean() for asked in range(1, shards + 1)])
            largest = np.bincount(of_row, minlength=shards).max() * shards / len(rows)
            shown = [f"{recalls[asked - 1]:7.3f}" if asked <= shards else f"{'-':>7}" for asked in PROBES]
            needed = [int(np.argmax(recalls >= recall)) + 1 for recall in RECALLS]
            busy = (of_query < needed[RECALLS.index(0.95)]).sum(axis=0)
            figures = "".join([*shown, *(f"{asked:7}" for asked in needed)])
            print(f"{shards:6} {name:12} {largest:7.2f}{figures} {busy.max() / busy.mean():7.2f}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except (UserError, ClusteringError) as error:
        raise SystemExit(f"error: {error}") from None

"""What is lost if a query asks a few shards only: rows by k-means cells against rows by id, without servers.

    python -m benchmarks.routing --dataset mine [--shards 4 16 64 256 1000] [--room 1.25]

Each shard has the rows around one centroid. A row whose nearest shard has --room times the mean number of
rows already goes to the next one. A query asks the shards with the nearest centroids, and each answers
exactly: what is missing is what routing loses. "1" to "64": mean recall@10 with so many shards asked; rows by
id give that share of all shards. "0.90" to "0.99": shards that have to be asked for this recall. "largest":
rows of the largest shard over the mean.
"""

from collections.abc import Iterator

import numpy as np
from tqdm import tqdm

from ann_benchmarks.algorithms.clustering.clustering import cluster
from ann_benchmarks.algorithms.clustering.settings import Settings
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import get_dataset
from benchmarks.harness import K, arguments

PROBES = (1, 2, 4, 8, 16, 32, 64)
RECALLS = (0.9, 0.95, 0.99)
BLOCK = 1 << 14  # rows at a time
METRICS = ("euclidean", "angular")


def distances(vectors: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Return squared distances, (vectors, centroids), less the squared length of each vector."""
    found: np.ndarray = (centroids * centroids).sum(axis=1) - 2 * vectors @ centroids.T
    return found


def of_unit_length(vectors: np.ndarray) -> np.ndarray:
    """Return vectors by which the nearest is that with the smallest angle."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def assigned(vectors: np.ndarray, centroids: np.ndarray, room: float) -> np.ndarray:
    """Return the shard of each row, (rows,), none of which has more than `room` times the mean.

    Rows are taken in their order, as they would be loaded: the first to come have the nearest shard.
    """
    shards = len(centroids)
    most = int(np.ceil(room * len(vectors) / shards))
    sizes = np.zeros(shards, np.int64)
    of_row = np.empty(len(vectors), np.int64)
    for start in tqdm(range(0, len(vectors), BLOCK), "rows", disable=None, leave=False):
        order = np.argsort(distances(vectors[start : start + BLOCK], centroids), axis=1)
        for row, nearest in enumerate(order, start):
            shard = nearest[np.argmax(sizes[nearest] < most)]
            of_row[row] = shard
            sizes[shard] += 1
    return of_row


def ranks(queries: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Return the place of each shard in the order in which a query asks them, (queries, shards)."""
    order = np.argsort(distances(queries, centroids), axis=1)
    return np.argsort(order, axis=1)


def spreads(shards: int, train: np.ndarray, queries: np.ndarray, room: float) -> Iterator[tuple]:
    """Yield for each way to spread the rows: its name, each row's shard, and each query's ranks of shards."""
    rng = np.random.default_rng(shards)
    any_order = np.argsort(rng.random((len(queries), shards)), axis=1)
    yield "by id", np.arange(len(train)) % shards, any_order
    centroids = cluster(train, Settings([shards], sampling_factor=256)).centroids
    in_order = ranks(queries, centroids)
    for name, most in (("cells", float(shards)), (f"cells, {room:g}", room)):
        yield name, assigned(train, centroids, most), in_order


def main() -> None:
    """Print a table for each number of shards."""
    args = arguments(__doc__, dataset="clustered-100k-96-angular", shards=[4, 16, 64, 256, 1000], room=1.25)
    dataset = get_dataset(args.dataset)[0]
    metric = str(dataset.attrs["distance"])
    if metric not in METRICS:
        raise SystemExit(f"error: cells are of euclidean and angular distances, {args.dataset} has {metric}")
    train, queries = (np.asarray(part, np.float32) for part in (dataset.train()[:], dataset.test()[:]))
    if metric == "angular":
        train, queries = of_unit_length(train), of_unit_length(queries)
    true = np.asarray(dataset["neighbors"])[:, :K]
    print(f"{args.dataset}: {len(train):,} rows, {len(queries):,} queries, exact search on every shard")
    heads = [*map(str, PROBES), *(f"{recall:.2f}" for recall in RECALLS)]
    print(f"{'shards':>6} {'rows':12} {'largest':>7}" + "".join(f"{head:>7}" for head in heads))
    for shards in args.shards:
        for name, of_row, of_query in spreads(shards, train, queries, args.room):
            rank = np.take_along_axis(
                of_query, of_row[true], axis=1
            )  # when the shard of a neighbour is asked
            recalls = np.array([(rank < asked).mean() for asked in range(1, shards + 1)])
            largest = np.bincount(of_row, minlength=shards).max() * shards / len(train)
            shown = [f"{recalls[asked - 1]:7.3f}" if asked <= shards else f"{'-':>7}" for asked in PROBES]
            needed = [f"{np.argmax(recalls >= recall) + 1:7}" for recall in RECALLS]
            print(f"{shards:6} {name:12} {largest:7.2f}" + "".join([*shown, *needed]))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        raise SystemExit(f"error: {error}") from None

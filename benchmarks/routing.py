"""What is lost if a query asks a few shards only: rows by k-means cells against rows by id, without servers.

    python -m benchmarks.routing --dataset mine [--shards 4 16 64 256 1000] [--room 1.25]

Each shard has the rows of one cell, as with --shard-engine routed. A row whose nearest shard has --room times
the mean number of rows already goes to the next one. A query asks the shards with the nearest centroids, and
each answers exactly: what is missing is what routing loses. "1" to "64": mean recall@10 with so many shards
asked; rows by id give that share of all shards. "0.90" to "0.99": shards that have to be asked for this
recall. "largest": rows of the largest shard over the mean. "busiest": queries of the shard that is asked most
often over the mean, at a recall of 0.95.
"""

from collections.abc import Iterator

import numpy as np

from ann_benchmarks.algorithms.clustering.settings import ClusteringError
from ann_benchmarks.algorithms.clustering.spreading import ROOM, cells_of, spread
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import get_dataset
from benchmarks.harness import K, arguments

PROBES = (1, 2, 4, 8, 16, 32, 64)
RECALLS = (0.9, 0.95, 0.99)


def ranks(order: np.ndarray) -> np.ndarray:
    """Return the place of each shard in the order in which a query asks them, (queries, shards)."""
    return np.argsort(order, axis=1)


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
    rows, queries = (np.asarray(part, np.float32) for part in (dataset.train()[:], dataset.test()[:]))
    true = np.asarray(dataset["neighbors"])[:, :K]
    print(f"{args.dataset}: {len(rows):,} rows, {len(queries):,} queries, exact search on every shard")
    heads = [*map(str, PROBES), *(f"{recall:.2f}" for recall in RECALLS)]
    print(f"{'shards':>6} {'rows':12} {'largest':>7}" + "".join(f"{head:>7}" for head in heads), "busiest")
    for shards in args.shards:
        for name, of_row, of_query in spreads(shards, rows, queries, metric, args.room):
            # When the shard of each neighbour is asked.
            rank = np.take_along_axis(of_query, of_row[true].astype(np.int64), axis=1)
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

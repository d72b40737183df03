"""VectorChord's index on the same vectors with centroids from different sources.

    python -m benchmarks.centroids [--dataset clustered-1m-96-euclidean] [--lists 2000]
        [--sources internal faiss cpu] [--rounds 3] [--probes 5 10 20 40]

Each round builds the index once from each source, in an order that changes. The table shows medians (least to
largest) of the seconds of the clustering and of the whole build, which contains it. For centroids that are
not VectorChord's own, it shows the mean squared distance of all rows to the nearest centroid, and how many
times as many rows share a row's list as would if all lists were equally long. Recall is that of 10 neighbours
at equal probes, as its mean over the rounds, because another start of the same k-means changes it, too.
"""

import argparse
from contextlib import redirect_stdout
from io import StringIO
from statistics import mean
from typing import Any

import numpy as np
from tqdm import tqdm

from ann_benchmarks.algorithms.clustering.kmeans import normalized
from ann_benchmarks.algorithms.clustering.settings import DEVICES
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.vchord.centroids import SOURCES
from ann_benchmarks.algorithms.vchord.module import VectorChord
from ann_benchmarks.data.datasets import get_dataset
from ann_benchmarks.distance import candidate_distances, rounded_up
from ann_benchmarks.results.recall import recall_of_each
from benchmarks.harness import spread, temporary_server

COUNT = 10
BLOCK = 4096  # rows that are compared with all centroids at a time


def main() -> None:
    """Build and query in rounds, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", default="clustered-1m-96-euclidean")
    parser.add_argument("--lists", default="2000", help="LISTS or COARSE,LISTS")
    parser.add_argument("--sources", nargs="+", default=["internal", "faiss", "cpu"], choices=SOURCES)
    parser.add_argument("--kmeans-algorithm", choices=["lloyd", "hierarchical"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--probes", nargs="+", default=["5", "10", "20", "40"])
    args = parser.parse_args()
    common = {"lists": [int(part) for part in args.lists.split(",")], "residual_quantization": True}
    if args.kmeans_algorithm:
        common["kmeans_algorithm"] = args.kmeans_algorithm
    dataset, _ = get_dataset(args.dataset)
    found: dict[str, list[dict[str, Any]]] = {source: [] for source in args.sources}
    with dataset, temporary_server() as server:
        for number in tqdm(range(args.rounds), unit="round", disable=None):
            turn = number % len(args.sources)
            for source in args.sources[turn:] + args.sources[:turn]:
                # VectorChord's own k-means starts differently each time.
                seed = {"seed": number} if source in DEVICES else {}
                arguments = {"centroids": source, **common, **seed}
                found[source].append(build_and_query(server, dataset, arguments, args.probes))
    titles = f"{'centroids':10} {'clustering s':>24} {'build s':>24} {'inertia':>9} {'imbalance':>9}"
    print(titles + "".join(f" {f'R@{probes}':>9}" for probes in args.probes))
    for source, rounds in found.items():
        times = (spread([r[name] for r in rounds]) for name in ("clustering_time", "index_build_time"))
        means = (
            f"{mean(r[name] for r in rounds):9.4f}" if name in rounds[0] else f"{'-':>9}"
            for name in ("inertia", "imbalance", *args.probes)
        )
        print(f"{source:10}", *(f"{text:>24}" for text in times), *means)


def build_and_query(
    server: Server, dataset: Any, arguments: dict[str, Any], probes: list[str]
) -> dict[str, Any]:
    """Build an index; return its facts, and the recall at each number of probes by that number."""
    metric = str(dataset.attrs["distance"])
    train, test = dataset.train_rows(), np.array(dataset.test())
    farthest = rounded_up(dataset.true_distances(COUNT)[:, -1])
    algorithm = VectorChord(metric, arguments)
    algorithm.set_build_options(rebuild=True)
    try:
        with redirect_stdout(StringIO()):
            algorithm.fit(train)
        facts = algorithm.get_additional()
        if arguments["centroids"] != "internal":
            assert algorithm.index_name
            facts |= balance(leaves_of(server, algorithm.index_name), train, metric)
        for number in probes:
            algorithm.set_query_arguments(number)
            answers = np.array([algorithm.query(query, COUNT) for query in test])
            distances = candidate_distances(metric, test, train, answers)
            facts[number] = float(recall_of_each(distances, farthest, COUNT).mean())
        return facts
    finally:
        algorithm.done()


def leaves_of(server: Server, index: str) -> np.ndarray:
    """Return the centroids of an index's lists, (lists, dimension) float32."""
    with server.connect() as connection:
        texts = connection.execute(
            f"SELECT vector::text FROM {index}_centroids AS c WHERE NOT EXISTS"
            f" (SELECT FROM {index}_centroids WHERE parent = c.id) ORDER BY id"
        ).fetchall()
    return np.array([np.fromstring(text.strip("[]"), sep=",") for (text,) in texts], np.float32)


def balance(centroids: np.ndarray, train: Any, metric: str) -> dict[str, float]:
    """Assign all rows to the nearest centroid; return their mean squared distance and the imbalance."""
    half, sizes, squares = (centroids**2).sum(axis=1) / 2, np.zeros(len(centroids)), 0.0
    for start in range(0, len(train), BLOCK):
        rows = np.asarray(train[start : start + BLOCK], np.float32)
        if metric == "angular":
            rows = normalized(rows)
        products = rows @ centroids.T - half
        sizes += np.bincount(products.argmax(axis=1), minlength=len(centroids))
        squares += float(((rows.astype(float) ** 2).sum(axis=1) - 2 * products.max(axis=1)).sum())
    imbalance = len(sizes) * float((sizes**2).sum()) / len(train) ** 2
    return {"inertia": squares / len(train), "imbalance": imbalance}


if __name__ == "__main__":
    main()

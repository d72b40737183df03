"""What a query on shards sends over the wire: bytes and round trips to each shard, by engine.

    python -m benchmarks.asked_shards [--rows 20000] [--dimension 96 384] [--shards 2 4 8] [--queries 200]

HNSW at ef_search 40, one session, on embedded servers behind relays that count, with citus too where the
embedded PostgreSQL has it (docs/shards.md). "to" and "from" are bytes to
and from one shard for a query, "trips" what has to wait for an answer of the shard before it is sent. The
relays cost time themselves, so that no latency is given: run.py --shards measures that.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.servers.binaries import embedded_installation
from ann_benchmarks.algorithms.postgres.servers.installation import Installation
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from benchmarks.harness import K, arguments, random_vectors, temporary_server
from benchmarks.relay import Relay, relayed

ENGINES = ("fdw", "fdw-naive", "client")
EF_SEARCH = 40
SMALL = {"shared_buffers": "64MB"}
WARMUP = 20  # queries: a session's prepared statement has its generic plan by then, and its connections


def engines() -> tuple[str, ...]:
    """Return the engines that the embedded PostgreSQL has."""
    has_citus = (Installation(embedded_installation()).extensions / "citus.control").exists()
    return (*ENGINES, "citus") if has_citus else ENGINES


@contextmanager
def shard_servers(count: int) -> Iterator[list[LocalServer]]:
    """Start servers that plug-ins take for shards."""
    with tempfile.TemporaryDirectory(prefix="ann-benchmark-") as text, ExitStack() as stack:
        folder = Path(text)
        folder.chmod(0o755)  # the servers' account must be able to enter
        found = [LocalServer(embedded_installation() / "bin", folder / str(n)) for n in range(1, count + 1)]
        for server in found:
            server.start(SMALL)
            stack.callback(server.stop)
        servers._shards = dict(enumerate(found, 1))
        yield found


@contextmanager
def fitted(vectors: np.ndarray, count: int, engine: str) -> Iterator[PGVectorHNSW]:
    """Give an index on this number of shards."""
    algorithm = PGVectorHNSW("euclidean", {"M": 16, "efConstruction": 64})
    algorithm.set_shards(count, engine)
    try:
        algorithm.fit(vectors)
        algorithm.set_query_arguments(EF_SEARCH)
        yield algorithm
    finally:
        algorithm.done()


def counted(algorithm: PGVectorHNSW, queries: np.ndarray, relays: Sequence[Relay]) -> tuple[float, ...]:
    """Return bytes to, bytes from and round trips of one shard for a query, in the mean of all."""
    # In a process of its own: while `client` waits for answers in C, the relays' threads would not work.
    clients = algorithm.open_clients(queries, K, 1)
    try:
        counts = []
        for order in (np.arange(WARMUP), np.arange(len(queries))):
            clients.prepare([order])
            before = np.array([(one.received, one.sent, one.round_trips) for one in relays])
            clients.run()
            counts.append([(one.received, one.sent, one.round_trips) for one in relays] - before)
            clients.answers()
    finally:
        clients.close()
    return tuple(counts[-1].mean(axis=0) / len(queries))


def measure(vectors: np.ndarray, queries: np.ndarray, count: int) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield the counts of each engine on this number of shards."""
    with shard_servers(count) as shards:
        for engine in ("client", *engines()[len(ENGINES) :]):
            with fitted(vectors, count, engine):
                pass  # a load waits in C for the server, and would not let a relay's thread work
        for engine in engines():
            with ExitStack() as behind:
                relays = [
                    behind.enter_context(relayed(dict(shard.connection_parameters()))) for shard in shards
                ]
                for shard, relay in zip(shards, relays, strict=True):
                    shard.connection_parameters = lambda relay=relay: relay.parameters  # type: ignore[method-assign]
                try:
                    with fitted(vectors, count, engine) as algorithm:
                        yield engine, counted(algorithm, queries, relays)
                finally:
                    for shard in shards:
                        del shard.connection_parameters  # the class has its own


def main() -> None:
    """Print a line for each dimension, number of shards, and engine."""
    args = arguments(__doc__, rows=20_000, dimension=[96, 384], shards=[2, 4, 8], queries=200)
    print(f"{'dimension':>9} {'shards':>6} {'engine':10} {'to':>8} {'from':>8} {'trips':>6}   of each shard")
    for dimension in args.dimension:
        vectors = random_vectors(args.rows + args.queries, dimension)
        for count in args.shards:
            with temporary_server():
                for engine, (to, back, trips) in measure(vectors[: args.rows], vectors[args.rows :], count):
                    print(
                        f"{dimension:9} {count:6} {engine:10} {to:8,.0f} {back:8,.0f} {trips:6.1f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()

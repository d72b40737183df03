"""What a query on shards sends over the wire: bytes and round trips to each shard, by engine.

HNSW at ef_search 40, one session, on embedded servers behind relays that count, with citus too where the
embedded PostgreSQL has it. "To" and "back" are bytes to and from one shard for a query, "trips" what has to
wait for an answer of the shard before it is sent. Relays cost time: latency is run.py's to measure.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

import numpy as np

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.servers.installation import Installation
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation
from tests.relay import Relay, relayed

from .harness import Row
from .serving import HNSW, K, closing_algorithm, empty_folder, random_vectors, temporary_server

GOAL = None
OPTIONS = {"rows": 20_000, "dimensions": [96, 384], "shards": [2, 4, 8], "queries": 200}
ENGINES = ("client",)
EF_SEARCH = 40
WARMUP = 20  # queries: a session's prepared statement has its generic plan by then, and its connections


def cases(args: argparse.Namespace) -> Iterator[Row]:
    has_citus = (Installation(embedded_installation()).extensions / "citus.control").exists()
    engines = (*ENGINES, "citus") if has_citus else ENGINES
    for dimension in args.dimensions:
        vectors = random_vectors(args.rows + args.queries, dimension, args.seed)
        train, queries = vectors[: args.rows], vectors[args.rows :]
        for count in args.shards:
            with temporary_server(), shard_servers(count) as shards:
                for engine in ("client", *engines[len(ENGINES) :]):
                    with fitted(train, count, engine):
                        pass  # a load waits in C for the server, and would not let a relay's thread work
                for engine in engines:
                    with relays_before(shards) as relays, fitted(train, count, engine) as algorithm:
                        to, back, trips = measure(algorithm, queries, relays)
                    figures = {"to": to, "back": back, "trips": trips}
                    yield Row(f"{engine}, {count} shards, {dimension} dimensions", figures)


@contextmanager
def shard_servers(count: int) -> Iterator[list[LocalServer]]:
    """Start servers that plug-ins take for shards."""
    with empty_folder() as folder, ExitStack() as stack:
        found = [LocalServer(embedded_installation() / "bin", folder / str(n)) for n in range(1, count + 1)]
        for server in found:
            server.start({"shared_buffers": "64MB"})
            stack.callback(server.stop)
        servers._shards = dict(enumerate(found, 1))
        yield found


@contextmanager
def relays_before(shards: Sequence[LocalServer]) -> Iterator[list[Relay]]:
    """Put a relay before each shard."""
    with ExitStack() as stack:
        relays = [stack.enter_context(relayed(dict(shard.connection_parameters()))) for shard in shards]
        for shard, relay in zip(shards, relays, strict=True):
            shard.connection_parameters = lambda relay=relay: relay.parameters  # type: ignore[method-assign]
            stack.callback(delattr, shard, "connection_parameters")  # the class has its own
        yield relays


@contextmanager
def fitted(vectors: np.ndarray, count: int, engine: str) -> Iterator[PGVectorHNSW]:
    """Give an index on this number of shards."""
    with closing_algorithm(PGVectorHNSW("euclidean", HNSW)) as algorithm:
        algorithm.set_servers("shards", count=count, engine=engine)
        algorithm.fit(vectors)
        algorithm.set_query_arguments(EF_SEARCH)
        yield algorithm


def measure(algorithm: PGVectorHNSW, queries: np.ndarray, relays: Sequence[Relay]) -> list[float]:
    """Return bytes to, bytes from and round trips of one shard for a query, in the mean of all."""
    # In a process of its own: while `client` waits for answers in C, the relays' threads would not work.
    with closing(algorithm.open_clients(queries, K, 1)) as clients:
        for order in (np.arange(WARMUP), np.arange(len(queries))):
            clients.prepare([order])
            before = np.array([(one.received, one.sent, one.round_trips) for one in relays])
            clients.run()
            counts = [(one.received, one.sent, one.round_trips) for one in relays] - before
            clients.answers()
    return [float(count) for count in counts.mean(axis=0) / len(queries)]

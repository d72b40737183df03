"""Estimates of index sizes and of HNSW's memory, compared with what is really built.

    python -m benchmarks.estimates [--rows 20000 100000] [--dimensions 96 384]

For each size three figures in MiB: built, our estimate, and the formula of the 5M/100M/1B report, with its 64
bytes a row for what it calls overhead: rows x (4 d + 8 M + 64) for HNSW, rows x (4 d + d / 8 + 64) and the
centroids for VectorChord. HNSW's memory is measured by giving it 9 tenths of the estimate: pgvector says
after how many rows its graph had filled that. VectorChord and pgvectorscale are left out where the server
(the embedded one, or that of ANN_BENCHMARKS_PG_BIN) lacks them.
"""

import os
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import numpy as np
from tqdm import tqdm

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW, graph_bytes
from ann_benchmarks.algorithms.pgvector_ivfflat.module import PGVectorIVFFlat
from ann_benchmarks.algorithms.pgvectorscale.module import PGVectorScale
from ann_benchmarks.algorithms.postgres.environment import PREFIX
from ann_benchmarks.algorithms.postgres.module import PostgresANN
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.vchord.module import VectorChord
from ann_benchmarks.algorithms.vchordg.module import VectorChordGraph
from benchmarks.harness import arguments, temporary_server

M = 16
MIB = 1 << 20


def main() -> None:
    args = arguments(__doc__, rows=[20_000, 100_000], dimensions=[96, 384])
    lines = []
    with temporary_server() as server:
        for rows, dimension in tqdm([(r, d) for d in args.dimensions for r in args.rows], disable=None):
            train = np.random.default_rng(rows).normal(size=(rows, dimension)).astype(np.float32)
            lines += [
                f"{rows:>9,} x {dimension:<4} {line}" for line in (*sizes(server, train), memory(train))
            ]
    print(f"{'rows x dimension':18} {'':12} {'built':>8} {'estimate':>9} {'formula':>9}")
    print("\n".join(lines))


def sizes(server: Server, train: np.ndarray) -> Iterator[str]:
    """Build each index, and compare."""
    rows, dimension = train.shape
    hnsw = PGVectorHNSW("euclidean", {"M": M, "efConstruction": 40})
    yield compared("HNSW", built(hnsw, train), rows * (4 * dimension + 8 * M + 64))
    yield compared("IVFFlat", built(PGVectorIVFFlat("euclidean", {"lists": "auto"}), train))
    with server.connect() as connection:
        offered = {name for (name,) in connection.execute("SELECT name FROM pg_available_extensions")}
    if "vectorscale" in offered:
        yield compared("DiskANN", built(PGVectorScale("euclidean"), train))
        yield compared("plain", built(PGVectorScale("euclidean", {"storage_layout": "plain"}), train))
    if "vchord" in offered:
        yield compared("vchordg", built(VectorChordGraph("euclidean"), train))
        lists = max(rows // 500, 1)
        vchord = VectorChord("euclidean", {"lists": lists, "residual_quantization": True})
        formula = rows * (4 * dimension + dimension / 8 + 64) + lists * 4 * dimension
        yield compared("VectorChord", built(vchord, train), formula)


def built(algorithm: PostgresANN, train: np.ndarray) -> dict[str, Any]:
    """Build an index and return what is known of it."""
    try:
        with redirect_stdout(StringIO()):
            algorithm.fit(train)
        return algorithm.get_additional()
    finally:
        algorithm.done()


def compared(name: str, facts: dict[str, Any], formula: float | None = None) -> str:
    """Sizes of one index in MiB, and how far the estimates are off."""
    size, estimate = facts["index_size"] / 1024, facts["estimated_index_size"] / 1024
    text = f"{name:12} {size:8.1f} {estimate:9.1f} ({estimate / size - 1:+.0%})"
    if formula is not None:
        text += f" {formula / MIB:9.1f} ({formula / MIB / size - 1:+.0%})"
    return text


def memory(train: np.ndarray) -> str:
    """Bytes a row of the graph in memory."""
    rows, dimension = train.shape
    estimate = graph_bytes(rows, 8 + 4 * dimension, M)
    given = estimate * 9 // 10 // MIB
    os.environ[f"{PREFIX}SETTINGS"] = f"maintenance_work_mem={given}MB max_parallel_maintenance_workers=0"
    facts = built(PGVectorHNSW("euclidean", {"M": M, "efConstruction": 41}), train)
    del os.environ[f"{PREFIX}SETTINGS"]
    used = given * MIB / facts["graph_overflow_rows"]
    return f"HNSW memory  {used:6.0f} B {estimate / rows:7.0f} B ({estimate / rows / used - 1:+.0%}) a row"


if __name__ == "__main__":
    main()

"""The SQL that results keep, pasted into psql for a table of one's own."""

import json
import re
import subprocess
from typing import Any

import numpy as np
import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.pgvector_ivfflat.module import PGVectorIVFFlat
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.vchord.module import VectorChord
from ann_benchmarks.common.text import clean_text

from .postgres_fixtures import clustered, fitted

K, ROWS = 10, 3000
CASES = [
    (PGVectorHNSW, {"M": 8, "efConstruction": 64}, (300,)),
    (PGVectorHNSW, {"M": 8, "efConstruction": 64, "form": "halfvec"}, (300, 40)),  # re-ranked
    (PGVectorHNSW, {"M": 8, "efConstruction": 64, "form": "bit_hamming"}, (900, 900)),
    (PGVectorIVFFlat, {"lists": 5}, (5,)),
    pytest.param(VectorChord, {"lists": [10], "residual_quantization": True}, ("10",),
                 marks=pytest.mark.thorough),
    pytest.param(VectorChord, {"lists": "auto", "form": "halfvec"}, ("", 3.0), marks=pytest.mark.thorough),
]  # fmt: skip


def pasted(server: Any, text: str) -> list[str]:
    """Return the lines that psql answers to what is pasted into it."""
    place = server.connection_parameters()
    words = [str(server.programs / "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1"]
    words += ["-h", place["host"], "-p", str(place.get("port", 5432)), "-U", place["user"], place["dbname"]]
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(("plugin", "arguments", "query"), CASES)
def test_it_builds_and_finds_what_was_measured(plugin, arguments, query, request, monkeypatch):
    server = request.getfixturevalue("vchord_server" if plugin is VectorChord else "plugin_server")
    monkeypatch.setattr(servers, "_current", server)
    train, algorithm = clustered(ROWS, 32), plugin("angular", arguments)
    with fitted(algorithm, train, *query):
        found = algorithm.query(train[0], K)
        facts = algorithm.get_additional()
    own = {"items": "docs", "embedding": "vec"}
    build, ask = (
        re.sub("items|embedding", lambda match: own[match[0]], "\n".join(json.loads(clean_text(facts[name]))))
        for name in ("build_sql", "query_sql")
    )
    rows = "\n".join(f"{row}\t[{','.join(map(str, vector))}]" for row, vector in enumerate(train.tolist()))
    table = "CREATE EXTENSION IF NOT EXISTS vector; DROP TABLE IF EXISTS docs;"
    made = f"{table} CREATE TABLE docs (id bigint, vec vector(32)); COPY docs FROM STDIN;\n{rows}\n\\.\n"
    ids = pasted(server, f"{made}{build}\n{ask}")
    assert len(set(map(int, ids)) & set(found)) >= K - 1 and ids[0] == "0"
    lines = pasted(server, re.sub(r"^SELECT", "EXPLAIN SELECT", ask, flags=re.MULTILINE) + "DROP TABLE docs;")
    assert any("Index Scan using docs_" in line for line in lines), lines
    for setting in ("maintenance_work_mem", "max_parallel_maintenance_workers"):
        assert f"SET {setting} = '{facts[setting]}';" in build
    assert np.isclose(facts.get("scanned_share", 1.0), 1.0)

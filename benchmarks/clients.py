"""Our clients take about the CPU of pgbench's, and far less than psycopg's cursor.execute.

HNSW at ef_search 10. CPU is the clients' own, for a query. Ours keep the answers that a recall needs. pgbench
sends the number of a query, which the server looks up; the others send the vector. It runs with a thread for
each core, as we run a process.
"""

import argparse
import re
import resource
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.algorithms.base.module import BaseANN
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.libpq import connect
from ann_benchmarks.algorithms.postgres.settings import QUERY_SESSION
from ann_benchmarks.algorithms.postgres.table import VectorColumn
from ann_benchmarks.algorithms.postgres.variables import program_environment
from ann_benchmarks.common.host import usable_cores
from ann_benchmarks.common.numbers import counted
from ann_benchmarks.load.request import Load

from .harness import Case, Figures, Goal
from .serving import K, closed_rate, cpu_seconds, hnsw_index

GOAL = Goal("CPU us", most=1.5)
OPTIONS = {"clients": [1, 2, 8, 32], "rows": 50_000, "dimension": 96, "queries": 1_000, "seconds": 3}
EF_SEARCH = 10
SETTINGS = QUERY_SESSION | {"hnsw.ef_search": str(EF_SEARCH)}


class Executing(BaseANN):
    """Queries as ann-benchmarks' own plug-in sends them; each thread connects by itself."""

    def __init__(self, parameters: dict[str, Any], table: str, column: VectorColumn) -> None:
        self._parameters, self._literal, self._own = parameters, column.literal, threading.local()
        self._sql = f"SELECT id FROM {table} ORDER BY embedding <-> %s::vector LIMIT %s"

    def query(self, q: np.ndarray, n: int) -> list[int]:
        """Have it executed."""
        cursor = getattr(self._own, "cursor", None) or self._open_cursor()
        cursor.execute(self._sql, (self._literal(q), n), prepare=True)
        return [row[0] for row in cursor.fetchall()]

    def _open_cursor(self) -> Any:
        connection = connect(self._parameters)
        connection.execute("SELECT '[1]'::vector")  # loads the library, which knows the settings
        for setting in SETTINGS.items():
            connection.execute("SELECT set_config(%s, %s, false)", setting)
        self._own.connection, self._own.cursor = connection, connection.cursor(binary=True)
        return self._own.cursor


def cases(args: argparse.Namespace) -> Iterator[Case]:
    with hnsw_index(args, EF_SEARCH) as (server, algorithm, queries):
        column, table = VectorColumn(args.dimension), algorithm.table_name
        executing = Executing(dict(server.connection_parameters()), table, column)
        pgbench = partial(run_pgbench, server, write_script(server, table, queries), args.seconds)
        for clients in args.clients:
            load = Load(clients, seconds=args.seconds)
            ways = {
                "ours": partial(run_clients, algorithm, queries, load, True),
                "pgbench": partial(pgbench, clients, min(clients, usable_cores())),
                "cursor.execute": partial(run_clients, executing, queries, load, False),
            }
            yield Case(counted(clients, "client"), ways, base="pgbench")


def run_clients(algorithm: Any, queries: np.ndarray, load: Load, keeps_ids: bool, run: int) -> Figures:
    """Load a plug-in by run.py's clients."""
    measured = closed_rate(algorithm, queries, load, run, keeps_ids)
    cpu = measured.facts["client_cpu_seconds_per_query"]
    return {"QPS": 1 / measured.seconds_per_query, "CPU us": 1e6 * cpu}


def write_script(server: Server, table: str, queries: np.ndarray) -> Path:
    """Put the queries into a table, and write what pgbench runs."""
    column = VectorColumn(queries.shape[1])
    rows = [(number, column.literal(vector)) for number, vector in enumerate(queries)]
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE queries (id int4 PRIMARY KEY, v {column.declared})")
        cursor.executemany("INSERT INTO queries VALUES (%s, %s)", rows)
        cursor.execute("ANALYZE queries")
    assert server.data_folder is not None
    script = server.data_folder.parent / "query.sql"
    script.write_text(
        f"\\set i random(0, {len(queries) - 1})\n"
        f"SELECT id FROM {table} ORDER BY embedding <-> (SELECT v FROM queries WHERE id = :i) LIMIT {K};\n"
    )
    return script


def run_pgbench(server: Any, script: Path, seconds: int, clients: int, threads: int, run: int) -> Figures:
    """Load the server by pgbench, with the settings of our sessions; the throughput is its own figure."""
    place = server.connection_parameters()
    command = [server.programs / "pgbench", "-n", "-M", "prepared", "-f", script, "-T", str(seconds)]
    command += ["-c", str(clients), "-j", str(threads), "--random-seed", str(run)]
    command += ["-h", place["host"], "-p", str(place["port"]), "-U", place["user"], place["dbname"]]
    options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
    before = cpu_seconds(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        env=program_environment() | {"PGOPTIONS": options},
        check=True,
        capture_output=True,
        text=True,
    )
    cpu = cpu_seconds(resource.RUSAGE_CHILDREN) - before
    found = re.search(r"actually processed: (\d+).*tps = ([\d.]+)", done.stdout, re.S)
    assert found is not None, done.stdout
    return {"QPS": float(found[2]), "CPU us": 1e6 * cpu / int(found[1])}

"""The table of docs/indexes.md that says which index has which metric of which type."""

import re
from pathlib import Path

from ann_benchmarks.algorithms.postgres.servers import Server

PAGE = Path(__file__).parents[1] / "docs/indexes.md"
METRICS = {
    "l2": "euclidean",
    "cosine": "angular",
    "ip": "ip",
    "l1": "manhattan",
    "hamming": "hamming",
    "jaccard": "jaccard",
}


def documented(index: str) -> set[tuple[str, str]]:
    """The types and metrics for which the column of an index has a version."""
    lines = [line.strip("| ") for line in PAGE.read_text().splitlines() if line.startswith("|")]
    start = next(number for number, line in enumerate(lines) if line.startswith("type | metric |"))
    columns = [name.strip(" `") for name in lines[start].split("|")]
    found = set()
    for line in lines[start + 2 :]:
        types, metrics, *versions = (cell.strip() for cell in line.split("|"))
        if not types.startswith("`"):
            break
        if dict(zip(columns[2:], versions, strict=False)).get(index):
            names = re.findall(r"`(\w+)`", types)
            found |= {(name, metric) for name in names for metric in metrics.split(", ")}
    return found


def offered(server: Server, extension: str, method: str) -> set[tuple[str, str]]:
    """The types, but for sparsevec, and metrics that an access method has an operator class for."""
    sql = "SELECT opcname FROM pg_opclass JOIN pg_am ON pg_am.oid = opcmethod WHERE amname = %s"
    with server.connect() as connection:
        connection.execute(f"CREATE EXTENSION IF NOT EXISTS {extension} CASCADE")
        names = [name for (name,) in connection.execute(sql, [method])]
    matches = [re.fullmatch(r"(\w+?)_([a-z]+\d?)_ops", name) for name in names]
    known = [match for match in matches if match and match[2] in METRICS and match[1] != "sparsevec"]
    return {(match[1], METRICS[match[2]]) for match in known}

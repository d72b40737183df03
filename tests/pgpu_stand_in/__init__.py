"""A stand-in for the extension pgpu: its signatures, messages and effects, written in plpgsql, without a GPU.

It shows that the plug-in calls pgpu as its versions are called, in a real server with a real VectorChord. Its
centroids are rows of the table, so that nothing measured with it says anything of pgpu.
"""

from pathlib import Path

from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.installation import Installation

VERSIONS = ("1.0.0", "2.0.0", "newer")
FAILURES = ("no-gpu", "memory", "childless")  # for fail()
_HERE = Path(__file__).parent


def install_stand_in(installation: Path, version: str) -> None:
    """Put a version of the stand-in into a PostgreSQL of the test's own, as the one that it offers."""
    extensions = Installation(installation).extensions
    script = (_HERE / "common.sql").read_text() + (_HERE / f"{version}.sql").read_text()
    (extensions / f"pgpu--{version}.sql").write_text(script)
    (extensions / "pgpu.control").write_text(
        f"comment = 'STAND-IN for pgpu, for tests'\ndefault_version = '{version}'\n"
        "relocatable = false\nschema = 'pgpu'\nrequires = 'vector, vchord'\n"
    )


def calls_of_stand_in(server: Server) -> list[dict]:
    """Return the arguments of all calls since the extension was created."""
    with server.connect() as connection:
        return [row[0] for row in connection.execute("SELECT arguments FROM pgpu.stand_in_calls").fetchall()]


def fail(server: Server, how: str) -> None:
    """Have the stand-in fail in one of FAILURES in all sessions that begin from now on, or, with "", not."""
    with server.connect() as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET pgpu_stand_in.fails = '{how}'")

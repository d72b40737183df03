"""A stand-in for the extension pgpu: its signatures, messages and effects, written in plpgsql, without a GPU.

It shows that the plug-in calls pgpu as it is called, in a real server with a real VectorChord. Its
centroids are rows of the table, so that nothing measured with it says anything of pgpu.
"""

from pathlib import Path

from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.installation import Installation

VERSION = "2.1.0"
FAILURES = ("no-gpu", "memory", "childless")  # for fail()
_HERE = Path(__file__).parent


def install_stand_in(installation: Path) -> None:
    """Put the stand-in into a PostgreSQL of the test's own, as the version that it offers."""
    extensions = Installation(installation).extensions
    script = (_HERE / "common.sql").read_text() + (_HERE / f"{VERSION}.sql").read_text()
    (extensions / f"pgpu--{VERSION}.sql").write_text(script)
    (extensions / "pgpu.control").write_text(
        f"comment = 'STAND-IN for pgpu, for tests'\ndefault_version = '{VERSION}'\n"
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

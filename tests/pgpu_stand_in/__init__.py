"""A stand-in for the extension pgpu: its signatures, messages and effects, written in plpgsql, without a GPU.

It shows that the plug-in calls pgpu as its versions are called, in a real server with a real VectorChord. Its
centroids are rows of the table, so that nothing measured with it says anything of pgpu.
"""

import re
from pathlib import Path

from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.installation import Installation

VERSIONS = ("1.0.0", "2.1.0", "newer")
FAILURES = ("no-gpu", "memory", "childless")  # for fail()
_HERE = Path(__file__).parent
# How a version after 2.1.0 differs, as far as a benchmark shows that calls it: no time without an index.
_NEWER = {
    "'2.1.0'": "'newer'",
    "residual_quantization bool DEFAULT false": "\\g<0>, random_sampling bool DEFAULT false",
    "'residual_quantization', residual_quantization": "\\g<0>, 'random_sampling', random_sampling",
    "RAISE INFO 'batches finished in [^;]*;": "",
    "RAISE INFO 'clustering all [^;]*Calling[^;]*;": "RAISE NOTICE 'Training complete (0.02s).';",
    "RAISE INFO 'clustering all [^;]*; '[^;]*;": "NULL;",
}


def install_stand_in(installation: Path, version: str) -> None:
    """Put a version of the stand-in into a PostgreSQL of the test's own, as the one that it offers."""
    extensions = Installation(installation).extensions
    script = (_HERE / f"{'2.1.0' if version == 'newer' else version}.sql").read_text()
    for pattern, text in _NEWER.items() if version == "newer" else ():
        script = re.sub(pattern, text, script)
    (extensions / f"pgpu--{version}.sql").write_text((_HERE / "common.sql").read_text() + script)
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

"""The program pgbench: where it is, its version, and how it runs and ends."""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ..environment import PREFIX, folder_variable
from ..errors import PostgresError
from ..servers.account import ServerAccount
from ..variables import program_environment

_PR_SET_PDEATHSIG = 1
_ERROR = re.compile(r"^pgbench: (?:error|fatal): (.*)")


def find_pgbench(binaries: Path | None) -> Path:
    """Return the pgbench among the server's programs, else one of the machine's.

    `binaries` is None where the server is not run by us; ANN_BENCHMARKS_PG_BIN may name a folder then.
    """
    folders = [folder for folder in (binaries, folder_variable("BIN")) if folder]
    for folder in folders:
        if os.access(folder / "pgbench", os.X_OK):
            return folder / "pgbench"
    on_path = shutil.which("pgbench")
    if on_path:
        return Path(on_path)
    searched = ", ".join([*map(str, dict.fromkeys(folders)), "PATH"])
    raise PostgresError(
        f"there is no pgbench in {searched}: install PostgreSQL's programs, "
        f"or name their folder in {PREFIX}BIN"
    )


@dataclass(frozen=True)
class PgbenchProgram:
    """The program, and who runs it: root runs nothing of a server's programs, which others may have made."""

    path: Path
    account: ServerAccount = ServerAccount("")  # noqa: RUF009 (it cannot be changed)

    def version(self) -> str:
        """Return what pgbench prints of itself, such as "pgbench (PostgreSQL) 18.4"."""
        try:
            done = subprocess.run(
                [self.path, "--version"],
                env=program_environment(),
                capture_output=True,
                text=True,
                check=True,
                **self.account.identity(),
            )
        except OSError as error:
            raise PostgresError(f"{self.path} does not run: {error.strerror}") from None
        except subprocess.CalledProcessError as error:
            reason = " ".join(error.stderr.split()) or f"exit status {error.returncode}"
            raise PostgresError(f"{self.path} does not run: {reason}") from None
        return done.stdout.strip()

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str], script: IO[str], output: IO[str]
    ) -> None:
        """Run it to its end; its first error ends it, as PostgresError."""
        process = subprocess.Popen(
            [str(self.path), *arguments],
            env=environment,
            stdin=script,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # the caller decides what Ctrl-C ends
            preexec_fn=_end_with_parent(),
            **self.account.identity(),
        )
        _wait_for(process)


def _wait_for(process: "subprocess.Popen[str]") -> None:
    assert process.stderr is not None
    last = ""
    try:
        for line in process.stderr:
            last = line.strip() or last
            if error := _ERROR.match(line):
                # pgbench would go on with the clients that are left.
                raise PostgresError(f"pgbench failed: {error[1].strip()}")
        status = process.wait()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    if status < 0:
        raise PostgresError(f"pgbench was ended by {signal.Signals(-status).name}")
    if status > 0:
        raise PostgresError(f"pgbench failed: {last or f'exit status {status}'}")


def _end_with_parent() -> Callable[[], Any] | None:
    """Return what a new process does first, so that it ends when its parent does, however that ends."""
    if sys.platform != "linux":
        return None
    control, parent = ctypes.CDLL(None).prctl, os.getpid()

    def arm() -> None:
        control(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return arm

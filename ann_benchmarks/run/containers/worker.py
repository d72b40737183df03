"""A container seen from run.py: given a job, or a question, listened to, logged, stopped, removed."""

import codecs
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path
from ann_benchmarks.common.numbers import size_text
from ann_benchmarks.jobs.events import Failure, PointDone, WorkloadDone
from ann_benchmarks.jobs.job import Job, JobRequest
from ann_benchmarks.measure.rounds import Enter, Keep

from ..process import GRACE_SECONDS
from ..worker import death_of, failure_of
from .engine import close_attached, reason
from .sandbox import Sandbox
from .wire import MessageReader, write_request

_ENDING_SECONDS = 120  # for what a container ran to end by itself once it has reported that it is finished
_PIECE = 1 << 16
_STDERR = 2
_NO_PROGRAM = 127
_LONGEST_LINE = 1 << 16  # bytes that are waited for


class Log:
    """Takes what a container prints; of a progress bar, the file keeps the last state alone."""

    def __init__(self, path: Path | None, is_shown: bool) -> None:
        """Write to a file, begun anew (None: to none), and, if `is_shown`, to standard error."""
        self._file: BinaryIO | None = None
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = path.open("wb", buffering=0)
            except OSError as error:
                raise UserError(f"the log {path} cannot be written: {error.strerror}") from None
        self._is_shown = is_shown
        self._line = b""
        self.last_line = ""  # the last one that is not empty
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()

    def write(self, data: bytes) -> None:
        """Take some of it."""
        with self._lock:
            if self._is_shown:
                with suppress(OSError):  # nobody reads it any more: the file has it
                    sys.stderr.write(self._decoder.decode(data))
                    sys.stderr.flush()
            *lines, self._line = (self._line + data).split(b"\n")
            self._keep(b"".join(_last_state(line) + b"\n" for line in lines))
            self._line = self._line[self._line.rfind(b"\r", 0, len(self._line) - 1) + 1 :]
            if len(self._line) > _LONGEST_LINE:
                self._keep(self._line)
                self._line = b""

    def clear_bar(self) -> None:
        """Make room for a line of our own, where a progress bar may stand."""
        if self._is_shown and terminal_size():
            with self._lock, suppress(OSError):
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()

    def close(self) -> None:
        """Write what is left of a line, and close the file."""
        with self._lock:
            if self._file is not None:
                if line := _last_state(self._line):
                    self._keep(line + b"\n")
                self._file.close()
                self._file = None

    def _keep(self, data: bytes) -> None:
        if data.strip():
            self.last_line = data.strip().rpartition(b"\n")[2].decode(errors="replace")
        if self._file is not None and data:
            self._file.write(data)


def _last_state(line: bytes) -> bytes:
    return next((state for state in reversed(line.rstrip(b"\r").split(b"\r")) if state.strip()), b"")


def terminal_size() -> tuple[int, int] | None:
    """(rows, columns) of the terminal that standard error goes to, None if it goes elsewhere."""
    try:
        columns, rows = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):
        return None
    return (rows, columns) if rows and columns else None


class ContainerWorker:
    """One container: to a pool what a process is, for one job or for all contenders of an image.

    It stores the results of the jobs that it was given as they come, and no others, whatever a container
    says.
    """

    is_reusable = False
    keeps_log = True

    def __init__(
        self,
        client: Any,
        sandbox: Sandbox,
        log: Log,
        facts: Mapping[str, Any] | None = None,
        at_end: ExitStack | None = None,
    ) -> None:
        """Start a container; UserError where that failed.

        `facts` are stored with each point of its jobs; `at_end` is closed when it is to end.
        """
        self.pipe: Connection
        self.pipe, self._theirs = multiprocessing.Pipe(duplex=False)
        self._sandbox, self._log, self._facts = sandbox, log, facts or {}
        self._at_end = at_end or ExitStack()
        self.jobs: list[Job] = []
        self._has_results = False  # whether the request that is carried out has any
        self.container: Any = None
        self._socket: Any = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        from docker.errors import DockerException

        try:
            self.container = sandbox.create(client)
            how = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            self._socket = self.container.attach_socket(params=how)
            self.container.start()
        except (DockerException, OSError) as error:  # of requests, which is an OSError
            why = reason(error)
            if "could not select device driver" in why or "nvidia" in why.lower():
                why += "; the image needs GPUs, and for them Docker needs NVIDIA's container toolkit"
            self._theirs.close()
            self.stop()
            raise UserError(f"no container could be started: {why}") from None
        self._reader.start()

    def send(self, request: Any) -> None:
        """Hand over a request, a job's with the facts; OSError when the container has ended."""
        if isinstance(request, Enter):
            request = Enter(self._noted(request.request))
        elif isinstance(request, JobRequest):
            request = self._noted(request)
        self._has_results = isinstance(request, JobRequest | Keep)
        self._socket._sock.sendall(write_request(request))

    def _noted(self, request: JobRequest) -> JobRequest:
        self.jobs.append(request.job)
        return replace(request, facts=self._facts)

    def next_message(self) -> Any:
        """Return the container's next message, None when there is nothing now; EOFError when it has ended."""
        try:
            return self.pipe.recv() if self.pipe.poll() else None
        except OSError:
            raise EOFError from None

    def death(self) -> Failure:
        """Say how the container came to its end."""
        from docker.errors import DockerException

        try:
            self.container.wait(timeout=GRACE_SECONDS)
            self.container.reload()
            state = self.container.attrs["State"]
        except (DockerException, OSError) as error:
            return Failure(f"the container is lost: {reason(error)}")
        if state.get("OOMKilled"):
            return Failure(
                f"memory ran out: the container was ended at its limit of {size_text(self._sandbox.memory)};"
                " give it more with --memory, or the algorithm less to hold"
            )
        status = state.get("ExitCode")
        if status == _NO_PROGRAM:
            return Failure("the image has no python3: is it built FROM ann-benchmarks?")
        if status == 128 + signal.SIGKILL:
            return Failure("the container was killed from outside")
        if status > 128:
            return death_of(128 - status, "the stack of the crash is above")
        said = " ".join((state.get("Error") or self._log.last_line).split())
        return Failure(f"the container ended by itself with status {status}: {said or 'it said nothing'}")

    def end(self) -> None:
        """Have it put away what it holds and end by itself, and remove it."""
        if self._socket is not None:
            with suppress(OSError):
                self.send(None)
            self._reader.join(_ENDING_SECONDS)
        self.stop()

    def ask_to_end(self) -> None:
        """Have it put away what it holds, and end."""
        from docker.errors import DockerException

        if self.container is not None:
            with suppress(DockerException, OSError):  # it has ended
                self.container.kill("SIGTERM")

    def stop(self) -> None:
        """Ask it to end; remove it when it has, or when it does not. Interrupted, remove it at once."""
        from docker.errors import DockerException, NotFound

        self._at_end.close()
        try:
            if self._reader.is_alive():
                self.ask_to_end()
                self._reader.join(GRACE_SECONDS + 5)
        finally:
            if self.container is not None:
                with suppress(NotFound, DockerException, OSError):
                    self.container.remove(force=True, v=True)
                self.container = None
            self.pipe.close()  # the reader may be waiting to write to it
            if self._reader.is_alive():
                self._reader.join()
            if self._socket is not None:
                close_attached(self._socket)
                self._socket = None
            self._log.close()

    def _read(self) -> None:
        """Take apart what comes, until the container has ended. A thread's work."""
        messages = MessageReader()
        try:
            with suppress(EOFError):
                while True:
                    header = self._exactly(8)
                    content = self._exactly(int.from_bytes(header[4:], "big"))
                    if header[0] == _STDERR:
                        self._log.write(content)
                        continue
                    for message, attachment in messages.feed(content):
                        self._log.clear_bar()
                        self._store(message, attachment)
                        self._theirs.send(message)
        except OSError as error:
            with suppress(OSError):
                self._theirs.send(failure_of(error))
        except Exception as error:
            with suppress(OSError):
                self._theirs.send(Failure(f"the container's messages cannot be used: {error}"))
        finally:
            self._theirs.close()

    def _store(self, message: Any, attachment: bytes) -> None:
        """Store a result, if a message is about one."""
        if not isinstance(message, PointDone | WorkloadDone):
            return
        if not self._has_results or not any(job.is_result(message.path) for job in self.jobs):
            raise ValueError(f"{message.path} is not a result of this container's jobs")
        with atomic_path(message.path) as temporary:
            temporary.write_bytes(attachment)

    def _exactly(self, length: int) -> bytes:
        """Read `length` bytes of what the engine sends: pieces of both streams, each after its header."""
        content = bytearray()
        while len(content) < length:
            try:
                piece = self._socket._sock.recv(min(length - len(content), _PIECE))
            except OSError:
                raise EOFError from None
            if not piece:
                raise EOFError
            content += piece
        return bytes(content)

"""A container seen from run.py: given a job, or a check of its image, listened to, stopped, removed."""

import multiprocessing
import signal
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ann_benchmarks.common.atomic import atomic_path
from ann_benchmarks.common.numbers import size_text
from ann_benchmarks.definitions.definition import DEFINITIONS_FOLDER, Definition
from ann_benchmarks.jobs.events import Failure, PointDone, WorkloadDone
from ann_benchmarks.jobs.job import Job

from ..process import GRACE_SECONDS
from ..worker import failure_of
from .engine import close_attached, find_image, reason
from .guard import remove_all
from .limits import cpus_of_each, memory_of_each
from .log import Log
from .sandbox import ContainerAccount, Sandbox, project_files
from .wire import Checked, CheckRequest, MessageReader, write_request

_ENDING_SECONDS = 120  # for what a container ran to end by itself once it has reported that it is finished
_CHECK_SECONDS = 120
_PIECE = 1 << 16
_STDERR = 2
_NO_PROGRAM = 127


class ContainerWorker:
    """One container, for one job; to a pool what a process is."""

    is_reusable = False
    keeps_log = True

    def __init__(self, client: Any, sandbox: Sandbox, log: Log, accept: Callable[[Any, bytes], Any]) -> None:
        """Start a container; death() says so where that failed.

        `accept` is given each message and what is attached to it, and returns the message to hand on.
        """
        self.pipe: Connection
        self.pipe, self._theirs = multiprocessing.Pipe(duplex=False)
        self._sandbox, self._log, self._accept = sandbox, log, accept
        self.container: Any = None
        self._socket: Any = None
        self._failure: Failure | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        from docker.errors import DockerException

        try:
            self.container = sandbox.create(client)
            how = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            self._socket = self.container.attach_socket(params=how)
            self.container.start()
        except (DockerException, OSError) as error:  # of requests, which is an OSError
            self._failure = Failure(f"no container could be started: {_advised(reason(error))}")
            self._theirs.close()
        else:
            self._reader.start()

    def send(self, request: Any) -> None:
        """Hand over the one request; OSError when the container has ended."""
        if self._socket is not None:
            self._socket._sock.sendall(write_request(request))

    def next_message(self) -> Any:
        """Return the container's next message, None when there is nothing now; EOFError when it has ended."""
        try:
            return self.pipe.recv() if self.pipe.poll() else None
        except OSError:
            raise EOFError from None

    def death(self) -> Failure:
        """Say how the container came to its end."""
        if self._failure is not None:
            return self._failure
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
        said = " ".join((state.get("Error") or self._log.last_line).split())
        return Failure(f"the container ended by itself with status {status}: {said or 'it said nothing'}")

    def end(self) -> None:
        """Let a container that has finished end by itself, and remove it."""
        if self._failure is None:
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

        try:
            if self._reader.is_alive():
                self.ask_to_end()
                self._reader.join(GRACE_SECONDS + 5)
        finally:
            if self.container is not None:
                with suppress(NotFound, DockerException, OSError):
                    self.container.remove(force=True, v=True)
                self.container = None
            self.pipe.close()  # to which the reader may be waiting to write
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
                        self._theirs.send(self._accept(message, attachment))
        except OSError as error:
            with suppress(OSError):
                self._theirs.send(failure_of(error))
        except Exception as error:
            with suppress(OSError):
                self._theirs.send(Failure(f"the container's messages cannot be used: {error}"))
        finally:
            self._theirs.close()

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


def keep_results(job: Job) -> Callable[[Any, bytes], Any]:
    """Return what stores the results of a job as they come; only these, whatever a container says."""

    def accept(message: Any, attachment: bytes) -> Any:
        if isinstance(message, PointDone | WorkloadDone):
            if not job.is_result(message.path):
                raise ValueError(f"{message.path} is no result of this job")
            with atomic_path(message.path) as temporary:
                temporary.write_bytes(attachment)
        return message

    return accept


def answer_to(client: Any, sandbox: Sandbox, request: Any, seconds: float) -> Any:
    """Have a container answer one request; return its answer, or a Failure where it gives none in time."""
    worker = ContainerWorker(client, sandbox, Log(None, False), lambda message, attachment: message)
    deadline = time.monotonic() + seconds
    answer: Any = None
    try:
        with suppress(OSError):
            worker.send(request)
        while answer is None and worker.pipe.poll(max(deadline - time.monotonic(), 0)):
            answer = worker.next_message()
        return answer or Failure(f"no answer within {seconds:g} s")
    except EOFError:
        return worker.death()
    finally:
        worker.stop()


def check_image(
    client: Any, image: str, definition: Definition, definitions: Path = DEFINITIONS_FOLDER
) -> Checked:
    """Import the plug-in in a container of an image, without network and GPUs; return its versions."""
    found = find_image(client, image)
    if found is None:
        return Checked(problem=f"there is no image {image}")
    owner = uuid.uuid4().hex
    engine = client.info()
    [cpus] = cpus_of_each(None, 1, engine.get("NCPU"))
    sandbox = Sandbox(
        replace(found, needs_gpus=False),  # which a machine that builds may not have
        ContainerAccount.for_image(found, client),
        owner,
        memory_of_each(None, 1, engine.get("MemTotal")),
        cpus,
        project_files(definitions),
    )
    try:
        answer = answer_to(client, sandbox, CheckRequest(definition), _CHECK_SECONDS)
    finally:
        remove_all(client, owner)
    return Checked(problem=answer.text) if isinstance(answer, Failure) else answer


def _advised(text: str) -> str:
    if "could not select device driver" in text or "nvidia" in text.lower():
        return f"{text}; the image needs GPUs, which Docker can give where NVIDIA's container toolkit is"
    return text

"""One image built by the engine, which another thread may abort, and the log of that."""

import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.text import clean_text
from ann_benchmarks.run.containers.engine import reason

from .catalog import SMALL_BASE, ImageSpec
from .context import proxies, write_context

_PIECE = 2**18  # bytes at a time
LOGS = Path("logs/install")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STEP = re.compile(r"STEP (\d+)/(\d+) ?: ?(.*)", re.IGNORECASE)
_TROUBLE = re.compile(
    r"^E: |error|fatal|fail|cannot|can't|unable|not found|no such|denied|refused", re.IGNORECASE
)
_ENGINE = ("---> ", "Removing intermediate container ")  # lines of the engine's own
_STATUS = re.compile(r"returned a non-zero code: (\d+)")


def log_path(image: str) -> Path:
    """The log of an image, NAME or NAME:TAG."""
    return LOGS / f"{image.replace(':', '-')}.log"


class BuildLog:
    """Takes what one build prints, in pieces, and writes it line by line; begun anew."""

    def __init__(self, path: Path) -> None:
        """Write to `path`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")
        self._pending = ""
        self._step = ""  # its number and the number of all
        self.instruction = ""  # the step's line in the Dockerfile
        self._output: list[str] = []  # of the step

    def __enter__(self) -> "BuildLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.write("\n" if self._pending else "")
        self._file.close()

    def write(self, text: str) -> None:
        """Take some of it."""
        *lines, self._pending = (self._pending + text).split("\n")
        for line in lines:
            self._take(clean_text(_COLOURS.sub("", line).rstrip("\r").rpartition("\r")[2]))

    def _take(self, line: str) -> None:
        self._file.write(line + "\n")
        self._file.flush()
        if match := _STEP.match(line):
            self._step, self.instruction = f"step {match[1]}/{match[2]}", match[3]
            self._output = []
        elif line.strip() and not line.lstrip().startswith(_ENGINE):
            self._output.append(line.strip())

    def explain(self, message: str) -> str:
        """Say on one line why the build failed, given the engine's message."""
        self.write(f"\n{message}\n" if self._pending else f"{message}\n")
        status = _STATUS.search(message)
        output = self._output[:-1]  # without the message
        if status is None or not output:
            return f"{self._step}: {' '.join(message.split())}".removeprefix(": ")
        trouble = [line for line in output if _TROUBLE.search(line)]
        return f"{self._step} ended with status {status[1]}: {(trouble or output)[-1]}"


class BuildFailed(Exception):
    """Why an image could not be built, on one line."""


class BuildAborted(Exception):
    """abort() was called."""


@dataclass(frozen=True)
class ImageBuildOptions:
    """What all builds of one command have in common."""

    definitions: Path
    certificates: Mapping[str, bytes]  # trusted by images
    is_anew: bool  # although layers are in the engine's cache


class ImageBuild:
    """The build of one image."""

    def __init__(self, client: Any, spec: ImageSpec, options: ImageBuildOptions) -> None:
        """Make it with a client of its own, which nobody else uses; nothing is begun yet."""
        self.client, self.spec, self.options = client, spec, options
        self._response: Any = None
        self._is_aborted = threading.Event()

    def run(self) -> None:
        """Build the image; BuildFailed says why it could not be, BuildAborted that it was not to be."""
        with (
            tempfile.TemporaryFile() as context,
            BuildLog(log_path(self.spec.image)) as log,
        ):
            log.write(f"{self.spec.dockerfile} with {self.spec.arguments}\n")
            try:
                packages = self.spec.arguments.packages.values()
                write_context(context, self.options.definitions, self.options.certificates, packages)
                context.seek(0)
                is_finished = False
                for message in self._messages(context):
                    self._take(message, log)
                    is_finished = "aux" in message or is_finished  # with the image's id
                if not is_finished:
                    raise BuildFailed(
                        log.explain("the engine broke off without a word: has it been stopped?")
                    )
            except (BuildFailed, BuildAborted):
                raise
            except UserError as error:
                raise BuildFailed(str(error)) from None
            except Exception as error:
                if self._is_aborted.is_set():
                    raise BuildAborted from None
                raise BuildFailed(log.explain(f"the engine: {reason(error)}")) from None
            finally:
                if self._response is not None:
                    self._response.close()  # at which the engine ends a build that is not finished

    def abort(self) -> None:
        """Abort the build, from another thread."""
        self._is_aborted.set()
        if self._response is not None:
            with suppress(OSError, ValueError, RuntimeError):
                self._response.raw.shutdown()  # the thread that reads from it reads its end

    def _messages(self, context: BinaryIO) -> Iterator[dict[str, Any]]:
        self.client.api.hooks["response"].append(self._keep)
        stream = self.client.api.build(
            fileobj=self._pieces(context),
            custom_context=True,
            dockerfile=self.spec.dockerfile,
            tag=self.spec.image,
            # Docker's own bridge has no way out on many machines of companies, nor their DNS and their proxy
            # on 127.0.0.1; the host's network has what this program has.
            network_mode="host",
            buildargs={**proxies(), **self.spec.arguments.values},
            nocache=self.options.is_anew,
            rm=True,
            forcerm=True,
            decode=True,
        )
        for message in stream:
            if self._is_aborted.is_set():
                break
            yield message
        if self._is_aborted.is_set():
            raise BuildAborted

    def _keep(self, response: Any, **_: Any) -> None:
        self._response = response

    def _pieces(self, context: BinaryIO) -> Iterator[bytes]:
        while piece := context.read(_PIECE):
            if self._is_aborted.is_set():
                raise BuildAborted
            yield piece

    def _take(self, message: dict[str, Any], log: BuildLog) -> None:
        if error := message.get("error"):
            text = log.explain(str(error).strip())
            is_of_image = log.instruction.startswith("FROM ")
            raise BuildFailed(self._explain_missing_image(text, log.instruction) if is_of_image else text)
        if "stream" in message:
            log.write(message["stream"])
        elif (status := message.get("status")) and not message.get("progressDetail"):
            log.write(f"{message.get('id', '')} {status}\n".lstrip())  # of an image that is pulled

    def _explain_missing_image(self, text: str, instruction: str) -> str:
        """Add what can be done about an image that cannot be had."""
        if self.spec.image == SMALL_BASE:
            return (
                f"the base image {self.spec.base} cannot be had ({text}): give another with --base IMAGE,"
                " or --base debootstrap makes one from Debian's archive, without a registry"
            )
        argument = re.search(r"\$\{?(\w+)", instruction)
        hint = f"; give another with --build-arg {argument[1]}=IMAGE" if argument else ""
        return f"the image that it starts from cannot be had ({text}){hint}"

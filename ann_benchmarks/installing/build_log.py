"""What a build prints: kept in a file, and searched for why it failed."""

import re
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

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

    def __init__(self, path: Path, on_step: Callable[[str], None]) -> None:
        """Write to `path`; `on_step` is told of each step as it begins."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")
        self._on_step = on_step
        self._pending = ""
        self._step = ""  # its number and the number of all
        self._instruction = ""
        self._output: list[str] = []  # of the step

    def __enter__(self) -> "BuildLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.write("\n" if self._pending else "")
        self._file.close()

    @property
    def instruction(self) -> str:
        """The step's line in the Dockerfile."""
        return self._instruction

    def write(self, text: str) -> None:
        """Take some of it."""
        *lines, self._pending = (self._pending + text).split("\n")
        for line in lines:
            self._take(_COLOURS.sub("", line).rstrip("\r").rpartition("\r")[2])

    def _take(self, line: str) -> None:
        self._file.write(line + "\n")
        self._file.flush()
        if match := _STEP.match(line):
            self._step, self._instruction = f"step {match[1]}/{match[2]}", match[3]
            self._output = []
            self._on_step(f"{self._step}: {self._instruction}")
        elif line.strip() and not line.lstrip().startswith(_ENGINE):
            self._output.append(line.strip())

    def why(self, message: str) -> str:
        """Say on one line why the build failed, given the engine's message."""
        self.write(f"\n{message}\n" if self._pending else f"{message}\n")
        status = _STATUS.search(message)
        output = self._output[:-1]  # without the message
        if status is None or not output:
            return f"{self._step}: {' '.join(message.split())}".removeprefix(": ")
        trouble = [line for line in output if _TROUBLE.search(line)]
        return f"{self._step} ended with status {status[1]}: {(trouble or output)[-1]}"

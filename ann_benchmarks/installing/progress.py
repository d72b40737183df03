"""What is shown and kept of builds: logs, reasons of failures, progress on the terminal, the final table."""

import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tqdm import tqdm

from ann_benchmarks.common.foreign import clean_text
from ann_benchmarks.common.numbers import MB
from ann_benchmarks.common.output import say

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
        """Write to `path`; `on_step` is called with each step as it begins."""
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
            self._take(clean_text(_COLOURS.sub("", line).rstrip("\r").rpartition("\r")[2]))

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


class Progress:
    """Shows builds, a line for each that moves on a terminal, else its begin and end."""

    def __init__(self) -> None:
        """Find out whether there is a terminal."""
        self._is_terminal = sys.stdout.isatty()
        self._lines: dict[str, Any] = {}
        tqdm.set_lock(threading.RLock())

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for line in self._lines.values():
            line.close()

    def begin(self, image: str) -> None:
        """Show that an image is begun."""
        if self._is_terminal:
            self._lines[image] = tqdm(
                file=sys.stdout, leave=False, bar_format="{desc}", desc=f"{image}: begun", dynamic_ncols=True
            )
        else:
            say(f"{image}: begun, its log is {log_path(image)}")

    def step(self, image: str, text: str) -> None:
        """Show what is done now."""
        if (line := self._lines.get(image)) is not None:
            line.set_description_str(f"{image}: {text}")

    def end(self, image: str, text: str, is_failure: bool = False) -> None:
        """Show what became of it; failures go to stderr."""
        if (line := self._lines.pop(image, None)) is not None:
            line.close()
        with tqdm.external_write_mode(file=sys.stdout):
            if is_failure:
                print(f"failed: {image}: {clean_text(text)}", file=sys.stderr, flush=True)
            else:
                say(f"{image}: {text}")


BUILT, UNCHANGED, FAILED = "built", "unchanged", "failed"
_NUMBERS = 3  # columns of the table, from the third on


@dataclass(frozen=True)
class ImageOutcome:
    """An image that was to be built: sizes in bytes, None where there is none."""

    image: str
    state: str
    seconds: float = 0.0
    size: int | None = None
    own_size: int | None = None  # beyond what it starts from
    versions: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""

    def __str__(self) -> str:
        text = f"{self.state} in {self.seconds:.1f} s, {_megabytes(self.size)} MB"
        return f"{text}, {_versions(self)}" if self.versions else text


def image_id(client: Any, image: str) -> str | None:
    """The image that has this name now."""
    found = _find(client, image)
    return None if found is None else found.id


def sizes(client: Any, image: str, base: str) -> tuple[int | None, int | None]:
    """Bytes of an image, and of what it has beyond the one that it starts from, where that is still there."""
    found = _find(client, image)
    if found is None:
        return None, None
    size = found.attrs["Size"]
    below = None if base == "scratch" else _find(client, base)
    if below is None:
        return size, None if base != "scratch" else size
    layers, shared = found.attrs["RootFS"].get("Layers", []), below.attrs["RootFS"].get("Layers", [])
    return size, size - below.attrs["Size"] if layers[: len(shared)] == shared else None


def table(outcomes: Sequence[ImageOutcome]) -> list[str]:
    """Lines of a table; MB of an image's own are those beyond the image that it starts from."""
    rows = [("image", "state", "MB", "own MB", "seconds", "versions")]
    for each in outcomes:
        rows.append(
            (
                each.image,
                each.state,
                _megabytes(each.size),
                _megabytes(each.own_size),
                f"{each.seconds:.1f}",
                _versions(each) or "-",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if 2 <= number < 2 + _NUMBERS else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _find(client: Any, image: str) -> Any:
    from docker.errors import NotFound

    try:
        return client.images.get(image)
    except NotFound:
        return None


def _megabytes(size: int | None) -> str:
    return "-" if size is None else f"{size / MB:,.0f}"


def _versions(outcome: ImageOutcome) -> str:
    return ", ".join(f"{name} {version}" for name, version in outcome.versions.items())

"""What is shown while images are built: a line for each that moves on a terminal, else its begin and end."""

import sys
import threading
from types import TracebackType
from typing import Any

from tqdm import tqdm

from ann_benchmarks.common.output import say

from .build_log import log_path


class Progress:
    """Shows builds, of which each has the name of its image."""

    def __init__(self) -> None:
        """Look whether there is a terminal."""
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
                print(f"failed: {image}: {text}", file=sys.stderr, flush=True)
            else:
                say(f"{image}: {text}")

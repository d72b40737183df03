"""Options of run.py as an experiment's file states them: names and values instead of a command line."""

import argparse
import contextlib
import io
from collections.abc import Sequence
from typing import Any

from ann_benchmarks.common.errors import UserError, closest

# Options of whoever runs an experiment, which are no part of it.
OF_THE_USER = ("definitions", "list-algorithms", "local", "force", "rebuild", "storage", "parallelism",
               "experiment", "mini")  # fmt: skip


class Options:
    """The options that a parser knows."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        """Take run.py's parser."""
        self._parser = parser
        self._defaults: dict[str, Any] = {}
        help_text = parser.format_help()
        for destination, value in vars(parser.parse_args([])).items():
            name = destination.replace("_", "-")
            for option in (name, name.removesuffix("s")):  # --setting adds to settings
                if f"--{option}" in help_text:
                    self._defaults[option] = value
                    break

    def arguments(self, name: str, value: Any) -> list[str]:
        """Return an option as words of a command line; UserError where it, or its value, is not known.

        A list is given as run.py takes several values; true stands for an option without one.
        """
        known = [option for option in self._defaults if option not in OF_THE_USER]
        if name not in known:
            raise UserError(f"unknown option '{name}' of run.py; {closest(name, known)}")
        if value is None or value is False:
            return []
        option = f"--{name}"
        if value is True:
            words = [option]
        elif isinstance(value, list) and value and not any(isinstance(part, (list, dict)) for part in value):
            texts = [str(part) for part in value]
            words = [option, *texts] if isinstance(self._defaults[name], list) else [option, ",".join(texts)]
        elif isinstance(value, (str, int, float)):
            words = [option, str(value)]
        else:
            raise UserError(f"the option '{name}' cannot be {value!r:.40}")
        if any(isinstance(part, str) and part.startswith("-") for part in as_list(value)):
            raise UserError(f"the value of '{name}' begins with '-', as options do: write it without")
        self.parse(words)
        return words

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Read a command line; UserError instead of an exit."""
        messages = io.StringIO()
        try:
            with contextlib.redirect_stderr(messages):
                return self._parser.parse_args(words)
        except SystemExit:
            raise UserError(messages.getvalue().rpartition("error: ")[2]) from None


def as_list(value: Any) -> list[Any]:
    """Return a list as it is, and anything else in a list."""
    return value if isinstance(value, list) else [value]

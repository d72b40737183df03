"""A Dockerfile, as far as one must know it before it is built: what it starts from, and its arguments."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ann_benchmarks.common.errors import UserError

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::-([^}]*))?\})")


@dataclass(frozen=True)
class Dockerfile:
    """Its FROM lines with their stages' names, and its ARGs."""

    stages: tuple[tuple[str, str], ...]  # (image, name or "")
    values: Mapping[str, str]  # of the ARGs, by default
    defaults: Mapping[str, str]  # those before the first FROM alone
    beginning: str  # of the last stage, up to its second RUN: images with the same have layers in common

    @property
    def arguments(self) -> frozenset[str]:
        """Names of the ARGs."""
        return frozenset(self.values)

    def bases(self, arguments: Mapping[str, str]) -> list[str]:
        """Images that its stages start from, each resolved with these arguments; the last is the result's."""
        values = {**self.defaults, **{k: v for k, v in arguments.items() if k in self.defaults}}
        known: dict[str, str] = {}
        bases = []
        for image, name in self.stages:
            image = _VARIABLE.sub(lambda match: values.get(match[1] or match[2]) or match[3] or "", image)
            image = known.get(image.lower(), image)
            known[name.lower()] = image
            bases.append(image)
        return bases


def read_dockerfile(path: Path) -> Dockerfile:
    """Read a Dockerfile; UserError when it cannot be, or starts from nothing."""
    stages: list[tuple[str, str]] = []
    arguments: dict[str, str] = {}
    defaults: dict[str, str] = {}
    beginning: list[str] = []
    runs = 0
    try:
        for word, rest in _instructions(path.read_text(encoding="utf-8")):
            if runs < 2:
                beginning.append(f"{word} {rest}")
            runs += word == "RUN"
            if word == "FROM":
                beginning, runs = [], 0
                image, *name = [part for part in rest.split() if not part.startswith("--")]
                stages.append((image, name[1] if len(name) == 2 else ""))
            elif word == "ARG":
                pairs = dict(part.partition("=")[::2] for part in shlex.split(rest, comments=True))
                arguments |= pairs
                defaults |= {} if stages else pairs
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    if not stages:
        raise UserError(f"{path} has no FROM line")
    return Dockerfile(tuple(stages), arguments, defaults, "\n".join(beginning))


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield each instruction in capitals with what follows it, lines that go on joined."""
    begun = ""
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        begun += line
        if begun.endswith("\\"):
            begun = begun[:-1]
            continue
        word, _, rest = begun.strip().partition(" ")
        yield word.upper(), rest.strip()
        begun = ""

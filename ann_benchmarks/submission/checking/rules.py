"""The rules that a bundle keeps, by the short names that findings cite; docs/rules.md explains each."""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ann_benchmarks.common.errors import UserError, one_line
from ann_benchmarks.common.numbers import counted
from ann_benchmarks.common.text import DAMAGE, reason_of

REWRITE, MEASURE, RESTORE = "write the bundle again", "measure the point again", "restore the file"
# A name in brackets stands in every finding, and in a row of docs/rules.md that says what the rule asks. A
# finding ends with what to do.
RULES = {
    "report": REWRITE,
    "truth": f"take the dataset's own, and {REWRITE}",
    "dataset": f"use the dataset of this name, and {REWRITE}",
    **dict.fromkeys(("readable", "answers", "timings", "figures"), MEASURE),
    **dict.fromkeys(("attributes", "series"), f"{RESTORE}, or {MEASURE}"),
    **dict.fromkeys(("target", "tier", "clients", "runs", "warnings"), "measure it again"),
    "manifest": "write the bundle with report.py --bundle",
    "paths": "hand in regular files with plain names",
    "files": f"{RESTORE}, take out what does not belong there, or {REWRITE}",
    "complete": "measure and add it, or hand the bundle in under the open division",
    "division": "hand it in under the open division",
    "mixed": "measure the curve anew, or hand in two",
    "duplicate": "leave one of them out",
    "private": f"replace it, and {REWRITE}",
}
LONGEST = 500  # characters of what is wrong, which may quote a file
SAME = 2e-5  # relative: latencies are stored in single precision
ROUNDING = 1e-9  # of a share of rows
INF = math.inf
# What an attribute can be: from the least to the most, one of several, or what a list has.
Expected = tuple[float, float] | set[Any] | list[float]
NOTHING: set[Any] = set()  # of an attribute that must not be there


def near(value: float, by: float) -> tuple[float, float]:
    """Return what differs by so much at most."""
    return value - by, value + by


def closely(value: float, by: float = SAME) -> tuple[float, float]:
    """Return what differs by a share of it at most."""
    return near(value, by * abs(value))


@dataclass(frozen=True, order=True)
class RuleFinding:
    """What is wrong with a file of a bundle, and what to do; one that disqualifies refuses the bundle."""

    file: str
    rule: str
    text: str
    disqualifies: bool = True

    def __str__(self) -> str:
        return f"{self.file}: [{self.rule}] {self.text}; {RULES[self.rule]}"


class Findings:
    """All findings about a bundle; `is_mini` makes those about how it was measured mere warnings."""

    def __init__(self) -> None:
        self._found = set[RuleFinding]()
        self.is_mini = False

    def refuse(self, file: str, rule: str, *problems: str, disqualifies: bool = True) -> None:
        """Refuse the bundle for each of several problems of a file, or warn of them."""
        self._found |= {
            RuleFinding(file, rule, one_line(problem, LONGEST), disqualifies) for problem in problems
        }

    @contextmanager
    def refusing(self, file: str, rule: str, damaged: str = "cannot be read") -> Iterator[None]:
        """Refuse a file for what is raised: for what a UserError says, or as `damaged`."""
        try:
            yield
        except UserError as error:
            # The file's place on this machine, with which readers begin, is not said.
            self.refuse(file, rule, re.sub(rf"^\S*{re.escape(file)}:? ", "", str(error)))
        except DAMAGE as error:
            self.refuse(file, rule, f"{damaged}: {reason_of(error)}")

    @property
    def refused(self) -> list[RuleFinding]:
        """Those that disqualify, in the order of their files."""
        return sorted(finding for finding in self._found if finding.disqualifies)

    @property
    def warnings(self) -> list[RuleFinding]:
        """The others."""
        return sorted(self._found.difference(self.refused))

    def tasks(self) -> Iterator[str]:
        """Yield a line for each thing to do before the bundle would pass, with a first example."""
        groups: dict[str, list[RuleFinding]] = {}
        for finding in self.refused:
            groups.setdefault(RULES[finding.rule], []).append(finding)
        for advice, found in groups.items():
            rules = ", ".join(dict.fromkeys(f"[{one.rule}]" for one in found))
            number = counted(len({one.file for one in found}), "file")
            yield f"{advice} ({number}, {rules}), such as {found[0].file}: {found[0].text}"

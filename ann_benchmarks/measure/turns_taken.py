"""What a point has measured in the rounds so far: on the disk, while the race goes on."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path
from ann_benchmarks.common.text import DAMAGE
from ann_benchmarks.load.spans import Measured
from ann_benchmarks.monitoring.monitor import Recording

SUFFIX = ".turns"
_ARRAYS = ("times", "neighbors", "answered", "numbers")  # of a run; the others are plain


@dataclass
class TurnsTaken:
    """What one point has measured so far."""

    started_at: str
    race: Sequence[Any] = ("", "", 0)  # its mark, how long it is to go on, rounds that are over
    runs: list[Measured] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    sent_once: list[float] = field(default_factory=list)  # shares of the queries, to fill caches; or 0
    found_facts: dict[str, Any] = field(default_factory=dict)  # of the search for its arguments
    plugin_facts: dict[str, Any] = field(default_factory=dict)  # of the last turn: others have theirs since
    recording: Recording = field(default_factory=Recording)

    def save(self, result: Path) -> None:
        """Write all but the recording beside the place of the point's result."""
        plain: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        plain |= {"recording": None, "runs": []}
        arrays: dict[str, Any] = {}
        for place, run in enumerate(self.runs):
            of_run = asdict(run)
            values = {name: of_run.pop(name) for name in _ARRAYS}
            arrays |= {f"{name}{place}": value for name, value in values.items() if value is not None}
            plain["runs"].append(of_run)
        text = json.dumps(plain, default=lambda value: value.item())
        with atomic_path(result.with_suffix(SUFFIX)) as path, path.open("wb") as file:
            np.savez(file, plain=np.array(text), **arrays)

    @classmethod
    def read(cls, result: Path) -> "TurnsTaken":
        """Read what lies beside a point's result; UserError where there is nothing, or it is damaged."""
        path = result.with_suffix(SUFFIX)
        try:
            with np.load(path, allow_pickle=False) as arrays:
                plain = json.loads(str(arrays["plain"]))
                runs = [
                    Measured(**of_run, **{name: arrays.get(f"{name}{place}") for name in _ARRAYS})
                    for place, of_run in enumerate(plain.pop("runs"))
                ]
            return cls(**{**plain, "runs": runs, "recording": Recording()})
        except DAMAGE as error:
            raise UserError(f"{path} cannot be read: {error}") from None


def forget(result: Path) -> None:
    """Delete what lies beside a point's result."""
    with suppress(OSError):
        result.with_suffix(SUFFIX).unlink()

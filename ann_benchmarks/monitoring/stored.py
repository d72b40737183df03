"""What was sampled as columns, in the group `monitoring` of a result file and out of it.

The group's datasets have one entry a sample: `seconds` (float64, from the start of the job), `phase` (int8,
into the JSON list that is the attribute `phases`), and one (float32) for each counter, with an attribute
`unit`. A rate is the mean since the sample before. Each time that a phase is entered, which the attribute
`starts` lists as JSON, it begins with a sample without rates (nan). Counters that stayed 0 are not there.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.hdf5 import fits_in_memory, lacking, open_hdf5_file
from ann_benchmarks.common.text import DAMAGE, clean_text, from_json, plain, reason_of

from .monitor import CLOSE_SECONDS, Recording, Sample, Stretch

GROUP = "monitoring"
LONGEST_SECONDS = 1e12
LONGEST_NAME = 200
_WORTH_COMPRESSING = 256  # samples; the index of a compressed dataset takes more than fewer do
_UNITS = {"_bytes": "bytes", "_percent": "%", "_seconds": "s", "_sessions": "sessions"}
_CPU = tuple(f"machine.{name}_percent" for name in ("cpu", "iowait", "steal", "busiest_core"))


@dataclass(frozen=True)
class Monitored:
    """Columns of equal length: `seconds`, `phase` (numbers into `phases`), and each counter by its name."""

    seconds: np.ndarray
    phase: np.ndarray
    phases: list[str]
    starts: list[int]  # the first sample of each time that a phase was entered
    columns: dict[str, np.ndarray]
    units: dict[str, str]
    attrs: dict[str, Any] = field(default_factory=dict)

    def stretches(self) -> list[tuple[str, slice]]:
        """Return each phase, from its begin to its end, with its samples."""
        ends = [*self.starts[1:], len(self.seconds)]
        return [
            (self.phases[self.phase[start]], slice(start, end))
            for start, end in zip(self.starts, ends, strict=True)
        ]


def monitored(recording: Recording) -> Monitored | None:
    """Make rates of what was counted, without counters that stayed 0; None if there is nothing."""
    stretches = [stretch for stretch in recording.stretches if stretch.seconds >= CLOSE_SECONDS]
    if not stretches:
        return None
    phases = list(dict.fromkeys(stretch.phase for stretch in stretches))
    rows = [row for stretch in stretches for row in _rows(stretch)]
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: np.array([row.get(name, np.nan) for row in rows], np.float32) for name in names}
    columns = {name: column for name, column in columns.items() if np.nan_to_num(column).any()}
    levels = {name for stretch in stretches for sample in stretch.samples for name in sample.levels}
    samples = [(sample, stretch) for stretch in stretches for sample in stretch.samples]
    return Monitored(
        np.array([sample.seconds for sample, _ in samples], np.float64),
        np.array([phases.index(stretch.phase) for _, stretch in samples], np.int8),
        phases,
        [0, *accumulate(len(stretch.samples) for stretch in stretches[:-1])],
        columns,
        {name: unit_of(name, name not in levels) for name in columns},
        {**recording.facts, "monitoring_cpu_seconds": recording.cpu_seconds},
    )


def unit_of(name: str, is_rate: bool) -> str:
    """Return the unit that a counter's name tells, a second where it is a rate."""
    unit = next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")
    if not is_rate or unit == "%":
        return unit
    return f"{unit or '1'}/s"


def _rows(stretch: Stretch) -> list[dict[str, float]]:
    first, *others = stretch.samples
    rows = [dict(first.levels)]
    for before, sample in zip(stretch.samples, others, strict=False):
        rows.append({**sample.levels, **_rates(before, sample)})
    return rows


def _rates(before: Sample, sample: Sample) -> dict[str, float]:
    seconds = sample.seconds - before.seconds
    if seconds <= 0:
        return {}
    differences = {
        name: total - before.totals[name] for name, total in sample.totals.items() if name in before.totals
    }
    # Less than before: it was counted anew, as by a server that has been restarted.
    rates = {name: value / seconds for name, value in differences.items() if value >= 0}
    if sample.cores is not None and before.cores is not None and sample.cores.shape == before.cores.shape:
        used = np.maximum(sample.cores - before.cores, 0)
        if (used[:, 3] > 0).all():
            of_all = 100 * used.sum(axis=0) / used[:, 3].sum()
            busiest = float((100 * used[:, 0] / used[:, 3]).max())
            rates |= dict(zip(_CPU, map(float, (*of_all[:3], busiest)), strict=True))
    return rates


def group_writer(what: Monitored) -> Callable[[h5py.Group], None]:
    """Return what fills the group."""

    def write(group: h5py.Group) -> None:
        group.attrs.update(what.attrs, phases=json.dumps(what.phases), starts=json.dumps(what.starts))
        options = {"compression": "gzip", "shuffle": True} if len(what.seconds) > _WORTH_COMPRESSING else {}
        group.create_dataset("seconds", data=what.seconds, **options)
        group.create_dataset("phase", data=what.phase, **options)
        for name, column in what.columns.items():
            group.create_dataset(name, data=column, **options).attrs["unit"] = what.units[name]

    return write


def monitored_json(what: Monitored) -> dict[str, Any]:
    """Return it as JSON can hold it, six digits of each number, and None for what is not known."""
    return {
        "seconds": what.seconds.round(3).tolist(),
        "phase": what.phase.tolist(),
        "phases": what.phases,
        "starts": what.starts,
        "columns": {name: list(map(_short, column.tolist())) for name, column in what.columns.items()},
        "units": what.units,
        "attrs": what.attrs,
    }


def monitored_from(content: Any) -> Monitored:
    """Return what `monitored_json` was given; UserError where it is something else."""
    try:
        columns: dict[str, np.ndarray] = {
            name: np.array([np.nan if value is None else value for value in column], np.float32)
            for name, column in content["columns"].items()
        }
        seconds, phase = np.array(content["seconds"], np.float64), np.array(content["phase"], np.int8)
        names, starts = content["phases"], content["starts"]
        return _checked(Monitored(seconds, phase, names, starts, columns, content["units"], content["attrs"]))
    except DAMAGE as error:
        raise UserError(f"what was sampled cannot be read: {reason_of(error)}") from None


def _checked(found: Monitored) -> Monitored:
    """Return what was sampled; ValueError where its parts do not fit together."""
    arrays = [found.seconds, found.phase, *found.columns.values()]
    samples = len(found.seconds)
    if any(array.shape != (samples,) or array.dtype.kind not in "fiu" for array in arrays):
        raise ValueError("its columns do not fit together")
    if not np.isfinite(found.seconds).all() or not (np.abs(found.seconds) < LONGEST_SECONDS).all():
        raise ValueError("its seconds are not all finite")
    if not all(map(_is_name, (*found.phases, *found.columns, *found.units.values()))):
        raise ValueError("a phase, a counter or a unit has no name that can be written")
    if samples and not 0 <= found.phase.min() <= found.phase.max() < len(found.phases):
        raise ValueError("a phase is not known")
    edges = [*found.starts, samples]
    if edges[0] != 0 or any(type(a) is not int or a >= b for a, b in pairwise(edges)):
        raise ValueError("its phases do not begin one after the other")
    return found


def _short(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def read_monitoring(path: Path) -> Monitored | None:
    """Read what was sampled for a point; None if nothing was. UserError where the file cannot be read."""
    try:
        with open_hdf5_file(path) as file:
            if GROUP not in file:
                return None
            group = file[GROUP]
            columns = {name: _column(file, group[name]) for name in group}
            seconds, phase = columns.pop("seconds"), columns.pop("phase")
            attrs = {name: plain(_value(value)) for name, value in group.attrs.items()}
            phases, starts = (from_json(attrs.pop(name), list[Any]()) for name in ("phases", "starts"))
            units = {name: clean_text(group[name].attrs.get("unit", "")) for name in columns}
            return _checked(Monitored(seconds, phase, phases, starts, columns, units, attrs))
    except DAMAGE as error:
        raise UserError(f"{path} cannot be read: {reason_of(error)}") from None


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and len(text) <= LONGEST_NAME and "$" not in text  # "$" begins a formula


def _column(file: h5py.File, column: h5py.Dataset) -> np.ndarray:
    if problem := lacking(file, column) or (None if fits_in_memory(column) else "does not fit into memory"):
        raise ValueError(f"'{column.name}' {problem}")
    values: np.ndarray = column[()]
    return values


def _value(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value

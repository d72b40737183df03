"""A bundle: a folder with results, a report, true neighbours and a manifest, and nothing private.

An HDF5 file is written anew: one that is changed in place keeps the old texts in its unused space.
"""

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.common import VERSION
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import open_regular
from ann_benchmarks.common.hdf5 import open_hdf5_file
from ann_benchmarks.common.text import DAMAGE, reason_of
from ann_benchmarks.results.file import RESULTS_FOLDER
from ann_benchmarks.results.records import Record, read_record
from ann_benchmarks.results.runs import Run, measure
from ann_benchmarks.results.truth import Truths

from .contents import README, readme, write_truths
from .files import EXPERIMENT, PRICES, files_in, members_of, sha256_of
from .manifest import MANIFEST, OPEN, BundledFile, Manifest, read_manifest, write_manifest
from .private import Private


@dataclass(frozen=True)
class BundleRequest:
    """A requested bundle: its folder, and what only its author can say of it.

    `experiment` and `prices` are files that go into it.
    """

    folder: Path
    contact: str = ""
    division: str = OPEN
    experiment: Path | None = None
    mini: bool = False
    prices: Path | None = None


@dataclass
class Bundle:
    """A bundle that is being written into `place`. `names` are the results' paths in it."""

    place: Path
    private: Private
    names: dict[Path, str] = field(default_factory=dict)

    def copy_results(
        self, runs: Iterable[Run], records: Iterable[Record]
    ) -> tuple[dict[Path, Run], dict[Path, Record]]:
        """Copy result files and records; return what the copies say.

        Each is found by the path of the original, and lies in the bundle. UserError if a copy has other
        figures than its original.
        """
        runs, records = list(runs), list(records)
        paths = [*(run.path for run in runs), *(record.path for record in records)]
        for name in {path.parts[-4] for path in paths}:
            if self.private.text(name) != name:
                raise UserError(
                    f"the name of the dataset {name} says who or where you are: rename the dataset"
                )
        for path in dict.fromkeys(paths):
            name = self.private.name(Path(RESULTS_FOLDER, *path.parts[-4:]).as_posix())
            if (self.place / name).exists():
                raise UserError(f"{path} and another result would be one file, {name}: leave one out")
            copy_file(path, self.place / name, self.private)
            self.names[path] = name
        truths = {dataset: Truths(dataset) for dataset in sorted({run.dataset for run in runs})}
        return (
            {run.path: self._same(run, truths[run.dataset]) for run in runs},
            {
                record.path: replace(read_record(self.place / self.names[record.path]), path=record.path)
                for record in records
            },
        )

    def _same(self, run: Run, truths: Truths) -> Run:
        """Return what the copy of a result says, at its original's path; UserError if its figures differ."""
        copy = measure(self.place / self.names[run.path], run.dataset, truths)
        if json.dumps(copy.metrics, sort_keys=True) != json.dumps(run.metrics, sort_keys=True):
            raise UserError(f"{run.path} has other figures than before: add --recompute")
        environment = self.private.text(run.series.environment)
        return replace(copy, series=copy.series.replaced(environment=environment), path=run.path)

    def finish(self, request: BundleRequest, title: str, experiment: str | None, target: float,
               outcomes: Sequence[Run | Record]) -> None:  # fmt: skip
        """Write all but the results and the report, the manifest last.

        `outcomes` are what the copies say; `experiment` is the name of one.
        """
        filters: dict[str, set[str]] = {one.dataset: set() for one in outcomes}
        for one in outcomes:
            filters[one.dataset].add(one.series.filter)
        for source, name in ((request.experiment, EXPERIMENT), (request.prices, PRICES)):
            if source is not None:
                copy_file(source, self.place / name, self.private)
        datasets = {name: write_truths(self.place, name, filters[name]) for name in sorted(filters)}
        manifest = Manifest(
            title=self.private.text(title),
            made=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            division=request.division,
            target_recall=target,
            experiment=None if experiment is None else self.private.text(experiment),
            mini=request.mini,
            contact=request.contact,
            project_version=VERSION,
            datasets=datasets,
            left_out=self.private.left_out,
        )
        (self.place / README).write_text(readme(manifest), encoding="utf-8")
        paths = {name: self.place / name for name in files_in(self.place) if name != MANIFEST}
        files = {name: BundledFile(sha256_of(path), path.stat().st_size) for name, path in paths.items()}
        write_manifest(self.place, replace(manifest, files=files))


def copy_file(source: Path, target: Path, private: Private) -> None:
    """Copy a result, a record of a workload or another text; UserError where it cannot be read."""
    try:
        if source.suffix == ".hdf5":
            with open_hdf5_file(source) as file:
                content = hdf5_content(file, private)
        elif source.suffix == ".json":
            value = json.loads(source.read_text(encoding="utf-8"))
            content = (json.dumps(private.value(value)) + "\n").encode()
        else:
            with open_regular(source) as file:
                content = private.text(file.read().decode(errors="replace")).encode(errors="replace")
    except (UserError, *DAMAGE) as error:
        raise UserError(f"{source} cannot be copied into the bundle: {reason_of(error)}") from None
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


def hdf5_content(found: h5py.File, private: Private, has_numbers: bool = True) -> bytes:
    """Return a file without private texts, and with or without its arrays of numbers."""
    content = io.BytesIO()
    # Attributes over 64 KiB need the format of HDF5 1.8.
    with h5py.File(content, "w", libver=("earliest", "v108")) as made:
        for name, member in members_of(found):
            new_name = "/".join(private.text(part) for part in name.split("/")) or "/"
            if isinstance(member, h5py.Group):
                copied = made.require_group(new_name)
            elif member.dtype.kind in "biuf":
                if has_numbers:
                    found.copy(member, made, name=new_name, without_attrs=True)
                else:
                    made[new_name] = 0
                copied = made[new_name]
            elif h5py.check_string_dtype(member.dtype):
                copied = made.create_dataset(new_name, data=_remove_private(member[()], private))
            else:
                raise UserError(f"'{name}' holds neither numbers nor texts")
            _copy_attributes(member, copied, private)
    return content.getvalue()


def _copy_attributes(found: Any, made: Any, private: Private) -> None:
    for name, value in found.attrs.items():
        is_text = isinstance(value, str)
        made.attrs[private.text(name)] = (
            private.member(name, value) if is_text else _remove_private(value, private)
        )


def _remove_private(value: Any, private: Private) -> Any:
    """Return what HDF5 holds, numbers as they are; texts in the same number."""
    if isinstance(value, bytes):
        text = value.decode(errors="replace")
        changed = private.value(text)
        return value if changed == text else changed
    if isinstance(value, np.ndarray) and value.dtype.kind in "OS":
        texts = [_remove_private(one, private) for one in value.ravel().tolist()]
        texts = [one.decode(errors="replace") if isinstance(one, bytes) else one for one in texts]
        return np.array(texts, dtype=h5py.string_dtype()).reshape(value.shape)
    return private.value(value) if isinstance(value, str) else value


def bundle_files(folder: Path) -> set[str] | None:
    """Return the names of the files of the bundle in a folder, None without one."""
    try:
        return {MANIFEST, *read_manifest(folder).files}
    except UserError:
        return None

"""Describe one's own vectors where they lie, for sets too large to copy."""

from pathlib import Path

import yaml

from ann_benchmarks.common.atomic import atomic_path
from ann_benchmarks.common.disk import disk_errors
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.distance import METRICS

from ..vectors import open_source, source_files
from . import DATA_FOLDER, dataset_path, description_path
from .own import check_name
from .registry import read_description
from .truth import truth_path

_MANY_ARRAYS = (".hdf5", ".h5", ".npz")


def create_in_place(name: str, train: str, test: str, metric: str, force: bool = False) -> None:
    """Write data/NAME.yml, which names the files; UserError if vectors and queries do not fit together.

    A description that says the same is left as it is, so that an interrupted command can be given again.
    """
    if metric not in METRICS:
        raise UserError(f"unknown metric '{metric}'; use one of {', '.join(METRICS)}")
    vectors, queries = open_source(train), open_source(test)
    if vectors.shape[1] != queries.shape[1]:
        raise UserError(
            f"{queries.label} has {queries.shape[1]} dimensions but {vectors.label} has {vectors.shape[1]};"
            " queries and training vectors must have the same"
        )
    train_files, test_files = _whole_files(train), _whole_files(test)
    if len(test_files) > 1:
        raise UserError(f"{test} is several files; the queries must be one")
    description = {
        "distance": metric,
        "rows": vectors.shape[0],
        "dimension": vectors.shape[1],
        "queries": queries.shape[0],
        "train": [str(path.absolute()) for path in train_files],
        "test": str(test_files[0].absolute()),
    }
    path, text = description_path(name), yaml.safe_dump(description, sort_keys=False)
    if path.exists() and path.read_text() == text and not force:
        return
    check_name(name, force)
    with disk_errors(path), atomic_path(path) as temporary:
        temporary.write_text(text)
    read_description(path).converted().unlink(missing_ok=True)
    for replaced in (truth_path(name, DATA_FOLDER), dataset_path(name)):
        replaced.unlink(missing_ok=True)


def _whole_files(text: str) -> list[Path]:
    files, key = source_files(text)
    if key or files[0].suffix in _MANY_ARRAYS:
        raise UserError(f"{text} is one array of a file; --in-place takes whole files: leave it out to copy")
    return files

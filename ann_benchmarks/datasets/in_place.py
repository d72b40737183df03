"""Describe one's own vectors where they lie, for sets too large to copy."""

import yaml

from ..atomic import atomic_path
from ..distance import METRICS
from ..errors import UserError
from ..vectors import open_source, source_files
from . import DATA_FOLDER, description_path
from .own import check_name
from .truth import truth_path


def create_in_place(name: str, train: str, test: str, metric: str, force: bool = False) -> None:
    """Write data/NAME.yml, which names the files; UserError if vectors and queries do not fit together."""
    check_name(name, force)
    path = description_path(name)
    if path.exists() and not force:
        raise UserError(f"{path} exists; choose another --name, or add --force to replace it")
    if metric not in METRICS:
        raise UserError(f"unknown metric '{metric}'; use one of {', '.join(METRICS)}")
    vectors, queries = open_source(train), open_source(test)
    if vectors.shape[1] != queries.shape[1]:
        raise UserError(
            f"{queries.label} has {queries.shape[1]} dimensions but {vectors.label} has {vectors.shape[1]};"
            " queries and training vectors must have the same"
        )
    (train_files, train_key), (test_files, test_key) = source_files(train), source_files(test)
    if len(test_files) > 1:
        raise UserError(f"{test} is several files; the queries must be one")
    if train_key or test_key:
        raise UserError(
            f"--in-place takes whole files; leave out ':{train_key or test_key}', or copy the vectors"
        )
    description = {
        "distance": metric,
        "rows": vectors.shape[0],
        "dimension": vectors.shape[1],
        "queries": queries.shape[0],
        "train": [str(path.absolute()) for path in train_files],
        "test": str(test_files[0].absolute()),
    }
    truth_path(name, DATA_FOLDER).unlink(missing_ok=True)
    with atomic_path(path) as temporary:
        temporary.write_text(yaml.safe_dump(description, sort_keys=False))

"""Write vectors of any format as one NPY file, which every other program reads."""

from pathlib import Path

from ann_benchmarks.common.errors import UserError

from ..vectors import Rows, convert, open_source
from . import DATA_FOLDER, canonical_name, described, is_present, make_dataset
from .parts import Parts, PartsDataset
from .truth import read_truth, truth_path

TYPES = ("float16", "float32", "uint8", "int8")


def convert_source(source: str, output: Path | None, dtype: str | None, force: bool) -> Path:
    """Convert a file, a pattern of files, or the vectors of a dataset, whose copy is used from then on.

    Returns the path of the NPY file. Raises UserError when it is there already, or cannot be made.
    """
    name = canonical_name(source)
    entry = None if Path(source).exists() else described(name)
    if entry is None:
        rows = open_source(source)
        if output is None:
            raise UserError("--convert FILE needs --output FILE.npy")
        path = output
    elif not isinstance(entry, Parts):
        raise UserError(
            f"'{name}' is one HDF5 file, which is read as it is; to convert it anyway, name the file"
        )
    elif dtype is not None:
        raise UserError("--dtype is for files: other numbers would be another dataset")
    else:
        path = output or entry.converted()
    if path.suffix != ".npy":
        raise UserError(f"{path} must end in .npy")
    if path.exists() and not force:
        raise UserError(f"{path} is there already; --force replaces it")
    if isinstance(entry, Parts):
        rows = _original_rows(name, entry)
    convert(rows, path, dtype)
    if isinstance(entry, Parts) and output is None and truth_path(name, DATA_FOLDER).exists():
        with entry.open() as copied:  # the same vectors, in files that look different
            copied.keep_truth(read_truth(truth_path(name, DATA_FOLDER)))
    return path


def _original_rows(name: str, entry: Parts) -> Rows:
    """Open the vectors as they were before any conversion."""
    if not is_present(name):
        make_dataset(name)
    gone = [path for path in entry.original_files() if not path.exists()]
    if gone:
        raise UserError(f"{gone[0]} is not there: the copy that was converted is the only one")
    with PartsDataset(entry, DATA_FOLDER, entry.original_files()) as dataset:
        if entry.neighbors or truth_path(name, DATA_FOLDER).exists():
            dataset.truth()  # its ids are those of the original files, which may be deleted afterwards
        return dataset.train_rows()

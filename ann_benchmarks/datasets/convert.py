"""Write vectors of any format as one NPY file, which every other program reads."""

from pathlib import Path

from ..errors import UserError
from ..vectors import convert, open_source
from . import canonical_name, described, get_dataset
from .parts import Parts, PartsDataset

TYPES = ("float16", "float32", "uint8", "int8")


def convert_source(source: str, output: Path | None, dtype: str | None, force: bool) -> Path:
    """Convert a file, a pattern of files, or the vectors of a dataset, whose copy is used from then on.

    Returns the path of the NPY file. Raises UserError when it is there already, or cannot be made.
    """
    name = canonical_name(source)
    entry = None if Path(source).exists() else described(name)
    if entry is not None and not isinstance(entry, Parts):
        raise UserError(
            f"'{name}' is one HDF5 file, which is read as it is; to convert it anyway, name the file"
        )
    if entry is None and output is None:
        raise UserError("--convert FILE needs --output FILE.npy")
    path = output or entry.converted()  # type: ignore[union-attr]
    if path.suffix != ".npy":
        raise UserError(f"{path} must end in .npy")
    if path.exists() and not force:
        raise UserError(f"{path} is there already; --force replaces it")
    if entry is None:
        convert(open_source(source), path, dtype)
        return path
    if force and output is None:
        path.unlink(missing_ok=True)  # or it would be its own source
    dataset = get_dataset(name)[0]
    with dataset:
        assert isinstance(dataset, PartsDataset)
        if entry.neighbors:
            dataset.truth()  # its ids are those of the original files, which may be deleted afterwards
        convert(dataset.train_rows(), path, dtype)
    return path

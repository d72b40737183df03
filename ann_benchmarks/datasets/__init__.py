"""Datasets by name: a file under data/, made or downloaded on first use."""

import difflib
from pathlib import Path

from ..errors import UserError
from .file import Dataset as Dataset
from .registry import REGISTRY, find_entry

DATA_FOLDER = Path("data")  # in the current folder, as in ann-benchmarks


def dataset_path(name: str) -> Path:
    """Where the file of a dataset is or would be."""
    return DATA_FOLDER / f"{name}.hdf5"


def present_names() -> list[str]:
    """Names of the datasets whose files are there."""
    return sorted(path.stem for path in DATA_FOLDER.glob("*.hdf5") if not path.name.startswith("."))


def dataset_names() -> list[str]:
    """Every registered name and those in data/; of the endless clustered family only what is there."""
    return sorted({*REGISTRY, *present_names()})


def make_dataset(name: str) -> Path:
    """Make or download a dataset even if it is there; return its path. UserError if the name is unknown."""
    entry = find_entry(name)
    if entry is None:
        raise _unknown(name)
    path = dataset_path(name)
    entry.make(path)
    return path


def get_dataset(name: str) -> tuple[Dataset, int]:
    """Open a dataset, making or downloading it first if need be; also its dimension.

    Raises UserError when the name is unknown, the dataset cannot be had or its file is damaged.
    """
    path = dataset_path(name)
    if name != Path(name).name or not path.exists():
        make_dataset(name)
    dataset = Dataset(path)
    return dataset, dataset.attrs["dimension"]


def _unknown(name: str) -> UserError:
    close = difflib.get_close_matches(name, dataset_names(), n=3)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return UserError(
        f"unknown dataset '{name}'; {hint}'python create_dataset.py --list' names them all and "
        "'python create_dataset.py --name NAME --train FILE' makes one from your vectors"
    )

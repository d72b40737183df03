"""Find the true neighbours of a dataset's queries, and keep them beside it."""

from functools import partial
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError

from ..ground_truth import ground_truth
from ..vectors import Rows
from . import canonical_name, get_dataset
from .dataset import DATA_FOLDER, Dataset
from .truth import TrueNeighbors, agreement, read_truth, truth_path


def find_truth(name: str, count: int, scheduler: str | None = None, force: bool = False) -> str:
    """Write data/NAME.truth.h5 with the `count` nearest rows of every query; return one line about it.

    An interrupted run goes on where it stopped. With `scheduler`, the address of a Dask cluster whose workers
    see the same files, the cluster does the work.
    """
    name = canonical_name(name)
    path = truth_path(name, DATA_FOLDER)
    stored = read_truth(path).neighbors.shape[1] if path.exists() and not force else 0
    if stored >= count:
        raise UserError(f"{path} has {stored} true neighbours a query already; --force finds them again")
    with get_dataset(name)[0] as dataset:
        metric = str(dataset.attrs["distance"])
        rows: Any = dataset.train() if dataset.attrs["type"] == "sparse" else dataset.train_rows()
        state = DATA_FOLDER / f".{name}.truth.partial"
        opener = partial(_train_of, type(dataset), _absolute(dataset)) if scheduler else None
        files = [(path.stat().st_size, path.stat().st_mtime_ns) for path in dataset.train_files]
        mark = f"{dataset.mark()} {files}"  # what was found in files that have changed since is not used
        found = TrueNeighbors(
            *ground_truth(metric, rows, dataset.test(), count, state, mark, scheduler, opener)
        )
        dataset.keep_truth(found)
        state.unlink(missing_ok=True)
        return f"{path} has the {count} nearest rows of each query{_compared(found, dataset)}"


def _compared(found: TrueNeighbors, dataset: Dataset) -> str:
    try:
        published = dataset.published_truth()
    except UserError:  # ids of original files that were deleted after a conversion
        return ""
    if published is None:
        return ""
    if published.distances is None:
        published = dataset.with_distances(published.neighbors)
    share = agreement(found, published)
    return f"; {share:.4%} of those that came with the data are among them or as near"


def _absolute(dataset: Dataset) -> tuple[Any, ...]:
    """What opens the dataset on another machine, where the current folder is another."""
    parts = getattr(dataset, "parts", None)
    if parts is not None:
        return parts, dataset.data.absolute()
    return (Path(dataset.train_files[0]).absolute(),)


def _train_of(kind: Any, arguments: tuple[Any, ...]) -> Rows:
    if len(arguments) == 1:
        arguments = (*arguments, "angular")  # of an old file that does not say; only the rows are used
    rows: Rows = kind(*arguments).train_rows()
    return rows

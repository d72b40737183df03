"""The whole way from rows to centroids."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .algorithms import by_faiss, hierarchical, lloyd
from .bars import Bars
from .devices import open_device
from .errors import ClusteringError
from .faiss_device import Faiss
from .levels import add_coarser_levels
from .settings import Clustering, Settings
from .state import State, question, state_file
from .task import Task, Use


def cluster(
    rows: Any,
    settings: Settings,
    folder: Path | None = None,
    progress: bool | None = None,
    finish: Callable[[Clustering], object] = lambda result: None,
) -> Clustering:
    """Find centroids for rows, (n, dimension), of which slices are read; see Settings.

    `folder`: where a sample too large for memory is kept, and what the same call goes on from after an
    interruption; both are gone in the end. None: a temporary folder, and no going on. `progress`: show bars;
    None: on a terminal only. `finish` is given the result first: if that fails, all is kept to go on from.
    Raises ClusteringError.
    """
    count = _sample_rows(rows, settings)
    device = open_device(settings)
    try:
        with _place(folder) as place:
            state = State(folder, question(rows, settings))
            task = Task(rows, count, settings, device, state, place, Bars(progress))
            try:
                result = _result(task)
            except ClusteringError:
                task.remove_files()
                raise
            finish(result)
            task.remove_files()
            return result
    except MemoryError:
        raise ClusteringError(
            "memory has run out: give a smaller sampling_factor, or less memory for the sample"
        ) from None
    finally:
        device.close()


def _sample_rows(rows: Any, settings: Settings) -> int:
    if len(rows.shape) != 2 or not rows.shape[1] or np.dtype(rows.dtype).kind not in "fiu":
        raise ClusteringError(
            f"rows have the shape {tuple(rows.shape)} and are {rows.dtype}: (rows, dimension) of numbers "
            "were expected"
        )
    count, lists = int(rows.shape[0]), settings.lists[-1]
    if lists > count:
        raise ClusteringError(f"{lists:,} lists for {count:,} rows: give fewer")
    return min(count, lists * settings.sampling_factor)


@contextmanager
def _place(folder: Path | None) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="clustering-") as temporary:
            yield Path(temporary)
        return
    is_ours = not folder.exists() or state_file(folder).exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ClusteringError(f"the folder {folder} cannot be made: {error.strerror}") from None
    try:
        yield folder
    finally:
        if is_ours and not any(folder.iterdir()):
            folder.rmdir()


def _result(task: Task) -> Clustering:
    task.draw()
    lists = task.settings.lists
    if isinstance(task.device, Faiss):
        found, history = by_faiss(task, task.device)
        levels = [found.centroids]
    elif len(lists) > 1:
        found, history = hierarchical(task)
        levels = [task.state.values["groups"], found.centroids]
    else:
        found, history = (lloyd if task.settings.algorithm == "lloyd" else hierarchical)(task)
        levels = [found.centroids]
    add_coarser_levels(levels, lists, task.device, task.kmeans(Use.LEVELS))
    return Clustering(
        centroids=np.concatenate(levels) + task.sample.shift,
        lists=list(lists),
        sizes=found.counts,
        inertia=found.inertia,
        history=history,
        sample_rows=task.count,
        seconds=task.state.seconds,
        device=task.device.label,
    )

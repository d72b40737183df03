"""The whole way from rows to centroids."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from . import machine
from .algorithms import by_faiss, hierarchical, levels_above, lloyd
from .cpu import Cpu, Faiss
from .device import Device
from .gpu import Gpu
from .libraries import open_cupy, open_torch
from .settings import Clustering, ClusteringError, Settings
from .state import ClusteringState, identity, state_file
from .task import ClusteringTask


def cluster(
    rows: Any,
    settings: Settings,
    folder: Path | None = None,
    progress: bool | None = None,
    finish: Callable[[Clustering], object] = lambda result: None,
) -> Clustering:
    """Find centroids for rows, (n, dimension), which are read in slices; see Settings.

    `folder`: holds a sample too large for memory, and the state that the same call resumes from after an
    interruption; both are removed in the end. None: a temporary folder, and no resuming. `progress`: show
    bars; None: on a terminal only. `finish` receives the result first: if it fails, the state is kept.
    Raises ClusteringError.
    """
    count = _sample_rows(rows, settings)
    device = open_device(settings)
    try:
        with _place(folder) as place:
            state = ClusteringState(folder, identity(rows, settings))
            task = ClusteringTask(rows, count, settings, device, state, place, progress)
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


def open_device(settings: Settings) -> Device:
    """Return the device that the settings name; ClusteringError says what it lacks."""
    threads = settings.threads or machine.cores()
    if settings.device == "cpu":
        return Cpu(threads)
    if settings.device == "faiss":
        if settings.algorithm != "lloyd":
            raise ClusteringError(
                f"device 'faiss' has no {settings.algorithm} k-means: use lloyd, or device cpu"
            )
        return Faiss(threads)
    openers = {"torch": open_torch, "cupy": open_cupy}
    problems = []
    for name in openers if settings.device == "gpu" else (settings.device,):
        try:
            return Gpu(openers[name](), settings.device_memory)
        except ClusteringError as error:
            problems.append(str(error))
    raise ClusteringError("; ".join(problems))


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


def _result(task: ClusteringTask) -> Clustering:
    task.draw()
    settings, levels = task.settings, []
    if isinstance(task.device, Faiss):
        found, history = by_faiss(task, task.device)
    elif len(settings.lists) > 1:
        found, history = hierarchical(task)
        levels = [task.state.values["groups"]]
    else:
        found, history = (lloyd if settings.algorithm == "lloyd" else hierarchical)(task)
    levels.append(found.centroids)
    return Clustering(
        centroids=np.concatenate([*levels_above(task, levels), *levels]) + task.sample.shift,
        lists=list(settings.lists),
        sizes=found.counts,
        inertia=found.inertia,
        history=history,
        sample_rows=task.count,
        seconds=task.state.seconds,
        device=task.device.label,
    )

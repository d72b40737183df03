"""Result files and true distances with known metrics, for the tests of plots, tables and pages."""

import json
import os
import re
from pathlib import Path
from unittest import mock

import h5py
import numpy as np

from ann_benchmarks.data.datasets.truth_check import ALL, CheckedTruth, check_path, write_check
from ann_benchmarks.plotting import chart as drawing
from ann_benchmarks.plotting.draw import PlotRequest
from ann_benchmarks.views.curves import View, metric_chart


def request_of(dataset="d", output=None, **options):
    """Return what is to be plotted, with the options of the view among the others."""
    view = View(**{name: options.pop(name) for name in View.__dataclass_fields__ if name in options})
    return PlotRequest(dataset, output=None if output is None else Path(output), view=view, **options)


def draw_metrics(series, view, path, title=""):
    """Draw the frontiers of some points; return the number of points drawn."""
    chart = metric_chart(series, view, title)
    drawing.draw_chart(chart, path)
    return len(drawing.own_points(chart))


def figure_of(chart):
    """Return the figure that is made of a chart, which is not saved."""
    found = []
    with mock.patch.object(drawing, "save", lambda figure, path: found.append(figure)):
        drawing.draw_chart(chart, Path("unused.png"))
    return found[0]


def dump_json(runs):
    """Return what can be compared: nan is not equal to itself."""
    return json.dumps([run.dump() for run in runs])


def make_truth(name, metric="euclidean", queries=1000, neighbours=10, distances=None, folder=Path("data")):
    """Write a dataset whose true distances are 1, 2, 3... for every query; return them."""
    if distances is None:
        distances = np.tile(np.arange(1, neighbours + 1, dtype=np.float32), (queries, 1))
    folder.mkdir(parents=True, exist_ok=True)
    with h5py.File(folder / f"{name}.hdf5", "w") as file:
        file.attrs.update(distance=metric, dimension=2, point_type="float", type="dense")
        file["train"] = np.ones((20, 2), np.float32)
        file["test"] = np.ones((len(distances), 2), np.float32)
        file["neighbors"] = np.zeros(distances.shape, np.int32)
        file["distances"] = distances
    trust(folder / f"{name}.hdf5")
    return distances


def age(path, seconds=3600):
    """Make a file look older, with true neighbours that still count as checked."""
    os.utime(path, ns=(path.stat().st_mtime_ns - seconds * 10**9,) * 2)
    if path.parent.name == "data":
        trust(path)


def trust(path):
    """Have the true neighbours of a dataset count as checked, though they are made up."""
    write_check(check_path(path.stem, path.parent), [path], CheckedTruth(None, [], ALL, "made up"))


def make_result(
    dataset,
    algorithm,
    arguments,
    truth,
    recall,
    seconds,
    batch=False,
    count=10,
    distance="euclidean",
    **attrs,
):
    """Write a result, as ann-benchmarks does, with this share of true neighbours and seconds per query."""
    found = truth[:, :count].copy()
    wrong = round((1 - recall) * found.size)
    if wrong:
        found.ravel()[-wrong:] = np.inf
    folder = f"{algorithm}-batch" if batch else algorithm
    path = Path("results", dataset, str(count), folder, re.sub(r"\W+", "_", arguments) + ".hdf5")
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {
        "batch_mode": batch,
        "best_search_time": seconds,
        "candidates": float(count),
        "expect_extra": False,
        "name": f"{algorithm}({arguments})",
        "run_count": 3,
        "distance": distance,
        "count": count,
        "build_time": 12.5,
        "index_size": 2048.0,
        "algo": algorithm,
        "dataset": dataset,
        **attrs,
    }
    with h5py.File(path, "w") as file:
        file.attrs.update(values)
        file["times"] = np.full(len(found), seconds, np.float32)
        file["neighbors"] = np.ones(found.shape, np.int32)
        file["distances"] = found.astype(np.float32)
    return path

"""A pass of k-means takes at most 1.67 times its matrix product.

Rows are blobs of normally distributed float32 in memory, --share of which are sampled. First the sample is
drawn alone: its seconds, and how much the process has grown at most. Then come clusterings: seconds in all
and of the parts, and the inertia that float64 finds with their centroids, of all rows, over the stated one.
`product` multiplies the same tiles of rows with the same centroids, and does nothing else.
"""

import argparse
import math
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

from ann_benchmarks.algorithms.clustering.clustering import cluster
from ann_benchmarks.algorithms.clustering.devices import Device, Gpu, open_device
from ann_benchmarks.algorithms.clustering.kmeans import KMeans, Lists, draw_sample
from ann_benchmarks.algorithms.clustering.settings import DEVICES, Settings, cores

from .harness import Case, Figures, Goal, Row

GOAL = Goal("s", most=1 / 0.6)
OPTIONS = {
    "shapes": ["200000x96"],
    "lists": [1000],
    "device": {"default": "cpu", "choices": DEVICES},
    "share": {"default": 1.0, "help": "of the rows that are sampled"},
    "rounds": 3,
}
BLOCK = 1 << 15  # rows that are drawn, or measured in float64, at a time


def cases(args: argparse.Namespace) -> Iterator[Case | Row]:
    for shape in args.shapes:
        count, dimension = map(int, shape.split("x"))
        rows = made_rows(count, dimension, args.seed)
        for k in args.lists:
            title = f"{count:,} x {dimension}, {k:,} lists, {args.device}"
            factor = math.ceil(args.share * count / k)
            settings = Settings([k], sampling_factor=factor, device=args.device, memory=2**50)
            yield sampling(title, rows, settings)
            for _ in range(args.rounds):
                found = cluster(rows, settings)
                parts = {f"{name} s": seconds for name, seconds in found.parts.items()}
                exact = exact_inertia(rows, found.centroids, settings) / found.inertia
                figures = {
                    "s": found.seconds,
                    **parts,
                    "passes": len(found.history),
                    "inertia": found.inertia,
                }
                yield Row(title, {**figures, "float64's": f"{exact:.5f}"})
            with closing(open_device(settings)) as device:
                yield one_pass(title, rows[: math.ceil(args.share * count)], k, device)


def made_rows(count: int, dimension: int, seed: int) -> np.ndarray:
    """Draw rows around 1,000 centres, a block by each thread at a time."""
    centres = np.random.default_rng(seed).standard_normal((1000, dimension), np.float32)
    rows = np.empty((count, dimension), np.float32)

    def draw(start: int) -> None:
        rng, block = np.random.default_rng([seed, start]), rows[start : start + BLOCK]
        rng.standard_normal(out=block, dtype=np.float32)
        block += centres[rng.integers(1000, size=len(block))]

    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(draw, range(0, count, BLOCK)))
    return rows


def sampling(title: str, rows: np.ndarray, settings: Settings) -> Row:
    """Draw the sample alone; the process grows by the sample too, if it is not on a GPU."""
    device, process = open_device(settings), psutil.Process()
    count = min(len(rows), settings.lists[0] * settings.sampling_factor)
    before = process.memory_info().rss
    began = time.perf_counter()
    drawn = draw_sample(rows, count, settings, device, np.random.default_rng(0), lambda done: None)
    device.get(drawn[2])
    seconds = time.perf_counter() - began
    grown = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    device.close()
    figures = {"s": seconds, "sample MB": 4 * rows.shape[1] * count / 2**20, "grown MB": grown / 2**20}
    return Row(f"{title}: {count:,} rows drawn", figures)


def one_pass(title: str, rows: np.ndarray, k: int, device: Device) -> Case:
    """Compare a pass with the products that it makes."""
    here, centroids = device.put(rows), device.put(rows[:k].copy())
    kmeans = KMeans(device, here, here[0, 0], False, np.random.default_rng(0))
    lists = Lists(centroids, np.ones(len(centroids)), math.inf)
    ways = {"pass": lambda: kmeans.improve(lists), "product": product(device, here, centroids)}
    return Case(f"{title}: a pass", {name: timed(way, device) for name, way in ways.items()}, base="product")


def product(device: Device, rows: Any, centroids: Any) -> Callable[[], None]:
    """Prepare the products of all rows with all centroids; those of a CPU by BLAS's own threads."""
    size = max(1, min(device.tile // len(centroids), len(rows)))
    room = device.empty(size, len(centroids))

    def multiply() -> None:
        with threadpool_limits(cores(), user_api="blas"):
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                device.xp.matmul(part, centroids.T, out=room[: len(part)])

    return multiply


def timed(way: Callable[[], object], device: Device) -> Callable[[int], Figures]:
    def time_it(number: int = 0) -> Figures:
        began = time.perf_counter()
        way()
        if isinstance(device, Gpu):
            device.xp.cuda.synchronize()
        return {"s": time.perf_counter() - began}

    time_it()  # the first time is not like the others
    return time_it


def exact_inertia(rows: np.ndarray, centroids: np.ndarray, settings: Settings) -> float:
    """Return the mean squared distance of a row to the nearest centroid, computed in float64."""
    device, total = open_device(settings), 0.0
    xp, there = device.xp, device.put(centroids.astype(np.float64))
    halves = (there * there).sum(1) / 2
    for start in range(0, len(rows), BLOCK):
        block = xp.asarray(device.put(rows[start : start + BLOCK]), dtype=xp.float64)
        nearest = (block @ there.T - halves).argmax(1)
        total += float(((block - there[nearest]) ** 2).sum())
    device.close()
    return total / len(rows)

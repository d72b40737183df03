"""A pass of k-means takes at most 1.67 times its matrix product.

Rows are blobs of normally distributed float32 in memory. `product` multiplies the same tiles of rows with the
same centroids, and does nothing else.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ann_benchmarks.algorithms.clustering.devices import Device, Gpu, open_device
from ann_benchmarks.algorithms.clustering.kmeans import KMeans, Lists
from ann_benchmarks.algorithms.clustering.settings import DEVICES, Settings, cores

from .harness import Case, Figures, Goal

GOAL = Goal("s", most=1 / 0.6)
OPTIONS = {
    "shapes": ["200000x96"],
    "lists": [1000],
    "device": {"default": "cpu", "choices": DEVICES},
    "rounds": 3,
}
BLOCK = 1 << 15  # rows that are drawn at a time


def cases(args: argparse.Namespace) -> Iterator[Case]:
    for shape in args.shapes:
        count, dimension = map(int, shape.split("x"))
        rows = made_rows(count, dimension, args.seed)
        for k in args.lists:
            title = f"{count:,} x {dimension}, {k:,} lists, {args.device}: a pass"
            with closing(open_device(Settings([k], device=args.device, memory=2**50))) as device:
                yield one_pass(title, rows, k, device)


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


def one_pass(title: str, rows: np.ndarray, k: int, device: Device) -> Case:
    """Compare a pass with the products that it makes."""
    here, centroids = device.put(rows), device.put(rows[:k].copy())
    kmeans = KMeans(device, here, here[0, 0], False, np.random.default_rng(0))
    lists = Lists(centroids, np.ones(len(centroids)), math.inf)
    ways = {"pass": lambda: kmeans.improve(lists), "product": product(device, here, centroids)}
    return Case(title, {name: timed(way, device) for name, way in ways.items()}, base="product")


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

"""Bundles by their layout, with results of known recall, for tests of what is shown of them."""

import re

import h5py
import numpy as np
import pytest

from ann_benchmarks.fields.series import ATTRIBUTE, Series
from ann_benchmarks.results.file import truth_mark
from ann_benchmarks.submission.files import files_in, sha256_of
from ann_benchmarks.submission.manifest import (
    MANIFEST,
    BundledDataset,
    BundledFile,
    ClaimedPoint,
    Manifest,
    write_manifest,
)

from .bundle_data import set_arrays
from .plotting_data import make_result, make_truth

QUERIES = 100
MADE = "2026-01-31T12:00:00+00:00"
GB = 1 << 30
# Simulated servers: CPUs, GB of memory, disk, and how fast they are.
MACHINES = {"small": (2, 4, "gp3", 1), "medium": (8, 16, "gp3", 4), "large": (32, 64, "nvme", 12)}


def machine_attrs(name):
    """Return the attributes of results on a simulated server."""
    cpus, size, disk, _ = MACHINES[name]
    return {
        "tier": f"1GB:{size}GB",
        "tier_ram": size * GB,
        "tier_available": size * GB,
        "tier_shared_buffers": GB,
        "tier_method": "cgroup",
        "tier_disk": disk,
        "tier_cpus": cpus,
        "tier_iops": 3000,
        "table_size": 4e4,
        "cpu": "Some CPU",
        "cores": 64,
        "memory_bytes": 256 * GB,
        "postgres_version": "18.1 (Debian 18.1-1)",
    }


def put_result(folder, dataset, series, arguments, recall, qps, **attrs):
    """Write a result into a bundle; return its path in it."""
    with h5py.File(folder / "truth" / f"{dataset}.hdf5") as file:
        truth = file["distances"][()]
    bounds = {"qps_low": 0.9 * qps, "qps_high": 1.1 * qps, "recall_low": recall - 0.01, "recall_high": recall}
    attrs = {
        **bounds,
        "latency_p50": 1 / qps,
        "latency_p99": 3 / qps,
        "latency_queries": 10_000,
        "clients": series.clients or 1,
        "run_seconds": [1 / qps] * 3,
        **attrs,
        ATTRIBUTE: series.dump_json(),
    }
    attrs |= {"build_arguments": '["euclidean", {"M": 16}]', "algo": series.label}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        path = make_result(
            dataset, re.sub("[<>]", "_", series.folder), arguments, truth, recall, 1 / qps, **attrs
        )
        with h5py.File(path, "r+") as file:
            file.attrs["truth"] = truth_mark(truth)
        return str(path)


def begin_bundle(folder, dataset="d"):
    """Begin a bundle with the true distances of a dataset."""
    distances = make_truth(dataset, queries=QUERIES, folder=folder / "truth")
    rows = np.tile(np.arange(10, dtype=np.int32), (QUERIES, 1))
    set_arrays(folder / "truth" / f"{dataset}.hdf5", neighbors=lambda _: rows)
    (folder / "truth" / f"{dataset}.checked.json").unlink()
    if "--" in dataset:
        with h5py.File(folder / "truth" / f"{dataset}.hdf5", "r+") as file:
            file["matches"] = np.full(QUERIES, 10)
    return distances


def finish_bundle(folder, title, claimed=(), texts=None, **more):
    """Write the texts of a bundle by their paths, and its manifest."""
    for name, text in {"README.md": f"# {title}\n", "system.json": "{}\n", **(texts or {})}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    datasets = {}
    for path in (folder / "truth").glob("*.hdf5"):
        with h5py.File(path) as file:
            mark = truth_mark(file["distances"][()])
        if "--" not in path.stem:
            filters = [
                one.stem.partition("--")[2].replace("-", ":", 1)
                for one in path.parent.glob(f"{path.stem}--*")
            ]
            datasets[path.stem] = BundledDataset(20, 2, "euclidean", QUERIES, mark, filters)
    claims = [
        ClaimedPoint("d", "vchord", 10, False, 1, 0.96, 100.0, file, 90.0, 110.0, 9.9) for file in claimed
    ]
    files = {
        name: BundledFile(sha256_of(folder / name), (folder / name).stat().st_size)
        for name in files_in(folder)
        if name != MANIFEST
    }
    known = {"division": "published", "target_recall": 0.95, "datasets": datasets, "claims": claims, **more}
    write_manifest(folder, Manifest(title, MADE, files=files, **known))
    return folder


def make_bundle(folder, machine="small", title=None, algorithms=("pgvector_hnsw", "vchord"), **more):
    """Write the bundle of a simulated server: algorithms by clients and recalls, and one cold point."""
    begin_bundle(folder)
    attrs, claimed = machine_attrs(machine), []
    cpus, size, disk, speed = MACHINES[machine]
    tier = {
        "tier_method": "cgroup",
        "tier_cpus": cpus,
        "tier_disk": disk,
        "tier_memory": f"sb1GB-ram{size}GB",
    }
    for factor, algorithm in enumerate(algorithms, 1):
        versions = {"vector_version": "0.8.1"} | (
            {"vchord_version": "1.0.0"} if algorithm == "vchord" else {}
        )
        for clients in (1, 32):
            for recall in (0.9, 0.96):
                qps = 100 * factor * speed * clients**0.5 * (1.5 - recall)
                series = Series(algorithm, clients=clients, **tier)
                how = ("d", series, f"ef={recall}", recall, qps)
                file = put_result(folder, *how, **attrs, **versions)
                claimed += [file] if recall > 0.95 else []
        if algorithm == "vchord":
            series = Series(algorithm, clients=1, is_cold=True, **tier)
            put_result(folder, "d", series, "ef=0.96", 0.96, 7.0 * speed, **attrs, **versions)
    return finish_bundle(folder, title or f"A {machine} server", claimed, **more)

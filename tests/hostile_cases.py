"""Results that differ from a good one in one thing each: the cases of hostile_results.py."""
# ruff: noqa: E501 (tables of cases)

import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.results.attributes import ALL
from ann_benchmarks.results.file import truth_mark, write_result

from .plotting_data import make_truth
from .report_data import make_writes

SHARE = int(os.environ.get("ANN_BENCHMARKS_TEST_HOSTILE", "1"))  # how many times as many cases are tried
GOOD = Path("results/d/10/good/x.hdf5")
Make = Callable[[Path], None]  # makes a file from the good one that is there

ATTRIBUTES: dict[str, Any] = {
    "best_search_time": 0.001, "count": 10, "name": "HNSW(M=16)", "run_seconds": [0.001, 0.0011, 0.0012],
    "run_count": 3, "recall_low": 0.8, "recall_high": 0.95, "qps_low": 800.0, "qps_high": 1000.0,
    **{f"latency_p{p}{end}": 0.001 for p in (50, 95, 99, 999) for end in ("", "_low", "_high")},
    "build_time": 10.0, "index_build_time": 8.0, "load_time": 2.0, "index_size": 2048.0, "table_size": 4096,
    "estimated_index_size": 2000, "candidates": 10.0, "dist_comps": 5, "distance": "euclidean",
    "algo": "hnsw", "dataset": "d", "batch_mode": False, "expect_extra": False, "truth": "",
    "build_arguments": ["euclidean", {"M": 16}], "settings": {"work_mem": "4MB"},
    "plan": {"Node Type": "Limit", "Plans": [{"Node Type": "Index Scan", "Alias": "items"}]},
    "cpu": "a CPU", "cores": 2, "memory_bytes": 2**34, "kernel": "Linux", "python": "3", "disk": "a disk",
    "started_at": "2026-01-01T00:00:00+00:00", "command_line": "run.py", "vector_version": "0.8.0",
    "framework_version": "1", "version_names": {"vector": "pgvector"}, "docker_image": "a:b",
    "clients": 4, "loop": "open", "rate": 100.0, "objective": "p99:50ms", "driver": "own", "warmup": "auto",
    "query_order": "shuffled", "distinct_queries": 5, "tier": "1GB:2GB", "tier_method": "cgroup",
    "tier_ram": 2**31, "tier_available": 2**31, "tier_available_at_start": 2**31, "tier_cpus": 2,
    "tier_shared_buffers": 2**30, "tier_disk": "gp3", "tier_iops": 3000, "tier_bandwidth": 1e8,
    "tier_memory_series": "-sb1GB-ram2GB", "container_memory_bytes": 2**33, "shared_buffers": 2**30,
    "target_recall": 0.9, "target_parameter": "ef", "target_value": 40, "target_missed": 0.9,
    "runs_disagree": True, "graph_overflow_rows": 5, "build_notices": "a notice", "index_reused": True,
    "clients_were_limit": True, "warmup_settled": False, "warmup_seconds": 3.0, "queries_unanswered": 3,
    "queries_due": 100, "clients_all_busy_share": 0.5, "queries_counted": 50, "caches_dropped": False,
    "clients_late_seconds": 0.1, "service_p50": 0.1, "clients_waiting_share": 0.5, "client_cpu_share": 0.5,
    "server_cpu_seconds_per_query": 0.1, "index_blocks_read_per_query": 0.5, "wait_events": {"IO:x": 0.5},
    "workload": "", "series": {"algorithm": "hnsw"}, ALL: "",
}  # fmt: skip
# The rest is as it would be without a load: what says more is a case of its own.
LOADED = ("loop", "rate", "objective", "workload", ALL, "truth", "clients_were_limit")
DEEP = "[" * 20_000
VALUES: dict[str, Any] = {
    "text": "x", "no text": "", "number as text": "1e999", "script": "<script>alert(1)</script>",
    "formula": "=1+1", "control": "a\x1b[31m\r\nb\u2028", "mathtext": r"$\frac$ a_{$", "surrogate": "\udcff",
    "long": "x" * 50_000, "longer": "word " * 200_000, "nan": np.nan, "infinity": np.inf, "-infinity": -np.inf,
    "negative": -1, "zero": 0, "large": 1e308, "small": 5e-324, "largest int": 2**64 - 1, "bool": True,
    "half": 1.5, "empty": h5py.Empty("f"), "empty text": h5py.Empty("S1"), "no numbers": np.zeros(0),
    "numbers": np.array([1.0, 2.0]), "one number": np.array([3]), "matrix": np.ones((2, 2)), "nans": np.full(3, np.nan),
    "many": np.arange(500.0), "zeros": np.zeros(3), "texts": np.array(["a", "b"], object), "bytes": np.bytes_(b"\xff\xfe"),
    "opaque": np.void(b"abc"), "compound": np.array([(1, 2.0)], "i4,f4"), "complex": 1j, "long double": np.longdouble(1),
    "json null": "null", "json list": "[1, 2]", "json object": '{"a": {"b": [null]}}', "json nan": '{"a": NaN, "b": [1e999]}',
    "json number": "5", "json deep": DEEP, "json deep objects": '{"a":' * 900 + "1" + "}" * 900, "json nested": "[" * 700 + "]" * 700,
    "json integer": '{"a": ' + "9" * 4000 + "}", "json long integer": "9" * 5000,
    "json plan": '{"Node Type": [], "Plans": 5, "Alias": {}}', "json plans": '{"Plans": ["a", null, {"Plans": "x"}]}',
}  # fmt: skip
IN_JSON: dict[str, Any] = {
    **{name: value for name, value in VALUES.items() if isinstance(value, str | float | int)},
    "null": None, "list": [1, 2], "object": {"a": 1}, "no list": [], "strings": ["a"], "nested": [[[1]], {"a": []}],
    "integer": 10**400, "many": list(range(5000)), "none": [None, float("nan")],
}  # fmt: skip


def make_good(folder: Path, **more: Any) -> Path:
    """Write the data, and a result as run.py writes it, with what was sampled; return its path."""
    truth = make_truth("d", folder=folder / "data", queries=20)
    attrs = {name: value for name, value in ATTRIBUTES.items() if name not in LOADED}
    attrs |= {"truth": truth_mark(truth), "series": json.dumps({"algorithm": "hnsw", "clients": 4}), **more}

    def sampled(group: h5py.Group) -> None:
        group.attrs.update(phases='["build", "measure"]', starts="[0, 5]", panels='{"io": "I/O"}')
        group["seconds"], group["phase"] = np.arange(10.0), np.repeat([0, 1], 5).astype(np.int8)
        for name, unit in (("machine.cpu_percent", "%"), ("disk.sda.read_bytes", "bytes/s"), ("io.a", "1/s")):
            group[name] = np.arange(10, dtype=np.float32)
            group[name].attrs["unit"] = unit

    histogram = {"latency_histogram": np.ones(5, int), "latency_histogram_edges": np.geomspace(1e-6, 1, 6)}
    neighbors = np.arange(200).reshape(20, 10) % 20
    path = folder / GOOD
    write_result(path, attrs, np.full(20, 0.001), neighbors, truth, {**histogram, "monitoring": sampled})
    return path


def set_attribute(path: Path, name: str, value: Any) -> None:
    """Store an attribute by itself, as ann-benchmarks does, without the text of all."""
    with h5py.File(path, "r+", libver=("earliest", "v108")) as file:
        file.attrs.pop(ALL, None)
        if isinstance(value, str) and "\0" not in value:
            file.attrs.create(name, value.encode("utf-8", "surrogateescape"), dtype=h5py.string_dtype())
        elif isinstance(value, np.ndarray) and value.dtype == object:
            file.attrs.create(name, value, dtype=h5py.string_dtype())
        else:
            file.attrs[name] = value


def set_in_json(path: Path, name: str, value: Any) -> None:
    """Change an attribute in the text of all."""
    with h5py.File(path, "r+", libver=("earliest", "v108")) as file:
        found = json.loads(file.attrs[ALL])
        text = json.dumps(found | {name: value}) if name != ALL else json.dumps(value)
        file.attrs[ALL] = text


def attribute_cases() -> Iterator[tuple[str, Make]]:
    """Every attribute with every kind of value, by itself and in the text of all."""
    for name in (*ATTRIBUTES, "unknown", "x_version", "=cmd()", "a\nb"):
        for kind, value in VALUES.items():
            yield f"{name}: {kind}", lambda path, n=name, v=value: set_attribute(path, n, v)
        for kind, value in IN_JSON.items():
            yield f"{name} in JSON: {kind}", lambda path, n=name, v=value: set_in_json(path, n, v)


def replaced(name: str, make: Callable[[h5py.File], object]) -> Make:
    """Return what puts something else in an array's place."""

    def change(path: Path) -> None:
        with h5py.File(path, "r+", libver=("earliest", "v114")) as file:
            del file[name]
            made = make(file)
            if made is not None:
                file[name] = made

    return change


def _virtual(name: str, source: str) -> Callable[[h5py.File], None]:
    def make(file: h5py.File) -> None:
        shape = (20,) if name == "times" else (20, 10)
        layout = h5py.VirtualLayout(shape, "f4")
        layout[:] = h5py.VirtualSource(source, "x", shape)
        file.create_virtual_dataset(name, layout)

    return make


def array_values(name: str) -> dict[str, Callable[[h5py.File], object]]:
    """What can stand where an array of a result belongs."""
    shape: tuple[int, ...] = (20,) if name.startswith(("times", "lat", "mon")) else (20, 10)

    def made(**options: Any) -> Callable[[h5py.File], None]:
        return lambda file: file.create_dataset(name, **{"shape": shape, "dtype": "f4", **options}) and None

    def filtered(file: h5py.File) -> None:
        made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        made.set_chunk(shape)
        made.set_filter(32_015, h5py.h5z.FLAG_OPTIONAL, (1,))  # of which there is no plug-in here
        space = h5py.h5s.create_simple(shape)
        h5py.h5d.create(file.id, name.encode(), h5py.h5t.NATIVE_FLOAT, space, dcpl=made).write_direct_chunk(
            (0,) * len(shape), bytes(4 * int(np.prod(shape)))
        )

    vast = (10**15,) if len(shape) == 1 else (20, 10**14)
    good = np.full(shape, 0.5, np.float32)
    return {
        "nothing": lambda file: None,
        "text": lambda file: np.full(shape, b"abc"),
        "strings": lambda file: np.full(shape, "abc", object),
        "nan": lambda file: good * np.nan,
        "infinity": lambda file: good * np.inf,
        "negative": lambda file: -good,
        "large": lambda file: good.astype("f8") * 1e308,
        "int": lambda file: good.astype("i8") - 2**62,
        "huge int": lambda file: np.full(shape, 2**64 - 1, "u8"),
        "bool": lambda file: good > 0,
        "complex": lambda file: good * 1j,
        "long double": lambda file: good.astype("g"),
        "half": lambda file: good.astype("f2"),
        "big-endian": lambda file: good.astype(">f8"),
        "compound": lambda file: np.zeros(shape, "i4,f4"),
        "references": lambda file: np.full(shape, file.ref, h5py.ref_dtype),
        "scalar": lambda file: 1.0,
        "null": lambda file: h5py.Empty("f"),
        "three dimensions": lambda file: np.ones((2, 2, 2)),
        "one more": lambda file: np.ones([n + 1 for n in shape]),
        "no rows": lambda file: np.ones((0, *shape[1:])),
        "no columns": lambda file: np.ones((shape[0], 0)),
        "many": lambda file: np.ones((5000, *shape[1:]), "f4"),
        "group": lambda file: file.create_group(name) and None,
        "type": lambda file: np.dtype("f4"),
        "soft link": lambda file: h5py.SoftLink("/distances" if name != "distances" else "/neighbors"),
        "loop": lambda file: h5py.SoftLink(f"/{name}"),
        "dangling link": lambda file: h5py.SoftLink("/nowhere"),
        "external link": lambda file: h5py.ExternalLink("/etc/passwd", "/x"),
        "external file": lambda file: h5py.ExternalLink("../good/x.hdf5", f"/{name}"),
        "external storage": made(external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)]),
        "missing storage": made(external=[("nowhere.raw", 0, h5py.h5f.UNLIMITED)]),
        "virtual": _virtual(name, "nowhere.hdf5"),
        "virtual itself": _virtual(name, "."),
        "unwritten": made(),
        "unwritten chunks": made(chunks=shape),
        "vast": made(shape=vast, chunks=(1,) * (len(vast) - 1) + (1000,)),
        "vast, compressed": made(shape=vast, chunks=(1,) * (len(vast) - 1) + (1000,), compression="gzip"),
        "vast, unwritten": made(shape=vast),
        "vast times": made(shape=(10**15, *shape[1:])),
        "missing filter": filtered,
        "compressed": lambda file: file.create_dataset(name, data=good, compression="gzip") and None,
    }


ARRAYS = ("times", "neighbors", "distances", "latency_histogram", "latency_histogram_edges", "monitoring",
          "monitoring/seconds", "monitoring/phase", "monitoring/machine.cpu_percent", "monitoring/io.a")  # fmt: skip


def structure_cases() -> Iterator[tuple[str, Make]]:
    """Every array of a result with everything that can stand in its place."""
    for name in ARRAYS:
        for kind, make in array_values(name).items():
            yield f"{name} is {kind}", replaced(name, make)
    for place in ("monitoring", "monitoring/io.a"):
        for attribute in ("phases", "starts", "panels", "unit", "in_container"):
            for kind, value in VALUES.items():
                if not isinstance(value, np.ndarray) or value.dtype != object:
                    yield (
                        f"{place} {attribute}: {kind}",
                        lambda path, p=place, a=attribute, v=value: _inside(path, p, a, v),
                    )


def _inside(path: Path, place: str, attribute: str, value: Any) -> None:
    with h5py.File(path, "r+", libver=("earliest", "v108")) as file:
        if isinstance(value, str):
            value = value.encode("utf-8", "surrogateescape")
            file[place].attrs.create(attribute, value, dtype=h5py.string_dtype())
        else:
            file[place].attrs[attribute] = value


def byte_cases(number: int) -> Iterator[tuple[str, Make]]:
    """Files with some of their bytes changed, or cut."""

    def change(path: Path, seed: int) -> None:
        rng, content = random.Random(seed), bytearray(path.read_bytes())
        if seed % 10 == 0:
            del content[rng.randrange(len(content)) :]
        else:
            for _ in range(rng.choice((1, 1, 4, 40))):
                content[rng.randrange(len(content))] = rng.choice((0, 0xFF, rng.randrange(256)))
        path.write_bytes(content)

    for seed in range(number):
        yield f"bytes {seed}", lambda path, s=seed: change(path, s)


JSON_VALUES = (None, True, -1, 0, 1e308, float("nan"), float("inf"), 10**400, "x", "", "$\\frac$", [], [1, "a"], {}, {"a": 1},
               "x" * 100_000, [None], "=1+1", 0.5, [[[1]]], -0.5, "2026", list(range(3000)))  # fmt: skip


def record_cases() -> Iterator[tuple[str, Make]]:
    """A workload's record with every value in every place, and without each."""
    good = json.loads(json.dumps({"form": 1, **asdict(make_writes())}, default=str))
    good |= {"dataset": "d", "monitoring": None}
    del good["path"]
    good["windows"] = {name: values[:4] for name, values in good["windows"].items()}
    for place in _places(good):
        if not {"vacuumed"} & set(map(str, place)) and len(place) < 5:
            for number, value in enumerate(JSON_VALUES):
                yield f"record {place}: {number}", lambda path, p=place, v=value: _record(path, good, p, v)
            yield f"record without {place}", lambda path, p=place: _record(path, good, p, KeyError)
    for text in (
        DEEP,
        "[]",
        "null",
        "",
        "{",
        '{"form": 1}',
        "\xff",
        '{"form": 1, "phases": [[]]}',
        "9" * 5000,
    ):
        yield f"record is {text[:20]}", lambda path, t=text: path.write_text(t, encoding="latin-1")
    yield "record is a pipe", lambda path: (path.unlink(), os.mkfifo(path))[1]
    yield "record is a folder", lambda path: (path.unlink(), path.mkdir())[1]
    yield "record has no end", lambda path: (path.unlink(), path.symlink_to("/dev/zero"))[1]


def _places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    )
    for key, below in inner:
        yield (*here, key)
        yield from _places(below, (*here, key))


def _record(path: Path, good: dict[str, Any], place: tuple[Any, ...], value: Any) -> None:
    content = json.loads(json.dumps(good))
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    if value is KeyError:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    path.write_text(json.dumps(content))


def sampled(cases: list[Any], number: int, seed: int) -> list[Any]:
    """Return some of the cases, or as many times more as are asked for."""
    return random.Random(seed).sample(cases, min(number * SHARE, len(cases)))


def every_case(bytes_changed: int = 300) -> list[tuple[str, Make]]:
    """All cases."""
    return [*attribute_cases(), *structure_cases(), *byte_cases(bytes_changed), *record_cases()]

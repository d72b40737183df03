"""Samples of a dataset: what is in them, when they are drawn again, and the experiments that measure them."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.commands import choose
from ann_benchmarks.commands.choose import requested_sizes
from ann_benchmarks.commands.run import every_job
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import row_count
from ann_benchmarks.data.datasets import dataset_path, get_dataset, make_sample, sample_name, sampled
from ann_benchmarks.data.datasets.catalog import dataset_table
from ann_benchmarks.data.datasets.own import OwnVectors, create_own, store_index
from ann_benchmarks.data.datasets.registry import find_entry
from ann_benchmarks.data.datasets.write import write_sets
from ann_benchmarks.distance import candidate_distances
from ann_benchmarks.experiments.carrying_out import step_request
from ann_benchmarks.experiments.report import report_experiment, report_of
from ann_benchmarks.experiments.schema import Options, find_experiment, read_experiment
from ann_benchmarks.run.command_line import make_parser

from .postgres_fixtures import clustered
from .programs import call_program
from .report_data import make_run

pytestmark = pytest.mark.usefixtures("empty_folder")
ROWS = 4000


def make_mine(metric: str = "angular", seed: int = 1, force: bool = False, rows: int = ROWS) -> None:
    """Make the dataset `mine`, with 20 queries of its own."""
    values = np.random.default_rng(seed).standard_normal((rows + 20, 8)).astype(np.float32)
    np.save("mine.npy", values > 0 if metric == "hamming" else values)
    create_own("mine", OwnVectors("mine.npy", metric, queries=20), 100, force)


def content(name: str) -> tuple[np.ndarray, np.ndarray]:
    with get_dataset(name)[0] as dataset:
        return np.array(dataset.train()), np.array(dataset.test())


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks of 100 rows, so that a sample is read in several."""
    monkeypatch.setattr("ann_benchmarks.data.datasets.samples.BLOCK_BYTES", 100 * 8)
    yield


@pytest.mark.parametrize("metric", ["angular", "ip", "hamming"])
def test_samples_are_nested_and_have_the_queries_and_neighbours_of_their_own(metric: str, small_blocks: None):
    make_mine(metric)
    whole, queries = content("mine")
    inside = {row.tobytes(): number for number, row in enumerate(whole)} if metric != "hamming" else {}
    before: set[int] = set(range(ROWS))
    for part in (2, 4):
        make_sample("mine", part)
        rows, same = content(f"mine-1of{part}")
        assert rows.dtype == whole.dtype and rows.shape == (ROWS // part, 8)
        np.testing.assert_array_equal(same, queries)
        if inside:
            numbers = [inside[row.tobytes()] for row in rows]
            assert numbers == sorted(set(numbers)) and set(numbers) < before
            assert max(numbers) > 0.9 * ROWS > 0.1 * ROWS > min(numbers)
            before = set(numbers)
        every = candidate_distances(metric, queries, rows, np.tile(np.arange(len(rows)), (20, 1)))
        with get_dataset(f"mine-1of{part}")[0] as sample, get_dataset("mine")[0] as of:
            np.testing.assert_array_equal(
                sample["neighbors"], np.argsort(every, axis=1, kind="stable")[:, :100]
            )
            np.testing.assert_array_equal(sample["distances"], np.sort(every, axis=1)[:, :100])
            kept = ("distance", "dimension", "point_type", "type")
            assert {key: sample.attrs[key] for key in kept} == {key: of.attrs[key] for key in kept}


def test_a_sample_is_drawn_again_when_its_dataset_was_made_anew():
    make_mine()
    make_sample("mine", 4)
    first, path = content("mine-1of4")[0], dataset_path("mine-1of4")
    there = path.stat().st_ino, path.stat().st_mtime_ns
    make_sample("mine", 4)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == there
    assert call_program("create_dataset.py", "--ground-truth", "mine-1of4", "--force").returncode == 0
    make_mine(seed=2, force=True)
    make_sample("mine", 4)
    assert not np.array_equal(first, content("mine-1of4")[0])
    with get_dataset("mine-1of4")[0] as sample:
        sample.truth()  # the truth of the former rows is gone
    shutil.rmtree("data")  # drawn where it is missing, if its dataset can be had
    with get_dataset("clustered-4k-8-ip-1of4")[0] as sample:
        assert sample.rows == 1000 and "clustered-4k-8-ip-1of4" in dataset_table()


def test_names_of_samples():
    for name, part in (("mine", 8), ("clustered-100k-96-euclidean", 1024), ("a-1of8", 2), ("mine", 1)):
        assert sampled(sample_name(name, part)) == (name, part)
    for name in ("mine-1of1", "mine-1of08", "mine-1of2000", "-1of8", "mine-2of8"):
        assert sampled(name) == (name, 1)
    assert sample_name("mine", 1) == "mine" and find_entry("clustered-100k-96-euclidean-1of8") is None


@pytest.mark.parametrize(
    ("name", "part", "message"),
    [
        ("mine", 5, "mine has 4,000 rows: a sample of one in 5 needs at least 5,000"),
        ("sets", 2, "sets has sets, and samples need vectors: choose another dataset"),
        ("mine-1of2", 2, "mine-1of2 is a sample itself; draw samples of mine"),
        ("mine", 3, "mine-1of3 must be a sample of mine; move what has this name out of data/"),
        ("other", 2, "unknown dataset 'other'"),
    ],
)
def test_what_no_sample_can_be_drawn_of(name: str, part: int, message: str):
    make_mine()
    shutil.copy(dataset_path("mine"), dataset_path("mine-1of3"))
    sets = [np.arange(number, number + 3) for number in range(200)]
    write_sets(dataset_path("sets"), "jaccard", 210, sets[10:], sets[:10])
    with pytest.raises(UserError, match=re.escape(message)):
        make_sample(name, part)


def test_names_of_samples_are_kept_for_them():
    np.save("v.npy", np.ones((10, 2)))
    given = ("--name", "my-1of8", "--train", "v.npy", "--distance", "ip", "--force")
    refused = call_program("create_dataset.py", *given)
    assert refused.returncode == 1
    assert refused.stderr == "error: 'my-1of8' is kept for a sample of 'my'; choose another --name\n"


STEPS = """\
title: Two sizes
text: of one dataset
steps:
- name: half
  sample: 2
  run: {algorithm: bruteforce-numpy, runs: 1, target-recall: 0.9}
- name: whole
  run: {algorithm: bruteforce-numpy, runs: 1}
"""


def test_a_step_with_a_sample(monkeypatch: pytest.MonkeyPatch):
    make_mine()
    Path("small.yml").write_text(STEPS)
    words = ("--local", "--experiment", "small.yml", "--dataset", "mine")
    planned = call_program("run.py", *words, "--dry-run")
    assert planned.returncode == 0 and "dataset mine-1of2 is not present: it is made" in planned.stdout
    assert not dataset_path("mine-1of2").exists()
    done = call_program("run.py", *words)
    assert done.returncode == 0 and "--local --dataset mine-1of2" in done.stdout, done.stderr
    assert "The answer for mine," in done.stdout and "The answer for mine-1of2" not in done.stdout
    _, report = report_of("small.yml", False, make_parser(), words[-2:], every_job)
    assert [[run.dataset for run in chapter.runs] for chapter in report.chapters] == [["mine-1of2"], ["mine"]]
    store_index("mine", "pgvector_hnsw", {"M": 5})
    step, _ = read_experiment(find_experiment("small.yml"), False, Options(make_parser())).steps
    assert step_request(step, make_parser(), words[-2:]).own_index == ("pgvector_hnsw", {"M": 5})
    Path("small.yml").write_text(STEPS.replace("  sample: 2\n", ""))
    with pytest.raises(UserError, match="--rows is for an experiment whose steps have samples"):
        report_experiment([*words, "--rows", "1m"], make_parser(), every_job)


def test_verified_sizes_differ_in_their_samples_alone():
    options = Options(make_parser())
    for is_mini in (False, True):
        plain, verified = (
            read_experiment(find_experiment(name), is_mini, options).steps
            for name in ("sizes", "sizes-verified")
        )
        assert [10 * step.sample for step in plain] == [step.sample for step in verified[:-1]]
        assert (verified[-1].name, verified[-1].sample) == ("verified", 1)
        assert {repr((step.arguments, step.groups)) for step in plain} == {
            repr((step.arguments, step.groups)) for step in verified
        }


@pytest.mark.parametrize(
    ("rows", "given", "message"),
    [
        (8000, ("8000,1m", None), "--rows must be more than the 8,000 rows of the dataset"),
        (7990, ("1m", None), "--rows needs a dataset of 8,000 rows, to draw samples: mine has 7,990"),
        (8000, ("1m", "10k"), "--verify-at must be at most the 8,000 rows of the dataset"),
        (8000, ("1m", "8k"), "--verify-at needs a dataset of 80,000 rows, to draw samples: mine has 8,000"),
        (8000, ("", "8k"), "--verify-at is for predictions: add --rows"),
        (80_000, ("8000,1m", "80k"), "--rows must be more than the 8,000 rows of a tenth of its rows"),
    ],
)
def test_rows_that_cannot_be_predicted(rows: int, given: tuple[str, str | None], message: str):
    make_mine("ip", rows=rows)
    shutil.copy(dataset_path("mine"), dataset_path("mine-1of2"))
    with pytest.raises(UserError, match="--rows needs a dataset that is not a sample itself: give mine"):
        requested_sizes("mine-1of2", [10**6], None)
    sizes = [row_count(text) for text in filter(None, given[0].split(","))]
    with pytest.raises(UserError, match=re.escape(message)):
        requested_sizes("mine", sizes, given[1] and row_count(given[1]))


def test_samples_are_measured_in_the_faster_form(monkeypatch: pytest.MonkeyPatch):
    rates = {"pgvector_hnsw": (100, 101), "pgvector_hnsw_halfvec": (150, 151), "vchord": (300, 301)}
    runs = [make_run(family=name, rates=known) for name, known in rates.items()]
    monkeypatch.setattr(choose, "load_runs", lambda paths: runs)
    chosen = Options(make_parser()).parse(["--dataset", "mine"])
    assert choose.faster_forms("mine", chosen) == ["pgvector_hnsw_halfvec", "vchord"]
    runs.clear()
    assert choose.faster_forms("mine", chosen) == ["pgvector_hnsw", "vchord"]


def test_numbers_of_rows():
    texts = {"500k": 500_000, "1.5m": 1_500_000, "2_000_000": 2_000_000, "1B": 10**9, "10": 10}
    assert {text: row_count(text) for text in texts} == texts
    for text in ("", "0", "1.5", "-1m", "1g", "1__0", "many", "2000b", "9" * 70, "1e6", "٣"):
        with pytest.raises(UserError, match="must be a number of rows, such as 500k, 10m or 2_000_000"):
            row_count(text)


@pytest.mark.thorough
def test_choose_measures_the_samples_that_predictions_need():
    np.save("my.npy", clustered(8100, 8))
    small = ("--mini", "--clients", "1", "--warmup", "10", "--rounds", "1", "--queries", "50")
    said = call_program("choose.py", "my.npy", *small, "--rows", "100k,10m")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "wrote reports/choose-mini/report.html" in said.stdout
    assert "wrote reports/sizes-mini/report.html" in said.stdout
    report = Path("reports/sizes-mini/report.md").read_text()
    for name in ("my-1of8", "my-1of4", "my-1of2", "my"):
        assert list(Path(f"results/{name}/10").glob("pgvector_hnsw*/*.hdf5")), name
        assert f"--dataset {name}" in report
    again = call_program("report.py", "--local", "--experiment", "sizes", "--mini", "--dataset", "my",
                         *("--clients", "1", "--warmup", "10", "--rounds", "1", "--rows", "1m"))  # fmt: skip
    assert again.returncode == 0 and "not measured yet" not in again.stdout, again.stdout + again.stderr

"""What makes plots of many results fast: what is imported, what is read, and by how many processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ann_benchmarks.results import runs
from ann_benchmarks.results.cache import each
from ann_benchmarks.results.file import iter_result_paths, read_result
from ann_benchmarks.results.runs import load_runs

from .plotting_data import age, dump_json, make_result, make_truth
from .programs import ROOT, has_ended, until

HEAVY = "docker psycopg pyarrow requests sklearn distributed pandas"


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Twenty results of two datasets; one of them is damaged."""
    monkeypatch.chdir(tmp_path)
    paths = []
    for name in ("d", "e"):
        truth = make_truth(name)
        paths += [make_result(name, f"algo{i % 3}", f"a{i}", truth, 0.05 * i, 1e-3) for i in range(10)]
    paths[4].write_bytes(paths[4].read_bytes()[:1000])
    return paths


def imported(module):
    """The packages that a fresh Python has after importing a module."""
    script = f"import sys, {module}; print(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    return {name.split(".")[0] for name in output.stdout.split()}


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("ann_benchmarks.results.runs", f"{HEAVY} matplotlib jinja2"),
        ("ann_benchmarks.commands.create_website", f"{HEAVY} matplotlib"),
        ("ann_benchmarks.commands.plot", f"{HEAVY} jinja2"),
        ("ann_benchmarks.commands.create_dataset", f"{HEAVY} matplotlib jinja2"),
    ],
)
def test_nothing_is_imported_that_is_not_used(module, unwanted):
    there = imported(module)
    assert "numpy" in there
    assert not there & set(unwanted.split())


# --- processes ---


@pytest.mark.parametrize("processes", [2, 3, 12])
def test_any_number_of_processes_gives_the_same(results, capfd, processes):
    alone = list(load_runs(iter_result_paths(), recompute=True, processes=1))
    said = capfd.readouterr().err
    assert len(alone) == 19
    again = load_runs(iter_result_paths(), recompute=True, processes=processes)
    assert dump_json(again) == dump_json(alone)
    assert capfd.readouterr().err == said
    assert said.count("skipped results/d/10/algo1/a4.hdf5") == said.count("\n") == 1


def test_forks_compute_and_what_they_computed_is_cached(results, monkeypatch):
    for path in [*results, *Path("data").iterdir()]:
        age(path)
    here = os.getpid()
    measured = runs.measured

    def only_in_forks(path, truths):
        assert os.getpid() != here
        return measured(path, truths)

    monkeypatch.setattr(runs, "measured", only_in_forks)
    cold = list(load_runs(iter_result_paths("e"), processes=2))
    monkeypatch.setattr(runs, "measured", lambda path, truths: 1 / 0)
    assert dump_json(load_runs(iter_result_paths("e"))) == dump_json(cold)
    assert len(cold) == 10


def test_values_come_in_the_order_of_their_items_and_large_ones_whole():
    values = each(lambda item: bytes([item]) * 300_000, range(20), 3)
    assert [(value[0], len(value)) for value in values] == [(item, 300_000) for item in range(20)]


def test_what_a_killed_fork_leaves_is_computed_here():
    here = os.getpid()

    def dies(item):
        if os.getpid() != here and item == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return item, os.getpid() == here

    values = list(each(dies, range(12), 2))
    assert [item for item, _ in values] == list(range(12))
    assert [item for item, is_here in values if is_here] == [3, 5, 7, 9, 11]


def children():
    """Processes of this one; those of other tests, as a server, stay until the session ends."""
    return {child.pid for child in psutil.Process().children()}


def test_an_exception_in_a_fork_is_raised_here():
    before = children()
    with pytest.raises(ZeroDivisionError):
        list(each(lambda item: 1 // (item - 5), range(12), 2))
    assert children() == before


def test_forks_end_when_their_values_are_no_longer_wanted():
    before = children()
    values = each(lambda item: bytes(100_000), range(100), 2)
    next(values)
    assert len(children() - before) == 2
    values.close()
    assert children() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_forks_end_with_their_parent(number, tmp_path):
    script = """
import sys, time
from ann_benchmarks.common.cli import run_command
from ann_benchmarks.results.cache import each
def slow(item):
    time.sleep(0.05)
    return item
def main():
    for value in each(slow, range(10_000), 3):
        print(value, flush=True)
run_command(main)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "0\n"
    forked = psutil.Process(process.pid).children()
    # Ctrl-C reaches all processes of a terminal.
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    _, said = process.communicate(timeout=60)
    assert "Traceback" not in said
    assert len(forked) == 3
    until(lambda: all(map(has_ended, forked)))


# --- what is read ---


def test_neighbors_are_not_read_for_metrics(results):
    path = results[1]
    whole, without = read_result(path), read_result(path, with_neighbors=False)
    assert whole.neighbors.shape == (1000, 10)
    assert without.neighbors.size == 0
    assert without.distances.tolist() == whole.distances.tolist()
    assert without.attrs == whole.attrs

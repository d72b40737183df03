"""Damaged and forged results are set aside with one line, and all others are still shown.

This is a sample, of which ANN_BENCHMARKS_TEST_HOSTILE is the factor.
"""

import contextlib
import csv
import json
import shutil
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import h5py
import numpy as np
import pytest

from ann_benchmarks.commands import compare, create_website, data_export, plot, report
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.text import DEEPEST, LONGEST_REASON, from_json, reason_of, shortened
from ann_benchmarks.monitoring import read_monitoring
from ann_benchmarks.results.attributes import MOST
from ann_benchmarks.results.file import damage, read_attributes, read_more, read_result
from ann_benchmarks.results.records import SUFFIX, read_record
from ann_benchmarks.results.runs import load_runs

from .hostile_cases import (
    GOOD,
    VALUES,
    Make,
    array_values,
    every_case,
    make_good,
    replaced,
    sampled,
    set_attribute,
    set_in_json,
)

pytestmark = pytest.mark.thorough

GROUP = 40  # files that a command reads at once
COMMANDS: dict[str, tuple[Callable[[], object], list[str]]] = {
    "plot": (plot.main, ["--dataset", "d", "-o", "plot.svg"]),
    "plot --tiers": (plot.main, ["--dataset", "d", "-o", "tiers.png", "--tiers"]),
    "plot --monitoring": (plot.main, ["--monitoring", "ONE", "-o", "monitoring.png"]),
    "report": (report.main, ["--dataset", "d"]),
    "site": (create_website.main, ["--outputdir", "site", "--latex"]),
    "export": (data_export.main, ["--output", "out.csv"]),
    "compare": (compare.main, ["before", "."]),
    "compare markdown": (compare.main, ["before", ".", "--format", "markdown", "--at-recall", "0.1"]),
    "list": (compare.main, ["--list"]),
}


def run_main(command: str, one: Path | None = None) -> None:
    """Run a command in the current folder and this process; anything but its own message is an exception."""
    main, arguments = COMMANDS[command]
    sys.argv = [f"{command.split()[0]}.py", *(str(one) if word == "ONE" else word for word in arguments)]
    with contextlib.suppress(UserError, SystemExit):
        main()


def lay(folder: Path, cases: Sequence[tuple[str, Make]]) -> dict[Path, str]:
    """Make results of these cases, next to a good one and with good ones in `before`; return their names."""
    good, names = make_good(folder), {}
    for number, (name, make) in enumerate(cases):
        is_record = name.startswith("record")
        path = folder / f"results/d/10/h{number}/x{SUFFIX if is_record else '.hdf5'}"
        before = folder / "before" / path.relative_to(folder).with_name("x.hdf5")
        for place in (path, before):
            place.parent.mkdir(parents=True)
            shutil.copy(good, place)
        try:
            make(path)
            names[path] = name
        except (OSError, ValueError, TypeError, KeyError, RuntimeError, AttributeError):
            shutil.rmtree(path.parent)  # some libraries cannot make some cases
    return names


@pytest.fixture
def attack(tmp_path, monkeypatch) -> Callable[..., list[str]]:
    """What tries cases with commands, in this process; it returns how each failed, and on which cases."""

    def attacked(cases: Sequence[tuple[str, Make]], *commands: str) -> list[str]:
        found = []
        for start in range(0, len(cases), GROUP):
            folder = tmp_path / f"{start}"
            names = lay(folder, cases[start : start + GROUP])
            monkeypatch.chdir(folder)
            for command in commands:
                one_by_one = [[path] for path in names]
                for paths in one_by_one if "--monitoring" in command else [list(names)]:
                    try:
                        run_main(command, paths[0])
                    except Exception:
                        of = [names[path] for path in paths]
                        found.append(f"{command}: {of}: {traceback.format_exc()}")
        return found

    return attacked


NUMBERS = ("count", "best_search_time", "run_count", "recall_low", "run_seconds", "tier_available", "clients")
NO_NUMBERS = ("text", "number as text", "script", "texts", "matrix", "json deep", "opaque", "compound")


@pytest.fixture
def good(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_good(Path())
    return GOOD


def other(good: Path) -> Path:
    """Return a copy of the good result, in another series."""
    path = Path("results/d/10/hostile/x.hdf5")
    path.parent.mkdir()
    return Path(shutil.copy(good, path))


@pytest.mark.filterwarnings("ignore")
def test_no_command_fails_on_a_sample_of_hostile_results(attack):
    assert attack(sampled(every_case(30), 40, 4), "export", "list", "compare") == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("command", ["plot", "report", "site", "plot --monitoring"])
def test_what_is_drawn_leaves_hostile_results_out(attack, command):
    cases = [case for case in sampled(every_case(30), 400, 5) if "deep" in case[0]][:3]
    cases += [case for case in every_case(0) if case[0].startswith("times is ")][::10]
    of_phases = ("record ('phases', 1, 'name')", "monitoring starts")
    cases += [case for case in every_case(0) if case[0].startswith(of_phases)][::12]
    cases = cases[::3] if "--monitoring" in command else cases  # it reads them one by one
    assert attack(cases, command) == []


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_an_attribute_that_is_no_number_sets_a_result_of_ours_aside(good, name, kind):
    set_attribute(good, name, VALUES[kind])
    for read in (read_attributes, read_result):
        with pytest.raises(
            UserError, match=rf"x\.hdf5 is not a result: its attribute '{name}' is "
        ) as raised:
            read(good)
        assert len(str(raised.value)) < 250 and str(raised.value).isprintable()
    assert damage(good), "run.py measures it again"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_not_known(good, value):
    for name in ("recall_low", "latency_p50", "tier_available", "build_time"):
        set_attribute(good, name, value)
    attrs = read_attributes(good)
    assert not {"recall_low", "latency_p50", "tier_available", "build_time"} & set(attrs)
    set_attribute(good, "best_search_time", value)
    with pytest.raises(UserError, match="its attribute 'best_search_time' is not known"):
        read_attributes(good)


def test_what_others_call_by_our_names_is_left_out(good):
    with h5py.File(good, "r+") as file:
        del file.attrs["series"]
    set_attribute(good, "tier_ram", "much")
    assert "tier_ram" not in read_attributes(good)
    set_attribute(good, "build_time", "long")  # which ann-benchmarks has, too
    with pytest.raises(UserError, match="'build_time' is 'long' where a number is expected"):
        read_attributes(good)


def test_only_the_hostile_result_is_left_out_and_the_line_says_why(good, capsys):
    replaced("times", array_values("times")["strings"])(other(good))
    for command in COMMANDS:
        shutil.copytree("results", "before/results", dirs_exist_ok=True)
        run_main(command, good)
        said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("skipped")]
        if command != "plot --monitoring":
            assert said and all("'times' holds object" in line and "hostile" in line for line in said), (
                command
            )
    with Path("out.csv").open() as file:
        assert [row["algorithm"] for row in csv.DictReader(file)] == ["hnsw-c4"]


@pytest.mark.parametrize(
    "kind, reason",
    [
        ("vast", "'times' has 0 of 1,000,000,000,000 chunks"),
        ("vast, unwritten", "'times' has 0 of 4,000,000,000,000,000 bytes"),
        ("external link", "cannot be read|it has no times"),
        ("external file", "'times' is a link into another file"),
        ("external storage", "'times' lies in other files"),
        ("virtual", "'times' lies in other files"),
        ("unwritten", "'times' has 0 of 80 bytes"),
        ("unwritten chunks", "'times' has 0 of 1 chunks"),
        ("missing filter", "compressed by a filter that is not installed, 32015"),
        ("references", "'times' holds object"),
        ("group", "it has no times"),
        ("loop", "cannot be read|it has no times"),
        ("nan", "its times must be seconds"),
        ("negative", "its times must be seconds"),
    ],
)
def test_arrays_that_the_file_itself_does_not_hold_are_not_read(good, kind, reason):
    path = other(good)
    replaced("times", array_values("times")[kind])(path)
    with pytest.raises(UserError, match=reason):
        read_result(path, with_neighbors=False)


def test_neighbours_are_rows_or_none(good):
    replaced("neighbors", lambda file: np.full((20, 10), -2))(good)
    with pytest.raises(UserError, match="neighbours must be at least -1"):
        read_result(good)


def test_attributes_have_bounds(good):
    with h5py.File(good, "r+", libver=("earliest", "v108")) as file:
        del file.attrs["attributes"]
        for number in range(MOST):
            file.attrs[f"more_{number}"] = number
    with pytest.raises(UserError, match="it has 2,0.. attributes; the most that are read is 2,000"):
        read_attributes(good)


def test_json_of_others_has_bounds():
    deep = "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1)
    for text in (deep, "[" * 100_000, "9" * 5000, "{", "[1]", 5, None, b"\xff"):
        assert from_json(text, {"else": 1}) == {"else": 1}
    assert from_json('{"a\\n": [NaN, 1e999, 1e3], "b": ' + "9" * 400 + "}", {}) == {
        "a ": [None, None, 1000.0],
        "b": "9" * 400,
    }


def test_what_a_library_says_is_one_short_line():
    assert reason_of(ValueError("a\nb\x1b[31m" + "c" * 9000)).startswith(r"a b\x1b[31mccc")
    assert len(reason_of(ValueError("x" * 9000))) < LONGEST_REASON + 10
    assert reason_of(MemoryError()) == "MemoryError" and reason_of(OSError(2, "gone")) == "gone"
    assert shortened({"a": 1}) == "{'a': 1}"


def test_a_label_that_no_folder_can_have_sets_a_result_aside(good, capsys):
    path = other(good)
    set_in_json(path, "series", json.dumps({"algorithm": "x" * 300}))
    assert [run.algorithm for run in load_runs([path, good])] == ["hnsw-c4"]
    assert "the name of its series has 300 bytes" in capsys.readouterr().err


@pytest.mark.parametrize("starts", ["[]", "[0, 50]", "[5, 0]", "[-1]", "[0.5]", '["a"]'])
def test_phases_that_do_not_fit_are_not_drawn(good, starts):
    with h5py.File(good, "r+") as file:
        file["monitoring"].attrs["starts"] = starts
    with pytest.raises(UserError, match="its phases do not begin one after the other"):
        read_monitoring(good)


def test_a_histogram_that_is_no_numbers_is_no_histogram(good):
    replaced("latency_histogram", lambda file: np.full(5, b"a"))(good)
    with pytest.raises(UserError, match="'latency_histogram' holds"):
        read_more(good, "latency_histogram")
    assert read_more(good, "nothing") is None


def test_a_record_is_a_file_and_has_its_kinds(tmp_path):
    made = {name: make for name, make in every_case(0) if name.startswith("record")}
    path = tmp_path / "x.workload.json"
    for name in sampled(sorted(made), 150, 3):
        path.unlink(missing_ok=True) if not path.is_dir() else path.rmdir()
        path.touch()
        made[name](path)
        with contextlib.suppress(UserError):
            record = read_record(path)
            assert all(isinstance(phase.name, str) for phase in record.phases) and record.series.label
    for name in ("record is a pipe", "record has no end"):
        path.unlink() if not path.is_dir() else path.rmdir()
        path.touch()
        made[name](path)
        with pytest.raises(UserError, match="must be a file of less than"):
            read_record(path)

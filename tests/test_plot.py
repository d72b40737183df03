import json
import os
import re
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from ann_benchmarks.fields.series import Series
from ann_benchmarks.plotting.draw import draw as draw_picture
from ann_benchmarks.results import cache, runs
from ann_benchmarks.results.file import iter_result_paths
from ann_benchmarks.results.metrics import standard_metrics
from ann_benchmarks.results.runs import load_runs
from ann_benchmarks.views.curves import View
from ann_benchmarks.views.figures import LIGHT_COLORS, assign_styles, series_styles
from ann_benchmarks.views.points import Point

from .plotting_data import age, draw_metrics, dump_json, make_result, make_truth, request_of
from .programs import one_line

pytestmark = pytest.mark.filterwarnings("error", "ignore::ResourceWarning")

CACHE = Path("results/d/.metrics-cache.json")


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Three results of dataset d that are old enough to be cached."""
    monkeypatch.chdir(tmp_path)
    truth = make_truth("d")
    paths = [make_result("d", "algo", f"a{i}", truth, 0.7 + 0.1 * i, 1e-3 * 2**i) for i in range(3)]
    for path in [*paths, Path("data/d.hdf5")]:
        age(path)
    return paths


def load(**options):
    return list(load_runs(iter_result_paths(), **options))


def recalls(**options):
    return [round(run.metrics["recall"], 6) for run in load(**options)]


def forbid_reading(monkeypatch):
    def fail(path, **_):
        raise AssertionError(f"{path} was opened")

    monkeypatch.setattr(runs, "read_result", fail)


def draw(dataset="d", **options):
    draw_picture(request_of(dataset, **options))


# --- cache ---


def test_a_warm_cache_opens_no_result_file(results, monkeypatch):
    before = load()
    forbid_reading(monkeypatch)
    assert dump_json(load()) == dump_json(before)
    assert [run.metrics["recall"] for run in before] == pytest.approx([0.7, 0.8, 0.9])


@pytest.mark.parametrize("is_other_code", [False, True])
def test_recompute_and_other_code_read_the_files_again(results, monkeypatch, tmp_path, is_other_code):
    load()
    if is_other_code:
        changed = tmp_path / "metrics.py"
        changed.write_text("# another version")
        monkeypatch.setattr(cache.metrics, "__file__", str(changed))
    forbid_reading(monkeypatch)
    with pytest.raises(AssertionError, match="was opened"):
        load(recompute=not is_other_code)


@pytest.mark.parametrize("keep_times", [False, True])
def test_a_changed_result_is_computed_anew(results, keep_times):
    assert recalls() == [0.7, 0.8, 0.9]
    times = results[1].stat()
    make_result("d", "algo", "a1", make_truth("elsewhere"), 0.3, 2e-3)
    if keep_times:
        os.utime(results[1], ns=(times.st_atime_ns, times.st_mtime_ns))
        assert results[1].stat().st_size == times.st_size
    assert recalls() == [0.7, 0.3, 0.9]


def test_a_changed_truth_is_used(results):
    assert recalls() == [0.7, 0.8, 0.9]
    make_truth("d", distances=np.full((1000, 10), 0.5, np.float32))
    assert recalls() == [0, 0, 0]


def test_a_file_of_this_moment_is_not_cached(results):
    results[0].touch()
    load()
    entries = json.loads(CACHE.read_text())["entries"]
    assert sorted(entries) == [str(path) for path in results[1:]]


def test_entries_of_deleted_results_go_and_those_of_other_datasets_stay(results):
    other = make_result("e", "algo", "x", make_truth("e"), 0.5, 1e-3)
    age(other)
    age(Path("data/e.hdf5"))
    load()
    results[0].unlink()
    list(load_runs(iter_result_paths("d", 10)))
    assert sorted(json.loads(CACHE.read_text())["entries"]) == list(map(str, results[1:]))
    entries = json.loads(Path("results/e", CACHE.name).read_text())["entries"]
    assert list(entries) == [str(other)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"version": ',
        b"[]",
        b"\xff\x00",
        b'{"version": "VERSION", "entries": []}',
        b'{"version": "VERSION", "entries": {"results/d/10/algo/a0.hdf5": 3}}',
    ],
)
def test_a_broken_cache_is_replaced(results, content):
    load()
    version = json.loads(CACHE.read_text())["version"].encode()
    CACHE.write_bytes(content.replace(b"VERSION", version))
    assert recalls() == [0.7, 0.8, 0.9]
    assert len(json.loads(CACHE.read_text())["entries"]) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"metrics": {}},
        {"metrics": None},
        {"metrics": {"recall": 0.5}},
        {"metrics": dict.fromkeys(standard_metrics, "0.5")},
        {"series": None},
        {"series": {"name": "algo"}},
    ],
)
def test_a_cache_with_foreign_values_is_not_believed(results, change):
    load()
    content = json.loads(CACHE.read_text())
    first, second, _ = content["entries"].values()
    first["value"] |= change
    second["value"] = change
    CACHE.write_text(json.dumps(content))
    assert recalls() == [0.7, 0.8, 0.9]


def test_a_cache_that_cannot_be_written_is_no_error(results):
    CACHE.mkdir()
    assert recalls() == recalls() == [0.7, 0.8, 0.9]
    assert not list(Path("results").rglob(".*partial*"))


# --- results that cannot be used ---


def test_damaged_results_are_left_out_with_a_line_each(results, capsys):
    results[0].write_bytes(results[0].read_bytes()[:2000])
    results[1].write_bytes(b"not HDF5")
    make_result("d", "algo", "wide", make_truth("wide", neighbours=50), 1, 1e-3, count=50)
    make_result("d", "algo", "many", make_truth("many", queries=1300), 1, 1e-3)
    assert recalls() == [0.9]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    for line, name in zip(sorted(lines), ("10/algo/a0", "10/algo/a1", "10/algo/many", "50"), strict=True):
        assert line.startswith(f"skipped results/d/{name}") and line.count("results/d/") == 1


def test_results_without_dataset_are_named_once(results, capsys):
    for i in range(3):
        make_result("gone", "algo", f"x{i}", make_truth("d"), 1, 1e-3)
    assert len(load()) == 3
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and "data/gone.hdf5" in lines[0]


def test_a_damaged_dataset_is_named_once(results, capsys):
    Path("data/d.hdf5").write_bytes(b"not HDF5")
    assert load() == []
    assert len(capsys.readouterr().err.splitlines()) == 1


# --- the command ---


SERIES = {
    "curve": [Point(0.5, 3.0), Point(0.99, 2.0), Point(1.0, 1.0)],
    "one": [Point(0.9, 5.0)],
    "perfect": [Point(1.0, 1.5)],
}
SCALES = [(x, "log") for x in ("linear", "log", "symlog", "logit", "a2", "a3", "a5.5")]


@pytest.mark.parametrize(("x_scale", "y_scale"), [*SCALES, ("linear", "linear"), ("linear", "symlog")])
def test_every_scale_shows_every_series(x_scale, y_scale, tmp_path):
    output = tmp_path / "x.png"
    assert draw_metrics(SERIES, View(x_scale=x_scale, y_scale=y_scale), output) == 5
    picture = matplotlib.image.imread(output)[..., :3]
    in_axes = picture[:, : int(picture.shape[1] * 0.88)]  # without the legend
    for style in assign_styles(SERIES).values():
        color = LIGHT_COLORS[style.color]
        rgb = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        assert (np.abs(in_axes - rgb).max(axis=2) < 0.02).sum() > 30


def test_names_are_drawn_as_they_are(tmp_path):
    names = ["$\\frac{1$", "_hidden", "a$b$c", "<b>&amp;", "%s {} \\n", "line\nbreak", "日本", "", "x" * 300]
    series = {name: [Point(0.9, i + 1.0), Point(0.8, i + 2.0)] for i, name in enumerate(names)}
    for ending in ("svg", "pdf"):
        draw_metrics(series, View(), tmp_path / f"x.{ending}", title="$\\frac{$ _")
    labels = re.findall(r"<!-- (.*?) -->", (tmp_path / "x.svg").read_text(), re.DOTALL)
    assert {"$\\frac{1$", "_hidden", "a$b$c", "%s {} \\n"} <= set(labels)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": "nope"}, r"unknown dataset 'nope': there are results of d \(count 10\)"),
        ({"count": 5}, r"nothing to plot for d with count 5: there are results of d \(count 10\)"),
        ({"batch": True}, "nothing to plot: no batch result"),
        ({"x_scale": "a"}, "unknown x scale 'a': use linear"),
        ({"x_scale": "a-1"}, "unknown x scale"),
        ({"y_scale": "a3"}, "unknown y scale 'a3'"),
        ({"output": Path("x.doc")}, "must end in one of"),
        ({"output": Path("data/d.hdf5/x.png")}, "cannot write data/d.hdf5/x.png"),
    ],
)
def test_mistakes_are_one_line(results, options, message):
    with one_line(message):
        draw(**options)


# As in ann-benchmarks, whose scripts draw every pair of metrics, whatever the algorithm counts.
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"y": "distcomps"}, "every result has a 0 for recall or distcomps"),
        ({"x": "distcomps", "x_scale": "log"}, "the picture is empty"),
        (
            {"x": "qps", "y": "recall", "x_scale": "a3"},
            "the a3 scale is for values up to 1, which qps exceeds",
        ),
        ({"y_scale": "logit"}, "the y axis is linear"),
    ],
)
def test_what_a_scale_cannot_show_is_drawn_with_a_warning(results, capsys, options, said):
    draw(**options)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: ") and said in line
    assert Path("results/d.png").stat().st_size > 5000


@pytest.mark.parametrize(("x_scale", "y_scale"), [("logit", "log"), ("a3", "log"), ("linear", "logit")])
def test_shares_that_are_all_1_are_drawn_on_every_scale(tmp_path, capsys, x_scale, y_scale):
    view = View("recall", "epsilon", x_scale, y_scale)
    assert draw_metrics({"a": [Point(1.0, 1.0)]}, view, tmp_path / "a.svg") == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("output", "written"), [("picture", "picture.png"), ("results", "results/d.png")])
def test_an_output_without_ending_is_a_png_and_a_folder_is_written_into(results, capsys, output, written):
    draw(output=Path(output))
    assert written in capsys.readouterr().out and Path(written).exists()


# --- styles ---


def test_styles_stay_with_names_and_tell_series_apart():
    names = ["pgvector_hnsw", "pgvector_ivfflat", "vchord", "pgpu"]
    styles = assign_styles(names)
    assert styles == assign_styles(reversed(names))
    assert len({style.color for style in styles.values()}) == 4
    assert assign_styles(["only"])["only"] == assign_styles(["only", "zzz"])["only"]
    many = assign_styles(f"series {i}" for i in range(28))
    assert len(set(many.values())) == 28
    loads = [Series(name, clients=number) for name in names for number in (1, 8, 16)]
    of_series = series_styles(loads)
    assert {of_series[one.label].color for one in loads} == {style.color for style in styles.values()}
    assert all(of_series[one.label].color == of_series[one.name].color for one in loads)
    assert len({of_series[one.label] for one in loads}) == len(loads)

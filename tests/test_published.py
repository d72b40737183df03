"""reference/: every figure agrees with the others of its source, and a mistake is reported with its line."""

from zlib import crc32

import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.published import published, published_names
from ann_benchmarks.views.published import read_lines

# Checksums of all cells, which were compared with their sources, so that a change is noticed.
CHECKED = {
    "100m": 2495146487,
    "1b": 3631426067,
    "5m": 1790763542,
    "distributed": 1939585112,
    "double-buffering": 901155112,
    "filtered": 166169544,
    "insert-scaling": 3504387386,
    "pgvectorscale": 796330861,
    "query-scaling": 4061307579,
    "storage": 2702408646,
    "tenants": 1816446786,
    "vectordbbench": 3854004870,
    "year-in-review": 3976234610,
}


# --- the figures ---


def test_every_file_is_read_and_says_that_it_is_another_machine():
    assert sorted(published_names()) == sorted(CHECKED)
    for name in published_names():
        found = published(name)
        assert "another machine" in found.label and found.hardware and found.versions
        assert all(table.rows and set(table.curves) <= set(table.columns) for table in found.tables)


@pytest.mark.parametrize("name", CHECKED)
def test_no_figure_has_changed(name):
    cells = [(table.name, table.rows) for table in published(name).tables]
    assert crc32(repr(cells).encode()) == CHECKED[name]


# --- lines over clients ---

ONE = {"version": "0.5.1", "instance": "m7g.16xl", "dimension": 128}


def test_a_line_for_each_curve_of_the_chosen_rows():
    (points,) = read_lines("insert-scaling:inserts", ONE).series.values()
    assert [(p.x, p.y) for p in points[:2]] == [(1, 309), (2, 541)] and len(points) == 7
    found = read_lines("query-scaling", {"instance": "m6g.16xl", "dimension": 1536}).series
    assert {"ef_search 20", "ef_search 800"} <= found.keys()
    assert (found["ef_search 800"][-1].x, found["ef_search 800"][-1].y) == (64, 782)


@pytest.mark.parametrize(
    ("name", "where", "message"),
    [
        (
            ":inserts",
            {"version": "0.5.2"},
            "no row of 'inserts' has version = 0.5.2: version is 0.5.0,",
        ),
        (":inserts", {"clients": 3}, "clients is 1, 2, 4, 8"),
        (":inserts", {"disk": "gp3"}, "the table 'inserts' has no column 'disk': it has version, instance"),
        (
            ":inserts",
            {"version": ["0.5.0", "0.5.1"]},
            "several rows of 'inserts' have clients = 1: choose",
        ),
        (":insert", {}, "has no table 'insert': it has inserts, version-speedups"),
        (":version-speedups", {}, "has no table of qps or tps over clients"),
    ],
)
def test_rows_that_make_no_line_are_named(name, where, message):
    with pytest.raises(UserError, match=message):
        read_lines(f"insert-scaling{name}", where)


# --- mistakes in a file ---

GOOD = """label: mine
source: me
hardware: {cpu: x}
versions: {pgvector: "0.8"}
datasets:
  - {name: d}
tables:
  t:
    columns: {disk: text, qps: 1/s}
    rows:
      - [a, 1]
      - [b, 2]
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("[b, 2]", "[b, x]", 12, r"the column 'qps' holds numbers \(1/s\), not 'x'"),
        ("[b, 2]", "[b, .inf]", 12, "the column 'qps' holds numbers"),
        ("[b, 2]", "[b, true]", 12, "the column 'qps' holds numbers"),
        ("[b, 2]", "[0.8, 2]", 12, "the column 'disk' holds text, not 0.8: put it in quotes"),
        ("[b, 2]", "[b]", 12, "the row has 1 cells for 2 columns: disk, qps"),
        ("[b, 2]", "b", 12, "entry 2 must be a list, not 'b'"),
        ("    rows:", "    row:", 10, "unknown key 'row' in the table 't'; did you mean 'rows'"),
        ("source: me\n", "", 1, "the file has no 'source'"),
        ("{cpu: x}", "x", 3, "expected names with values here, found 'x'"),
        ("    rows:", "    curves: dsk\n    rows:", 10, "unknown column 'dsk'; did you mean 'disk'"),
        ("    rows:", "    parts: [{dsk: a, rows: [[1]]}]\n    rows:", 8, "needs either rows or parts"),
        ("      - [a, 1]\n      - [b, 2]\n", "      []\n", 10, r"'rows' must not be empty"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_line(old, new, line, message, tmp_path):
    path = tmp_path / "mine.yml"
    path.write_text(GOOD)
    assert published(str(path)).label == "mine (another machine)"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(UserError, match=message) as error:
        published(str(path))
    assert str(error.value).startswith(f"{path}:{line}:") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("{dsk: a, rows: [[1]]}", "unknown column 'dsk'; did you mean 'disk'"),
        ("{disk: a}", "the part has no 'rows'"),
        ("{disk: a, rows: [[1, 2]]}", "the row has 2 cells for 1 columns: qps"),
    ],
)
def test_a_mistake_in_a_part_is_told_with_its_line(part, message, tmp_path):
    path = tmp_path / "mine.yml"
    start = GOOD.partition("    rows:")[0]
    path.write_text(f"{start}    parts:\n      - {{disk: a, rows: [[1], [2]]}}\n      - {part}\n")
    with pytest.raises(UserError, match=message) as error:
        published(str(path))
    assert str(error.value).startswith(f"{path}:12:")


def test_a_part_gives_its_columns_to_all_its_rows(tmp_path):
    path = tmp_path / "mine.yml"
    start = GOOD.partition("    rows:")[0]
    path.write_text(f"{start}    parts:\n      - {{disk: a, rows: [[1], [null]]}}\n")
    rows = published(str(path)).table("t").rows
    assert rows == [{"disk": "a", "qps": 1}, {"disk": "a", "qps": None}]

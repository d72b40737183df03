"""reference/: every figure agrees with the others of its source, and a mistake is reported with its line."""

from zlib import crc32

import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.published import published, published_names
from ann_benchmarks.published.selecting import rows_where, select

REPORTS = ("5m", "100m", "1b")
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


def cells(name, table, column, **where):
    return [row[column] for row in rows_where(published(name).table(table), where)]


def one(name, table, column, **where):
    (value,) = cells(name, table, column, **where)
    return value


# --- the figures ---


def test_every_file_is_read_and_says_that_it_is_another_machine():
    assert sorted(published_names()) == sorted(CHECKED)
    for name in published_names():
        found = published(name)
        assert "another machine" in found.label and found.hardware and found.versions and found.datasets
        assert all(table.rows and set(table.curves) <= set(table.columns) for table in found.tables)


@pytest.mark.parametrize("name", CHECKED)
def test_no_figure_has_changed(name):
    cells = [(table.name, table.rows) for table in published(name).tables]
    assert crc32(repr(cells).encode()) == CHECKED[name]


def test_what_the_report_says_follows_from_its_tables():
    def claim(name, about):
        return next(row["value"] for row in published(name).table("claims").rows if about in row["claim"])

    def qps(name, engine, clients, **where):
        return max(cells(name, "tiers", "qps", engine=engine, clients=clients, **where))

    def build(name, test):
        return one(name, "builds", "build_time", test=test)

    assert build("1b", "pgvector-deep1B-m16-128") / 3600 == pytest.approx(15.7, abs=0.05)
    assert build("1b", "vc-deep1B-800-640k") / 3600 == pytest.approx(1.2, abs=0.05)
    slow, fast = build("1b", "pgvector-deep1B-m16-128"), build("1b", "vc-deep1B-800-640k")
    assert slow / fast == pytest.approx(claim("1b", "slow builds"), abs=0.5)
    for name in REPORTS:
        times = [min(cells(name, "builds", "build_time", engine=e)) for e in ("pgvector HNSW", "VectorChord")]
        assert times[0] / times[1] == pytest.approx(claim(name, "build time"), abs=0.05)
        faster = qps(name, "VectorChord", 32) / qps(name, "pgvector HNSW", 32)
        assert faster == pytest.approx(claim(name, "QPS by 32 clients, VectorChord"), abs=0.05)
        sizes = [max(cells(name, "tiers", "index_size", engine=e)) for e in ("pgvector HNSW", "VectorChord")]
        assert sizes[1] / sizes[0] == pytest.approx(claim(name, "index size"), abs=0.01)
    for name, ram, one_client, many in (("100m", 64, 13.4, 12.3), ("1b", 128, 20.7, 6.5)):
        for clients, ratio in ((1, one_client), (32, many)):
            faster = qps(name, "VectorChord", clients, ram=ram) / qps(name, "pgvector HNSW", clients, ram=ram)
            assert faster == pytest.approx(ratio, abs=0.57 if ratio == 20.7 else 0.06)  # from 31 / 1.5
            about = f"QPS by {clients} client{'s' * (clients > 1)}, VectorChord over HNSW, {ram} GB"
            assert claim(name, about) == ratio


def test_two_shards_find_up_to_15_percent_more():
    def recall(servers, dataset, ef_search):
        return one("distributed", "shards", "recall", servers=servers, dataset=dataset, ef_search=ef_search)

    rows = published("distributed").table("shards").rows
    places = {(row["dataset"], row["ef_search"]) for row in rows}
    gains = {place: recall("two shards", *place) / recall("one", *place) for place in places}
    assert max(gains, key=gains.get) == ("gist-960-euclidean", 10)
    assert max(gains.values()) == pytest.approx(1.15, abs=0.005) and min(gains.values()) >= 1


# --- selecting ---


def curves(**requested):
    return select(requested)[1]


INSERTS = {"published": "insert-scaling", "table": "inserts", "x": "clients", "y": "tps"}
ONE = {"version": "0.5.1", "instance": "m7g.16xl", "dimension": 128}


def test_what_issues_say_of_filters_follows_from_their_figures():
    latency = {row["index"]: row["latency"] for row in published("tenants").table("partial-index").rows}
    assert latency["one index for all"] / latency["partial index"] == pytest.approx(50, abs=0.5)
    (locks,) = published("tenants").table("locks").rows
    assert locks["lock_slots"] == 64 * 100
    assert locks["lock_slots"] / locks["indexes_of_a_tenant"] == pytest.approx(
        locks["most_tenants"], rel=0.02
    )


def test_a_selection_is_a_curve_absolute_or_over_its_first_point():
    (points,) = curves(**INSERTS, where=ONE).values()
    assert points[:2] == [(1, 309), (2, 541)] and len(points) == 7
    (shares,) = curves(**INSERTS, where=ONE, normalise="first").values()
    assert shares == [(x, y / 309) for x, y in points]


def test_a_column_makes_a_curve_for_each_of_its_values():
    requested = {"published": "query-scaling", "x": "clients", "y": "tps", "by": "ef_search"}
    found = curves(**requested, where={"instance": "m6g.16xl", "dimension": 1536, "ef_search": [20, 800]})
    assert list(found) == ["ef_search 20", "ef_search 800"]
    assert found["ef_search 800"][-1] == (64, 782)
    by_engine = {"published": "1b", "table": "tiers", "x": "ram", "y": "qps", "by": ["engine", "clients"]}
    assert "VectorChord, 1 client" in curves(**by_engine)


def test_what_is_not_told_is_no_point():
    found = curves(published="storage", x="vectors", y="p95", by="disk")
    assert list(found) == ["NVMe", "gp3"]


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        ({"where": {"version": "0.5.2"}}, "no row of 'inserts' has version = 0.5.2: version is 0.5.0, 0.5.1"),
        ({"where": {"clients": 3}}, "clients is 1, 2, 4, 8"),
        ({"where": {"disk": "gp3"}}, "the table 'inserts' has no column 'disk': it has version, instance"),
        ({}, "several rows of 'inserts' have clients = 1: choose by version"),
        ({"x": "version"}, "the column 'version' of 'inserts' holds no numbers"),
        ({"table": "insert"}, "has no table 'insert': it has inserts, version-speedups"),
        ({"table": "", "y": "qps"}, "has no table with the columns clients, qps"),
        ({"published": "rds"}, "unknown published figures 'rds': choose from 100m"),
        ({"normalise": "last"}, "can only be 'first'"),
        ({"where": "version"}, "'where' of published figures must be columns with values"),
        ({"y": None}, "has no 'y'"),
        ({"tabel": "inserts"}, "unknown key 'tabel'"),
    ],
)
def test_a_selection_of_nothing_is_one_line(requested, message):
    with pytest.raises(UserError, match=message) as error:
        select({**INSERTS, **requested})
    assert "\n" not in str(error.value)


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
        ("source: me", "source: 3", 2, "'source' must be a text, not 3"),
        ("source: me", "source: me\nsource: you", 3, "the key 'source' stands here a second time"),
        ("{cpu: x}", "x", 3, "expected names with values here, found 'x'"),
        ("1/s}", "1}", 9, "'qps' must be a text, not 1"),
        ("    rows:", "    curves: dsk\n    rows:", 10, "unknown column 'dsk'; did you mean 'disk'"),
        ("    rows:", "    parts: [{dsk: a, rows: [[1]]}]\n    rows:", 8, "needs either rows or parts"),
        ("      - [a, 1]\n      - [b, 2]\n", "      []\n", 10, r"'rows' must not be empty"),
        ("[b, 2]", "[b, 2", 13, "not valid YAML"),
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


@pytest.mark.parametrize("content", ["", "x", "- x", "\t", "label: \x00", "{"])
def test_what_is_no_file_of_figures_is_one_line(content, tmp_path):
    path = tmp_path / "mine.yml"
    path.write_text(content)
    with pytest.raises(UserError, match=r"mine\.yml") as error:
        published(str(path))
    assert "\n" not in str(error.value)


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

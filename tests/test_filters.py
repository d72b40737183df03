"""Filter sets of datasets: what synthetic ones are, how they are stored, and filters of one's own."""

from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import dataset_path, get_dataset, prepare_filters, stored_truth, truth_file
from ann_benchmarks.data.datasets.catalog import dataset_table
from ann_benchmarks.data.datasets.filtering import FilterFiles, add_own_filters
from ann_benchmarks.data.datasets.maintenance import verify_dataset
from ann_benchmarks.data.datasets.own import OwnVectors, create_own
from ann_benchmarks.data.filters import canonical_filter
from ann_benchmarks.data.filters import truth as filter_truth
from ann_benchmarks.data.filters.matching import Matcher
from ann_benchmarks.data.filters.named import permuted, tenant_sizes
from ann_benchmarks.data.filters.places import find_places
from ann_benchmarks.data.ground_truth import truth
from ann_benchmarks.data.vectors.rows import ArrayRows

from .programs import call_program

pytestmark = pytest.mark.usefixtures("empty_folder")

ROWS, QUERIES = 2000, 40
RNG = np.random.default_rng(1)
VECTORS = RNG.standard_normal((ROWS, 8)).astype(np.float32)
TEST = RNG.standard_normal((QUERIES, 8)).astype(np.float32)


@pytest.fixture
def mine() -> str:
    """A dataset of 2,000 rows and 40 queries."""
    np.save("v.npy", VECTORS)
    np.save("q.npy", TEST)
    create_own("mine", OwnVectors("v.npy", "euclidean", "q.npy"), neighbors=20)
    return "mine"


def filters_of(name: str, filter: str):
    prepare_filters(name, [filter], 20)
    with get_dataset(name)[0] as dataset:
        return dataset.filter_set(filter), dataset.attributes([filter]), dataset.queries(10, filter)


def run(*arguments: str):
    return call_program("create_dataset.py", *arguments)


# ---- synthetic sets


@pytest.mark.parametrize("size", [1, 2, 5, 63, 64, 1000])
def test_a_permutation_has_every_number_once(size: int) -> None:
    assert sorted(permuted("x", np.arange(size), size)) == list(range(size))


def test_random_numbers_are_those_of_every_machine() -> None:
    assert permuted("uniform", np.arange(8), 8).tolist() == [3, 1, 6, 5, 4, 7, 0, 2]


@pytest.mark.parametrize(
    ("filter", "share", "tolerance"),
    [
        ("uniform:1", 1, 0),
        ("uniform:0.05", 0.05, 0),
        ("near:0.05", 0.05, 0),
        ("far:0.5", 0.5, 0),
        ("labels:0.5", 0.5, 0.05),
        ("labels2:0.05", 0.05, 0.02),
        ("tenants:10", None, 0),
    ],
)
def test_the_filters_of_a_name(mine: str, filter: str, share: float | None, tolerance: float) -> None:
    before = dataset_path(mine).read_bytes()
    found, attributes, queries = filters_of(mine, filter)
    assert dataset_path(mine).read_bytes() == before
    assert len(found.filters) == QUERIES and len({each.shape for each in found.filters}) == 1
    assert found.attributes == tuple(attributes)
    if share is not None:
        assert np.abs(found.matches / ROWS - share).max() <= tolerance
    matcher = Matcher(attributes)
    for number, each in enumerate(found.filters):
        rows = matcher.rows(each, range(ROWS))
        distances = np.linalg.norm(VECTORS[rows].astype(float) - queries.vectors[number], axis=1)
        order = np.argsort(distances, kind="stable")[:10]
        assert queries.truth.neighbors[number].tolist() == rows[order].tolist()
        np.testing.assert_allclose(queries.truth.distances[number], distances[order])
        assert found.matches[number] == len(rows)


def test_near_holds_the_query_and_far_does_not(mine: str) -> None:
    every = get_dataset(mine)[0].queries(10).truth.neighbors
    shares = {}
    for kind in ("near", "uniform", "far"):
        found, attributes, _ = filters_of(mine, f"{kind}:0.1")
        matcher = Matcher(attributes)
        passing = [set(matcher.rows(each, range(ROWS))) for each in found.filters]
        shares[kind] = np.mean(
            [len(rows & set(nearest)) / 10 for rows, nearest in zip(passing, every, strict=True)]
        )
    assert shares["near"] > 0.25 and 0.05 < shares["uniform"] < 0.15 and shares["far"] < 0.06


def test_one_column_serves_any_selectivity(mine: str) -> None:
    names = prepare_filters(mine, ["near:0.1", "far:.01", "near:1e-1", "uniform:0.5"])
    assert names == ["near:0.1", "far:0.01", "uniform:0.5"]
    attributes = get_dataset(mine)[0].attributes(names)
    assert list(attributes) == ["place", "uniform"]
    assert all(sorted(attribute.values) == list(range(ROWS)) for attribute in attributes.values())
    assert attributes.mark != get_dataset(mine)[0].attributes(["near:0.1"]).mark


def test_places_are_balanced_whatever_the_vectors() -> None:
    same = np.zeros((500, 4), np.float32)
    assert find_places(ArrayRows(same), same[:3], "angular").rows.tolist() == list(range(500))
    few = np.repeat(VECTORS[:3], [1, 5, 494], axis=0)
    places = find_places(ArrayRows(few), few[[0, 1, 6]], "ip")
    assert sorted(places.rows) == list(range(500))
    assert len(np.unique(places.queries)) == 3


def test_tenants_have_sizes_of_zipf() -> None:
    sizes = tenant_sizes(100, 100_000)
    assert sizes.sum() == 100_000 and (np.diff(sizes) <= 0).all() and sizes[-1] >= 1
    assert sizes[0] / sizes[9] == pytest.approx(10, rel=0.02)
    assert tenant_sizes(10, 10).tolist() == [1] * 10


def test_what_is_there_is_not_made_again(mine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_filters(mine, ["uniform:0.1"], 20)
    before = truth_file(mine, "uniform:.1").stat().st_mtime_ns
    prepare_filters(mine, ["uniform:0.10"], 15)
    assert truth_file(mine, "uniform:0.1").stat().st_mtime_ns == before
    prepare_filters(mine, ["uniform:0.1"], 30)
    assert stored_truth(mine, "uniform:0.1").neighbors.shape == (QUERIES, 30)


def test_fewer_matches_than_neighbours_are_ordinary(mine: str) -> None:
    found, _, queries = filters_of(mine, "uniform:0.002")
    assert found.matches.tolist() == [4] * QUERIES
    assert (queries.truth.neighbors[:, 4:] == -1).all() and (queries.truth.neighbors[:, :4] >= 0).all()
    assert (stored_truth(mine, "uniform:0.002").neighbors[:, 4:] == -1).all()


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        ("uniform:0.0001", "less than one of the 2,000 rows pass; use uniform:0.0005 or more"),
        ("uniform:0", "from 0.0001 to 1"),
        ("near:0.6", "from 0.0001 to 0.5"),
        ("near:x", "from 0.0001 to 0.5"),
        ("uniform:1e", "from 0.0001 to 1"),
        ("unifrom:0.1", "unknown kind of filter 'unifrom'.*did you mean 'uniform'"),
        ("tenants:5", "from 10 to 10,000"),
        ("tenants:5000", "more tenants than the 2,000 rows"),
        ("mine", "has no filters 'mine'"),
    ],
)
def test_a_set_that_cannot_be_had_is_refused(mine: str, filter: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        prepare_filters(mine, ["uniform:0.1", filter])
    assert not Path("data/mine.filters").exists()


def test_a_set_has_one_name() -> None:
    assert [canonical_filter(f"near:{text}") for text in (".10", "0.1", "1e-1")] == ["near:0.1"] * 3
    assert canonical_filter("tenants:0100") == "tenants:100" and canonical_filter("mine") == "mine"


# ---- files


def test_missing_filters_say_how_to_make_them(mine: str) -> None:
    with pytest.raises(UserError, match="--add-filters mine --filters uniform:0.1"):
        get_dataset(mine)[0].filter_set("uniform:0.1")


def test_more_neighbours_than_are_known(mine: str) -> None:
    prepare_filters(mine, ["uniform:0.1"], 20)
    with pytest.raises(UserError, match="--ground-truth mine --filters uniform:0.1 --neighbors 21"):
        get_dataset(mine)[0].queries(21, "uniform:0.1")


def change(path: str, key: str, value) -> None:
    with h5py.File(path, "r+") as file:
        if key in file.attrs:
            file.attrs[key] = value
        else:
            file[key][...] = value


@pytest.mark.parametrize(
    ("path", "key", "value", "message"),
    [
        ("uniform-0.1.h5", "mark", "other", "is of other vectors"),
        ("uniform-0.1.h5", "columns", "other", "are of other attributes"),
        ("uniform-0.1.h5", "version", 99, "another version"),
        ("uniform-0.1.h5", "filters", 0, "is damaged"),
        ("uniform-0.1.h5", "filter_of", 7, "is damaged"),
        ("uniform-0.1.h5", "filter_of", -1, "is damaged"),
        ("columns/uniform.h5", "mark", "other", "is of other vectors"),
        ("columns/uniform.h5", "kind", "labels", "is damaged"),
        ("columns/uniform.h5", "rows", 7, "is damaged"),
    ],
)
def test_a_file_of_something_else_is_refused(mine: str, path: str, key: str, value, message: str) -> None:
    prepare_filters(mine, ["uniform:0.1"], 20)
    change(f"data/mine.filters/{path}", key, value)
    with pytest.raises(UserError, match=message), get_dataset(mine)[0] as dataset:
        dataset.queries(10, "uniform:0.1")
        dataset.attributes(["uniform:0.1"])
    assert any(True for _ in verify_dataset(mine))


@pytest.mark.parametrize("path", ["uniform-0.1.h5", "columns/uniform.h5"])
def test_a_file_that_is_cut_short_is_refused(mine: str, path: str) -> None:
    prepare_filters(mine, ["uniform:0.1"], 20)
    file = Path("data/mine.filters", path)
    file.write_bytes(file.read_bytes()[:-3000])
    with pytest.raises(UserError, match=f"{path} is damaged"), get_dataset(mine)[0] as dataset:
        dataset.filter_set("uniform:0.1")
        dataset.attributes(["uniform:0.1"])


@pytest.mark.parametrize(
    ("path", "key", "value", "problem"),
    [
        ("columns/uniform.h5", "values", 5, "has other values than were written"),
        ("uniform-0.1.h5", "matches", 199, "200 rows pass, not 199"),
        ("uniform-0.1.h5", "neighbors", 0, "not rows that pass"),
        ("uniform-0.1.h5", "distances", 9.0, "at other distances"),
    ],
)
def test_verify_finds_what_has_changed(mine: str, path: str, key: str, value, problem: str) -> None:
    prepare_filters(mine, ["uniform:0.1"], 20)
    assert list(verify_dataset(mine)) == []
    change(f"data/mine.filters/{path}", key, value)
    assert [problem in line for line in verify_dataset(mine)] == [True]


def test_filters_are_listed(mine: str) -> None:
    prepare_filters(mine, ["uniform:0.1", "tenants:10"], 20)
    assert dataset_table().endswith("\nfilters of mine: tenants:10, uniform:0.1")


def test_replaced_vectors_take_their_filters_along(mine: str) -> None:
    prepare_filters(mine, ["uniform:0.1"], 20)
    create_own(mine, OwnVectors("q.npy", "ip", "q.npy"), neighbors=5, force=True)
    assert not truth_file(mine, "uniform:0.1").exists()


# ---- one's own


def write_own(rows: int = ROWS, filters: str = "", **columns) -> FilterFiles:
    made = {
        "price": pa.array(np.arange(rows) % 100),
        "language": pa.array([("de", "en", "日本")[row % 3] for row in range(rows)]),
        "day": pa.array(np.datetime64("2024-01-01") + np.arange(rows) % 366),
        "tags": pa.array([[row % 7, 3, 3] for row in range(rows)]),
        "weight": pa.array(np.ones(rows)),
        **columns,
    }
    pq.write_table(pa.table(made), "a.parquet")
    Path("f.yml").write_text(filters or "cheap:\n  - {column: price, operator: '<', value: 10}\n")
    return FilterFiles(Path("a.parquet"), Path("f.yml"))


def test_own_filters_of_all_kinds(mine: str) -> None:
    languages = [("de", "en", "fr")[number % 3] for number in range(QUERIES)]
    np.save("tags.npy", np.arange(QUERIES) % 7)
    files = write_own(
        filters=f"""
cheap:
  - {{column: price, operator: "<", value: 10}}
spoken:
  - {{column: language, operator: "=", values: {languages}}}
  - {{column: day, operator: ">=", value: "2024-01-31"}}
tagged:
  - {{column: tags, operator: contains, values: tags.npy}}
some:
  - {{column: price, operator: in, value: [1, 2, 2]}}
"""
    )
    assert add_own_filters(mine, files, 20) == ["cheap", "spoken", "tagged", "some"]
    with get_dataset(mine)[0] as dataset:
        attributes = dataset.attributes(["cheap", "spoken", "tagged"])
        kinds = {name: attribute.kind for name, attribute in attributes.items()}
        assert kinds == {"day": "timestamp", "language": "text", "price": "integer", "tags": "labels"}
        assert attributes["day"].values[1] == 1_704_153_600_000_000
        assert attributes["language"].values[:3].tolist() == ["de", "en", "日本"]
        assert [labels.tolist() for labels in attributes["tags"].block(2, 4)] == [[2, 3], [3]]
        assert dataset.filter_set("cheap").matches.tolist() == [200] * QUERIES
        spoken = dataset.filter_set("spoken")
        days = np.arange(ROWS) % 366 >= 30
        expected = [(days & (np.arange(ROWS) % 3 == number)).sum() for number in range(2)]
        assert spoken.matches[:3].tolist() == [*expected, 0]
        assert (dataset.queries(10, "spoken").truth.neighbors[2] == -1).all()
        assert dataset.filter_set("tagged").matches[3] == ROWS
        assert dataset.filter_set("some").filters[0].values == ((1, 2),)
    assert list(verify_dataset(mine)) == []


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_times_of_every_unit_are_the_same(mine: str, unit: str) -> None:
    days = np.array(["1969-12-31", "2024-01-02"] * (QUERIES // 2), f"datetime64[{unit}]")
    np.save("days.npy", days)
    pq.write_table(pa.table({"day": days}), "days.parquet")
    text = "{}: [{{column: day, operator: '=', values: {}}}]\n"
    filters = text.format("a", "days.npy") + text.format("b", "days.parquet")
    add_own_filters(mine, write_own(filters=filters), 20)
    with get_dataset(mine)[0] as dataset:
        for name in ("a", "b"):
            found = dataset.filter_set(name).filters[:2]
            assert [each.values for each in found] == [(-86_400_000_000,), (1_704_153_600_000_000,)]


def test_times_before_1970_are_cut_to_the_microsecond_before(mine: str) -> None:
    days = np.full(ROWS, -1, "datetime64[ns]")
    np.save("days.npy", days[:QUERIES])
    files = write_own(filters="a: [{column: day, operator: '=', values: days.npy}]", day=pa.array(days))
    add_own_filters(mine, files, 20)
    with get_dataset(mine)[0] as dataset:
        assert dataset.filter_set("a").matches.tolist() == [ROWS] * QUERIES


def test_a_search_that_was_interrupted_is_not_continued_for_other_queries(
    mine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(truth, "SHARE_OF_SAVING", 1000)  # after each group
    text = "a: [{{column: price, operator: '<', values: {}}}]"
    one, done = filter_truth._SpanSearch._one, []

    def interrupted(self, task, farthest, threads):
        done.append(task.number)
        if len(done) == 2:
            raise KeyboardInterrupt
        return one(self, task, farthest, threads)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(filter_truth._SpanSearch, "_one", interrupted)
        patch.setattr(filter_truth, "usable_cores", lambda: 1)
        add_own_filters(mine, write_own(filters=text.format([10, *[20] * (QUERIES - 1)])), 20)
    # The same filters, in the same order, of other queries.
    add_own_filters(mine, write_own(filters=text.format([10, 10, *[20] * (QUERIES - 2)])), 20)
    with get_dataset(mine)[0] as dataset:
        neighbors = dataset.truth("a").neighbors
        assert (neighbors >= 0).all() and (neighbors[:2] % 100 < 10).all()
    assert list(verify_dataset(mine)) == []


def test_rows_that_are_held_out_have_no_attributes() -> None:
    np.save("v.npy", VECTORS)
    files = write_own(number=pa.array(np.arange(ROWS)))
    Path("f.yml").write_text("first:\n  - {column: number, operator: '<', value: 1000}\n")
    done = run(
        *("--name", "held", "--train", "v.npy", "--queries", "50", "--distance", "ip", "--neighbors", "10"),
        *("--attributes", str(files.attributes), "--filters", "f.yml"),
    )
    assert done.returncode == 0, done.stderr
    assert "use run.py --dataset held --filter first" in done.stdout
    with get_dataset("held")[0] as dataset:
        numbers = dataset.attributes(["first"])["number"].values
        np.testing.assert_array_equal(VECTORS[numbers], dataset.train())


BAD_COLUMNS = {
    "length": ({"rows": 7}, r"a.parquet has 7 rows, but there are 2,000 vectors"),
    "null": (
        {"price": pa.array([1, 2, None] + [0] * (ROWS - 3))},
        r"a.parquet:price row 2 \(from 0\) is null",
    ),
    "null label": ({"price": pa.array([[1], [None]] + [[0]] * (ROWS - 2))}, r"row 1 \(from 0\) holds null"),
    "floats": ({"price": pa.array(np.ones(ROWS))}, "price holds double; an attribute has whole numbers"),
    "too large": (
        {"price": pa.array(np.full(ROWS, 2**63, np.uint64))},
        "must have whole numbers of 64 bits at most",
    ),
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
def test_bad_attributes_are_refused(mine: str, case: str) -> None:
    columns, message = BAD_COLUMNS[case]
    with pytest.raises(UserError, match=message):
        add_own_filters(mine, write_own(**columns), 20)
    assert not Path("data/mine.filters").exists()


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (
            "f: [{column: prise, operator: '=', value: 1}]",
            "f.yml:1: .*no column 'prise'; did you mean 'price'",
        ),
        ("f: [{operator: '=', value: 1}]", "has no 'column'"),
        ("f: [{column: price, operator: '!=', value: 1}]", "unknown operator '!='"),
        ("f: [{column: price, operator: '=', value: cheap}]", "expected a whole number, found 'cheap'"),
        ("f: [{column: price, operator: '=', value: true}]", "expected a whole number, found True"),
        ("f: [{column: price, operator: '=', value: 99999999999999999999}]", "f.yml"),
        ("f: [{column: price, operator: '=', values: [1, 2]}]", "2 values, where there are 40 queries"),
        ("f: [{column: price, operator: '='}]", "either 'value'"),
        (
            "f: [{column: language, operator: '<', value: b}]",
            "of kind text, for which the operators are =, in",
        ),
        ("f: [{column: day, operator: '<', value: soon}]", "expected a date or a time"),
        ("f: [{column: tags, operator: '=', value: 1}]", "of kind labels"),
        ("f: [{column: price, operator: in, value: []}]", "at least one value"),
        ("f: []", "no predicates"),
        ("'a:b': [{column: price, operator: '=', value: 1}]", "cannot be the name of filters"),
        ("uniform-1: [{column: price, operator: '=', value: 1}]", "too much like uniform"),
        ("f: [{column: price, operator: '<', value: 0}]", "no row passes any of the filters 'f'"),
        ("f: [{column: price, operator: '=', values: gone.npy}]", "gone.npy"),
        ("f: [{column: price, operator: '=', values: x.txt}]", "NPY or a Parquet"),
        ("", "is empty"),
        ("{}", "names no filter sets"),
        ("f: [{column: day, operator: '<', value: 20240531}]", "expected a date or a time"),
        ("f: [{column: day, operator: '<', values: nat.npy}]", "expected a date or a time, .*NaT"),
        ("f: [{column: day, operator: '<', values: null.parquet}]", r"null.parquet:day row 0 .* is null"),
        ("f: [{column: price, operator: '<', values: ''}]", "NPY or a Parquet"),
    ],
)
def test_bad_filters_are_refused(mine: str, filters: str, message: str) -> None:
    files = write_own()
    np.save("nat.npy", np.array(["NaT"] * QUERIES, "datetime64[D]"))
    pq.write_table(pa.table({"day": pa.array([None] * QUERIES, pa.timestamp("us"))}), "null.parquet")
    Path("f.yml").write_text(filters)
    with pytest.raises(UserError, match=message):
        add_own_filters(mine, files, 20)
    assert not Path("data/mine.filters").exists()


def test_own_filters_are_not_replaced_unasked(mine: str) -> None:
    add_own_filters(mine, write_own(), 20)
    with pytest.raises(UserError, match="cheap.h5 exists; choose another name"):
        add_own_filters(mine, write_own(), 20)
    other = write_own(filters="other: [{column: price, operator: '<', value: 9}]", price=pa.array([0] * ROWS))
    with pytest.raises(UserError, match="price.h5 exists with other values"):
        add_own_filters(mine, other, 20)
    add_own_filters(mine, other, 20, force=True)
    with pytest.raises(UserError, match="of other attributes"):
        get_dataset(mine)[0].filter_set("cheap")


def test_the_command_adds_filters_and_finds_more_neighbours(mine: str) -> None:
    done = run("--add-filters", mine, "--filters", "uniform:0.005,near:.1", "--neighbors", "20")
    assert done.returncode == 0, done.stderr
    assert "uniform:0.005: 0.500% of 2,000 rows pass on average, 1 distinct filters" in done.stdout
    assert "for 40 queries, fewer rows pass" in done.stdout
    assert "--filter uniform:0.005,near:0.1" in done.stdout
    done = run("--ground-truth", mine, "--filters", "near:0.1", "--neighbors", "50")
    assert done.returncode == 0, done.stderr
    assert stored_truth(mine, "near:0.1").neighbors.shape == (QUERIES, 50)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--add-filters", "mine"), "--add-filters needs --filters"),
        (("--add-filters", "mine", "--filters", "f.yml"), "needs --attributes"),
        (("--add-filters", "mine", "--filters", "near:0.1", "--attributes", "a.parquet"), "FILE.yml"),
        (("--list", "--filters", "near:0.1"), "--filters needs"),
        (
            ("--ground-truth", "m", "--filters", "near:0.1", "--scheduler", "tcp://x:1"),
            "leave --scheduler out",
        ),
        (
            ("--add-filters", "m", "--filters", "near:0.1", "--scheduler", "tcp://x:1"),
            "a cluster does not search under filters; leave --scheduler out",
        ),
        (("--ground-truth", "m", "--device", "gpu", "--scheduler", "tcp://x:1"), "leave --device out"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: tuple[str, ...], message: str) -> None:
    done = run(*options)
    assert done.returncode == 2 and message in done.stderr

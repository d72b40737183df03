"""Vectors copied out of a table of somebody's own: every type, samples, indexes, and what is left out."""

import logging
from argparse import Namespace
from collections import Counter
from dataclasses import replace

import numpy as np
import psycopg
import pyarrow.parquet as pq
import pytest

from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.table import reading
from ann_benchmarks.algorithms.postgres.table.reading import (
    FoundIndex,
    TableCopy,
    VectorTable,
    _index_options,
    copy_table,
)
from ann_benchmarks.algorithms.postgres.table.vector_files import OTHER_DIMENSION
from ann_benchmarks.commands.from_postgres import copied_vectors
from ann_benchmarks.commands.run import requested_definitions
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.vectors import open_source
from ann_benchmarks.definitions.configs import OWN_INDEX, read_configs
from ann_benchmarks.definitions.definition import Data
from ann_benchmarks.experiments.carrying_out import step_request
from ann_benchmarks.experiments.schema import Options, find_experiment, read_experiment
from ann_benchmarks.run.command_line import make_parser
from ann_benchmarks.run.request import read_request

from .programs import call_program


@pytest.fixture
def table(server):
    """What runs SQL in a schema of its own, with pgvector in another one; and its URL."""
    place = server.connection_parameters()
    url = f"postgresql://{place['user']}:s3cret@/{place['dbname']}?host={place['host']}&port={place['port']}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector; CREATE SCHEMA own")
        yield lambda statement: connection.execute(statement), url
        connection.execute("DROP SCHEMA own CASCADE")


def copy(url, table, column, folder, metric="", sample=None, names=(), seed=1):
    return copy_table(VectorTable(url, table, column, names, sample, seed), folder, metric)


VALUES = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("vector", ["[0,1]", "[2,3]", "[4,5]"], VALUES),
        ("vector(2)", ["[0,1]", "[2,3]", "[4,5]"], VALUES),
        ("halfvec", ["[0,1]", "[2,3]", "[4,5]"], VALUES.astype(np.float16)),
        ("real[]", ["{0,1}", "{2,3}", "{4,5}"], VALUES),
        ("double precision[]", ["{0,1}", "{2,3}", "{4,5}"], VALUES),
        ("bit(9)", ["000000001", "100000000", "111111111"], np.array(
            [[0] * 8 + [1], [1] + [0] * 8, [1] * 9], bool)),
    ],
)  # fmt: skip
def test_every_type_of_vectors_is_copied(table, tmp_path, kind, values, expected):
    run, url = table
    run(f"CREATE TABLE own.items (id int, embedding {kind})")
    for number, value in enumerate(values):
        run(f"INSERT INTO own.items VALUES ({number}, '{value}')")
    copied = copy(url, "own.items", "embedding", tmp_path)
    assert (copied.rows, copied.of_rows, dict(copied.left_out), copied.metric) == (3, 3, {}, "")
    found = np.concatenate([block for _, block in open_source(str(copied.vectors)).blocks()])
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)


def test_arrays_of_zeros_have_no_angle(table, tmp_path):
    run, url = table
    run("CREATE TABLE own.arrays AS SELECT * FROM (VALUES ('{0,-0}'::real[]), ('{0,1}')) t(embedding)")
    copied = copy(url, "own.arrays", "embedding", tmp_path, "angular")
    assert copied.rows == 1 and copied.left_out["of zeros, which have no angle"] == 1


def test_what_cannot_be_used_is_left_out_and_counted(table, tmp_path):
    run, url = table
    run('CREATE TABLE own."Odd name" (embedding vector, tenant int, day date, tags int[], "Who" text)')
    run("""INSERT INTO own."Odd name" VALUES
        ('[1,2]', 7, '2026-01-02', '{1,2}', 'a'), (NULL, 1, now(), '{}', 'b'),
        ('[1,2,3]', 2, now(), '{}', 'c'), ('[3,4]', NULL, now(), '{}', 'd'), ('[0,0]', 3, now(), '{}', 'e'),
        ('[5,6]', 8, '2026-01-03', '{}', 'f')""")
    names = ["tenant", "day", "tags", "Who"]
    copied = copy(url, 'own."Odd name"', "embedding", tmp_path, "angular", None, names)
    assert copied.describe() == (
        "copied 2 of about 6 rows; left out: 1 without a vector, 1 of another dimension,"
        " 1 without an attribute, 1 of zeros, which have no angle"
    )
    rows = pq.read_table(copied.attributes).to_pydict()
    assert rows["tenant"] == [7, 8] and rows["Who"] == ["a", "f"] and rows["tags"] == [[1, 2], []]
    assert [day.day for day in rows["day"]] == [2, 3]


def test_a_sample_has_every_row_as_likely(table, tmp_path):
    """By pages of a large table, by rows of a small one; rows at the end of pages too."""
    run, url = table
    run("CREATE TABLE own.items (id int, embedding vector)")
    run("INSERT INTO own.items SELECT i, ARRAY[i, 1]::vector FROM generate_series(0, 39999) i")
    for analyzed, sample in ((False, 400), (True, 400), (True, 20_000)):
        if analyzed:
            run("ANALYZE own.items")
        taken: Counter[int] = Counter()
        for seed in range(20):
            copied = copy(url, "own.items", "embedding", tmp_path, "euclidean", sample, (), seed)
            assert 0.7 * sample < copied.rows < 1.3 * sample
            taken.update(np.load(copied.vectors)[:, 0].astype(int).tolist())
        ids = np.array(list(taken.elements()))
        assert abs(ids.mean() - 20_000) < 6 * 11_547 / np.sqrt(len(ids) / 2)
        assert np.histogram(ids, 10)[0].min() > 0.7 * len(ids) / 10
    once, again = (copy(url, "own.items", "embedding", tmp_path, "", 400, (), 5).rows for _ in range(2))
    assert once == again


def test_the_rows_of_a_sample_are_a_share_of_those_that_are_there_now(table, tmp_path):
    """Not of those that statistics were made of."""
    run, url = table
    more = "INSERT INTO own.items SELECT i, ARRAY[i, 1]::vector FROM generate_series(1, %s) i"
    run("CREATE TABLE own.items (id int, embedding vector) WITH (autovacuum_enabled = off)")
    run(more % 1000)
    run("ANALYZE own.items")
    run(more % 9000)
    assert 600 < copy(url, "own.items", "embedding", tmp_path, "", 1000).rows < 1500
    run("CREATE TABLE own.child () INHERITS (own.items)")
    run("INSERT INTO own.child SELECT i, ARRAY[i, 1]::vector FROM generate_series(1, 20000) i")
    assert 600 < copy(url, "own.items", "embedding", tmp_path, "", 1000).rows < 1500


@pytest.mark.parametrize("kind", ["VIEW", "PARTITIONS", "MATERIALIZED VIEW"])
def test_views_and_partitions_are_tables_too(table, tmp_path, kind):
    run, url = table
    query = "SELECT i AS id, ARRAY[i, 1]::vector AS embedding FROM generate_series(1, 1000) i"
    if kind == "PARTITIONS":
        run("CREATE TABLE own.items (id int, embedding vector) PARTITION BY RANGE (id)")
        run("CREATE TABLE own.low PARTITION OF own.items FOR VALUES FROM (0) TO (500)")
        run("CREATE TABLE own.high PARTITION OF own.items FOR VALUES FROM (500) TO (2000)")
        run(f"INSERT INTO own.items {query}")
        run("ANALYZE own.items")
    else:
        run(f"CREATE {kind} own.items AS {query}")
    assert copy(url, "own.items", "embedding", tmp_path).rows == 1000
    assert 20 < copy(url, "own.items", "embedding", tmp_path, "", 100).rows < 200


def test_the_index_that_is_there_is_found(table, tmp_path):
    run, url = table
    run("CREATE TABLE own.items (embedding vector(2))")
    run("INSERT INTO own.items SELECT ARRAY[i, 1]::vector FROM generate_series(1, 100) i")
    run("CREATE INDEX graph ON own.items USING hnsw (embedding vector_cosine_ops) WITH (m = 8)")
    run("CREATE INDEX half ON own.items USING hnsw ((embedding::halfvec(2)) halfvec_l2_ops)")
    run("CREATE INDEX part ON own.items USING hnsw (embedding vector_ip_ops) WHERE embedding IS NOT NULL")
    run("CREATE INDEX lists ON own.items USING ivfflat (embedding vector_ip_ops) WITH (lists = 3)")
    for number, function in enumerate(("binary_quantize(embedding)::bit(2)) bit_hamming_ops",
                                       "subvector(embedding, 1, 1)::vector(1)) vector_l2_ops")):  # fmt: skip
        run(f"CREATE INDEX other{number} ON own.items USING hnsw (({function})")
    copied = copy(url, "own.items", "embedding", tmp_path)
    assert copied.metric == "angular"
    assert copied.indexes == [
        FoundIndex("graph", "pgvector_hnsw", {"M": 8, "efConstruction": 64}, "angular"),
        FoundIndex("half", "pgvector_hnsw", {"M": 16, "efConstruction": 64, "form": "halfvec"}, "euclidean"),
        FoundIndex("lists", "pgvector_ivfflat", {"lists": 3}, "ip"),
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["m=8", "ef_construction=32"], {"m": 8, "ef_construction": 32}),
        (["storage_layout=plain", "max_alpha=1.5"], {"storage_layout": "plain", "max_alpha": 1.5}),
        (["options=residual_quantization = true  # less\n[build.internal]\nlists = [1000]"],
         {"residual_quantization": True, "lists": 1000}),
        (["options=build.internal.lists = [10, 100]\nbuild.internal.kmeans_algorithm.hierarchical = {}"],
         {"lists": [10, 100], "kmeans_algorithm": "hierarchical"}),
        (["options=build.internal.lists = []"], {"lists": []}),
    ],
)  # fmt: skip
def test_options_of_an_index_are_read(options, expected):
    found = _index_options(options)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("lists", [[], 100, [10, 100]])
def test_an_index_with_or_without_lists_is_a_contender(lists):
    own = ("vchord", {"lists": lists, "residual_quantization": False})
    request = replace(read_request([]), algorithm=("pgvector_hnsw",), own_index=own)
    configs, _ = read_configs(request.definitions)
    data = Data("mine", 1_000_000, 4, "angular", "float", 4)
    (one,) = [each for each in requested_definitions(request, configs, data) if each.algorithm == OWN_INDEX]
    assert one.arguments[1]["lists"] == lists
    request = replace(request, algorithm=("pgvector_ivfflat",), own_index=("pgvector_ivfflat", {"lists": 7}),
                      run_groups={"pgvector_ivfflat": {"a": {"arg_groups": [{"lists": 7}],
                                                             "query_args": [[1]]}}})  # fmt: skip
    # It is the same as another one, which is measured.
    assert [each.algorithm for each in requested_definitions(request, configs, data)] == ["pgvector_ivfflat"]


def test_nothing_is_written_and_no_password_is_said(table, tmp_path, caplog):
    run, url = table
    caplog.set_level(logging.DEBUG)
    run("CREATE TABLE own.items (embedding vector, price numeric)")
    for message, at, place in (
        ("cannot connect to PostgreSQL", "postgresql://me:s3cret@127.0.0.1:1/x", ("items", "embedding")),
        ("cannot connect to PostgreSQL", "postgresql://me:s3cret@[broken/x", ("items", "embedding")),
        *(("cannot connect to PostgreSQL", f"postgresql://me:{word}@127.0.0.1:1/x", ("items", "embedding"))
          for word in ("p@s3cret", "p/s3cret", "s3cret%zz", "s3cret p")),
        ("cannot connect to PostgreSQL", "host=127.0.0.1 password=p s3cret", ("items", "embedding")),
        ("the server has no table", url, ("own.other", "embedding")),
        ("the server has no table", url, ("own.items; DROP TABLE own.items", "embedding")),
        ("has no column nothing: it has embedding, price", url, ("own.items", "nothing")),
        ("is of type numeric, which is not read: name a vector; columns", url, ("own.items", "price")),
        ("has no row with a vector", url, ("own.items", "embedding")),
    ):  # fmt: skip
        with pytest.raises(PostgresError, match=message) as error:
            copy(at, *place, tmp_path)
        assert "s3cret" not in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(PostgresError, match="price of own.items is of type numeric: attributes are"):
        copy(url, "own.items", "embedding", tmp_path, names=["price"])
    assert "s3cret" not in caplog.text


def test_most_vectors_have_the_dimension_of_the_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = TableCopy(tmp_path / "vectors.npy", None, "angular", 1, 9, {OTHER_DIMENSION: 8}, [])
    monkeypatch.setattr(reading, "copy_table", lambda *given: few)
    args = Namespace(from_postgres="a URL", table="items", column="embedding", sample=None, force=False)
    args.distance = None
    refused = pytest.raises(UserError, match="most vectors of items have another dimension than its first")
    with refused, copied_vectors(args, "mine"):
        pass


def test_a_table_becomes_a_dataset_and_its_index_a_contender_of_choose(table, tmp_path, monkeypatch):
    run, url = table
    run("CREATE TABLE own.items (id int, embedding vector(4), tenant int)")
    run("INSERT INTO own.items SELECT i, ARRAY[random(), random(), random(), 1]::vector, i % 3"
        " FROM generate_series(1, 500) i")  # fmt: skip
    run("CREATE INDEX ON own.items USING hnsw (embedding vector_cosine_ops) WITH (m = 5)")
    (tmp_path / "filters.yml").write_text("third: [{column: tenant, operator: '=', value: 1}]")
    words = ["--name", "mine", "--from-postgres", url, "--table", "own.items", "--column", "embedding"]
    more = ["--queries", "20", "--attributes", "tenant", "--filters", "filters.yml", "--neighbors", "10"]
    done = call_program("create_dataset.py", *words, *more, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "copied 500 of about 500 rows" in done.stdout and "480 x 4, angular; 20 queries" in done.stdout
    assert "third: 33." in done.stdout and "s3cret" not in done.stdout + done.stderr
    assert not list((tmp_path / "data").glob(".mine*"))  # the copy was removed
    monkeypatch.chdir(tmp_path)
    step = read_experiment(find_experiment("choose"), False, Options(make_parser())).steps[0]
    request = step_request(step, make_parser(), ["--local"])
    configs, _ = read_configs(request.definitions)
    found = requested_definitions(request, configs, Data("mine", 480, 4, "angular", "float", 4))
    (own,) = [each for each in found if each.algorithm == OWN_INDEX]
    assert own.module == "ann_benchmarks.algorithms.pgvector_hnsw"
    assert own.arguments[1:] == [{"M": 5, "efConstruction": 64}] and len(own.query_argument_groups) == 1
    done = call_program("create_dataset.py", *words, "--force", "--distance", "cosines", cwd=tmp_path)
    assert done.returncode == 1 and "cosines" in done.stderr

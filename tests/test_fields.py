"""A field that exists in its row alone is everywhere: what a new row, option and effect are enough for."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from ann_benchmarks.comparing.measurements import properties
from ann_benchmarks.experiments.findings import StepPoint
from ann_benchmarks.fields.rows import FIELDS, GROUPS, Field
from ann_benchmarks.fields.series import ATTRIBUTE, Series, series_from, series_of
from ann_benchmarks.jobs.job import Job, Procedure
from ann_benchmarks.reporting.facts import result_facts
from ann_benchmarks.results.attributes import checked_attributes
from ann_benchmarks.results.comparable import Comparison, comparable
from ann_benchmarks.submission.checking.relations import field_problems
from ann_benchmarks.views.chosen import FACETS, panels
from ann_benchmarks.views.tiers import tier_runs, tier_tables
from ann_benchmarks.website.columns import points_data, result_columns

from .report_data import make_run
from .test_checker_honest import point
from .test_tiers import DEFINITION

LABELS = {
    "hnsw-1.0": {"version": "1.0"},
    "hnsw-batch": {"batch": True},
    "hnsw-c2": {"clients": 2},
    "hnsw-zipf1.1": {"query_order": "zipf:1.1"},
    "hnsw-q5": {"distinct_queries": 5},
    "hnsw-r100.5": {"rate": 100.5},
    "hnsw-slo-p99-50ms": {"objective": "p99:50ms"},
    "hnsw-pgbench": {"driver": "pgbench"},
    "hnsw-cold": {"is_cold": True},
    "hnsw-writes": {"workload": "writes"},
    "hnsw-w2": {"writers": 2},
    "hnsw-r20-mix50-50-0": {"write_rate": 20.0, "write_mix": "50-50-0"},
    "hnsw-l0.5": {"loaded": 0.5},
    "hnsw-autovacuum": {"autovacuum": True},
    "hnsw-cgroup": {"tier_method": "cgroup"},
    "hnsw-4cpus": {"tier_cpus": 4},
    "hnsw-gp3": {"tier_disk": "gp3"},
    "hnsw-sb1GB-ram2GB": {"tier_memory": "sb1GB-ram2GB"},
    "hnsw@elsewhere": {"environment": "elsewhere"},
    "hnsw-filter-uniform-0.1": {"filter": "uniform:0.1"},
    "hnsw-post4": {"post_filter": 4.0},
    "hnsw-payload-text": {"payload": "text"},
    "hnsw-jit=off-work_mem=64MB": {"settings": "jit=off work_mem=64MB"},
    "hnsw-shards4-routed2": {"shards": 4, "shard_engine": "routed", "shard_probes": 2},
    "hnsw-pgbouncer-session-pool8": {"pooler": "pgbouncer:session", "pool_size": 8},
    "hnsw-replicas2": {"replicas": 2},
    "hnsw-0.8-shards2-fdw-jit=on-post2-writes-c4-q9-w1-filter-a-1-payload-text-cold-cgroup-2cpus@b-batch": {
        "batch": True, "environment": "b", "tier_cpus": 2, "tier_method": "cgroup", "is_cold": True,
        "payload": "text", "filter": "a:1", "writers": 1, "distinct_queries": 9, "clients": 4,
        "workload": "writes", "post_filter": 2.0, "settings": "jit=on", "shard_engine": "fdw", "shards": 2,
        "version": "0.8",
    },
}  # fmt: skip


@pytest.mark.parametrize(("folder", "own"), LABELS.items())
def test_every_field_names_a_folder_and_is_stored(folder, own):
    series = Series("hnsw", **own)
    assert series.folder == folder and series.name + series.conditions == folder.split("@")[0].removesuffix(
        "-batch"
    )
    assert series_of({ATTRIBUTE: series.dump_json()}, "x") == pickle.loads(pickle.dumps(series)) == series
    assert hash(series_from(series.values)) == hash(series)
    for name, value in own.items():
        assert series.only(name).values == Series("").replaced(**{name: value}).values
        assert series.drop(name) != series and FIELDS[name].group in GROUPS
    assert series.drop(*own) == Series("hnsw") and series.is_plain_but_for("algorithm", *own)


def test_every_field_has_a_label():
    assert {name for own in LABELS.values() for name in own} == {*FIELDS} - {"algorithm"}


@pytest.mark.parametrize("wrong", [{"clients": True}, {"clients": 2.5}, {"is_cold": 1}, {"filter": None}])
def test_a_stored_value_of_another_kind_is_refused(wrong):
    with pytest.raises(TypeError, match=f"its '{next(iter(wrong))}' is"):
        series_from({"algorithm": "hnsw", **wrong})
    with pytest.raises(TypeError, match="a series has no planets"):
        Series("hnsw", planets=4)
    with pytest.raises(AttributeError):
        _ = Series("hnsw").planets


@pytest.fixture
def colour(monkeypatch):
    row = Field("colour", str, "load", "", "colour-{}", "in {}", "Colour", attribute="colour", evidence="")
    monkeypatch.setitem(FIELDS, "colour", row)
    return row


def red_and_plain(**more):
    plain = make_run(clients=4, ram=2, **more)
    red = replace(plain, series=plain.series.replaced(colour="red"), attrs={**plain.attrs, "colour": "red"})
    return red, plain


class Coloured(Procedure):
    colour = "red"
    own_fields = (*Procedure.own_fields, "colour")


def test_a_new_field_is_asked_for_measured_and_stored(colour):
    job = Job(DEFINITION, [[1]], "tiny", 10, Coloured())
    assert job.series.colour == "red" and job.series.attributes == {"colour": "red"}
    assert job.path([1]).parent.name == "some-colour-red" and str(job.procedure).endswith("in red")
    assert StepPoint("s", job, [1], make_run()).matches("colour", "red")
    assert series_of({ATTRIBUTE: job.series.dump_json()}, "x").colour == "red"
    assert series_of({ATTRIBUTE: '{"algorithm": "a", "colour": 5}', "algo": "b"}, "x") == Series("b")


def test_a_new_field_has_panels_and_is_nothing_usual(colour):
    red, plain = red_and_plain()
    assert list(panels([red, plain], FACETS["load"])) == ["4 clients", "4 clients, colour-red"]
    assert comparable([red, plain]) == [plain]
    assert Comparison(4, [red], 0.9).place_text.endswith(", in red")


def test_a_new_field_is_in_tables_and_reports(colour):
    tables = [part for part in tier_tables(tier_runs(red_and_plain()), 0.5) if not isinstance(part, str)]
    assert {(table.columns[-1], row[-1]) for table in tables for row in table.rows} == {
        ("Load", "colour-red"), ("Load", ""),
    }  # fmt: skip
    assert ("How it was measured", "Colour") in result_facts(red_and_plain()[0].attrs)


def test_a_new_field_can_be_filtered_by_on_pages(colour, monkeypatch):
    runs = red_and_plain()
    (load,) = (column for column in points_data(runs, [])["columns"] if column["id"] == "load")
    assert load["words"] == ["colour-red", "plain"] and load["facet"] and load["condition"]
    monkeypatch.setitem(FIELDS, "colour", replace(colour, group="servers"))
    (own,) = (column for column in result_columns(runs) if column.id == "colour")
    assert [own.value(run) for run in runs] == ["red", None] and own.is_facet and own.label == "Colour"


def test_a_new_field_is_compared_and_checked(colour):
    assert properties({"colour": "red"})["colour"] == "red"
    red = Series("hnsw", colour="red")
    assert list(field_problems(point("x", red, colour="red"))) == []
    assert list(field_problems(point("x", red))) == ["does not say colour, and its series does"]
    assert list(field_problems(point("x", red, colour="blue"))) == ["says colour blue, and its series red"]
    assert "colour" not in checked_attributes({"colour": [5]}, ())
    assert red.label == "hnsw-colour-red" and json.loads(red.dump_json())["colour"] == "red"


def test_a_facet_of_servers():
    runs = [
        replace(make_run(), series=Series("hnsw", clients=1, **servers))
        for servers in ({}, {"shards": 4, "shard_engine": "fdw"}, {"shards": 16, "shard_engine": "fdw"},
                        {"replicas": 2}, {"pooler": "pgbouncer:session"})
    ]  # fmt: skip
    assert list(panels(runs, FACETS["servers"])) == [
        "one server", "through pgbouncer:session", "2 replicas", "4 shards asked by fdw",
        "16 shards asked by fdw",
    ]  # fmt: skip
    data = {column["id"]: column for column in points_data(runs, [])["columns"]}
    assert data["shards"]["values"] == [None, 4, 16, None, None] and data["replicas"]["facet"]
    assert data["pooler"]["words"] == ["pgbouncer:session"]


def test_results_are_named_by_no_hand_kept_list():
    """What a file of the framework says of fields, it says of single ones: no list of them is kept there."""
    names = {name for name in FIELDS if "_" in name}
    for path in Path("ann_benchmarks").rglob("*.py"):
        if path.parts[1] in ("fields", "algorithms", "run", "load", "jobs"):
            continue
        text = path.read_text()
        quoted = [name for name in names if f'"{name}"' in text]
        assert len(quoted) < 5, f"{path} lists {', '.join(sorted(quoted))}"

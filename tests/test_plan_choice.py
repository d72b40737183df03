"""What is stored of the plans of queries with filters."""

import json

import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres.session.statement import rows_removed
from ann_benchmarks.data.datasets import prepare_filters
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Note, PointDone
from ann_benchmarks.jobs.job import Execution, Job, Procedure
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.results.runs import load_runs

from .conftest import make_dataset
from .filtered_rows import QUERIES, TRAIN, K, attributes, filtered, one
from .programs import events_of

pytestmark = pytest.mark.thorough


def carried_out(definition: Definition, dataset: str, procedure: Procedure, point=()):
    """Measure one point in this process; return its result, and the notes."""
    filters = (procedure.filter,) if procedure.filter else ()
    if filters:
        prepare_filters(dataset, filters)
    job = Job(
        definition, [list(point)], dataset, 10, procedure, Execution(filters=filters, show_progress=False)
    )
    events = events_of(job)
    (done,) = [event for event in events if isinstance(event, PointDone)]
    return done.path, [event.text for event in events if isinstance(event, Note)]


def test_rows_that_steps_remove():
    plan = {
        **{"Node Type": "Limit", "Actual Loops": 1},
        "Plans": [
            {"Node Type": "Index Scan", "Actual Loops": 3, "Rows Removed by Filter": 10},
            {"Node Type": "Seq Scan", "Actual Loops": 1, "Rows Removed by Index Recheck": 4.0},
        ],
    }
    assert rows_removed(plan) == 34


def test_what_plans_lock_remove_and_read(plugin_server, workspace):
    make_dataset("larger", rows=3000, dimension=16, queries=40)
    method = {"M": 16, "efConstruction": 64, "attribute_index": "auto"}
    definition = Definition(
        *("pgvector_hnsw_indexed", "PGVectorHNSW", "ann_benchmarks.algorithms.pgvector_hnsw", "t"),
        *(["euclidean", method], [], False),
    )
    for how in ({}, {"load": Load(2, seconds=0.3), "warmup": Warmup("queries", 10)}):
        procedure = Procedure(1, filter="uniform:0.01", **how)
        path, _ = carried_out(definition, "larger", procedure, [40, None, "relaxed_order"])
        (run,) = load_runs([path])
        assert json.loads(run.attrs["plans"]) == {"generic: Index Scan (hnsw)": 1}
        assert run.attrs["blocks"] > 100
        assert run.metrics["locks"] == 3  # the table and its two indexes
        assert run.metrics["removed"] > 100 and 0 < run.metrics["planning"] < 100
        assert run.attrs["has_default_settings"] is False
        assert {"index_blocks_hit_per_query", "table_blocks_hit_per_query"} <= {*run.attrs}


def test_what_settings_are_defaults(plugin_server):
    algorithm = PGVectorHNSW("euclidean", {"M": 16, "efConstruction": 64})
    algorithm.set_row_attributes(attributes(only=("uniform",)))
    (query,) = filtered(one("uniform", "<", 30), QUERIES[:1])
    asked = {
        True: [({}, [40]), ({"plan_cache_mode": "auto"}, [40, None, "off"])],
        False: [({}, [41]), ({}, [40, 40]), ({"plan_cache_mode": "force_custom_plan"}, [40])],
    }
    try:
        for expected, cases in asked.items():
            for settings, arguments in cases:
                algorithm.use_settings(settings)
                algorithm.fit(TRAIN)
                algorithm.set_query_arguments(*arguments)
                algorithm.query(query, K)
                assert algorithm.get_additional()["has_default_settings"] is expected, (settings, arguments)
        # With the last of these settings.
        assert json.loads(algorithm.get_additional()["plans"]) == {"custom: Sort over Seq Scan": 1}
    finally:
        algorithm.use_settings({})
        algorithm.done()

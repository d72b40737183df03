"""Each attribute and array of honest bundles, tampered with in memory: what is not seen has a reason."""

from collections.abc import Iterator

import pytest

from .bundle_data import measured
from .load_bundles import measured_loads
from .tampered import HonestBundle, Try

pytestmark = pytest.mark.thorough
# Attributes, by the beginnings of their names, and which tamperings of them nothing shows.
DESCRIBE = """build_sql query_sql rows scanned_share command_line disk file_system python name version_names
given_settings settings expect_extra monitoring others_cpu warmup_ answers_shortened queries_answered_aside
queries_of_other_rounds target_trials target_most target_overstated runs_measured_again run_sent_once
rounds_requested rounds_ended deciles closed_loop_rate relaxation_seconds"""
# Others took CPU, or runs disagree: only the latencies of every run would show it.
SAID = """clients_were_limit runs_disagree run_others_cpu steady_state clients_all_busy_share caches_dropped
queries_in_train"""
# Numbers that are bounded, from one side or within the noise of a run, but not determined.
BOUNDED = """latency_ asking_seconds build_time candidates client_cpu clients_waiting_share
clients_late_seconds ended_at started_at index_size lead_in_seconds service_p asked_duration run_p50
run_started dist_comps target_ run_recalls rate result_format queries_asked queries_unanswered active_seconds
completeness_ short_answers_ run_server_cpu_seconds run_index_blocks_hit"""
# What a point says of its machine, where no other point of its curve and no system.json is beside it.
MACHINE = "cpu cores kernel memory_bytes framework_version part_version warmup"
UNSEEN = tuple(f"{DESCRIBE} {SAID} {BOUNDED} {MACHINE}".split())
MOST_UNSEEN = 0.35


@pytest.fixture(scope="module")
def bundles() -> Iterator[list[HonestBundle]]:
    yield [HonestBundle(folder / "bundle") for folder in (measured(), measured_loads())]


def test_nothing_is_said_of_honest_results(bundles: list[HonestBundle]):
    for bundle in bundles:
        for file, raw in bundle.raw.items():
            assert bundle.findings(file, raw) == []


def test_each_tampering_that_is_not_seen_is_known(bundles: list[HonestBundle]):
    tries: list[Try] = [one for bundle in bundles for one in bundle.attribute_tries()]
    tries += [one for bundle in bundles for one in bundle.surplus_tries()]
    unseen = [one for one in tries if not one.is_seen]
    assert [one for one in unseen if not one.name.startswith(UNSEEN)] == []
    assert len(unseen) < MOST_UNSEEN * len(tries)


def test_arrays_cannot_be_changed(bundles: list[HonestBundle]):
    unseen = {(one.kind, one.name) for bundle in bundles for one in bundle.array_tries() if not one.is_seen}
    # Answers of the same index are those of other clients, too.
    assert unseen <= {
        ("array reversed", "times"),
        *(("array of another point", name) for name in ("neighbors", "distances")),
    }

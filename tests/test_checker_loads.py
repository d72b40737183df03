"""Honest bundles of every kind of load pass."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.fields.series import Series
from ann_benchmarks.load.request import poisson_arrivals
from ann_benchmarks.load.spans import open_loop
from ann_benchmarks.submission.checking.attributes import difference
from ann_benchmarks.submission.checking.expected import open_figures
from ann_benchmarks.submission.checking.points import CheckedPoint

from .bundle_data import remake, set_attributes
from .checked_bundles import bundle, found, run_groups  # noqa: F401
from .client_answers import made_answers
from .load_bundles import BATCH, LOADS, TURNS, copied_loads, measured_loads
from .tampered_loads import within
from .tampering import on_a_tier
from .test_checker_honest import point

pytestmark = pytest.mark.thorough


@pytest.fixture
def loads(tmp_path: Path) -> Path:
    return copied_loads(tmp_path)


def test_an_honest_bundle_of_every_load_passes(monkeypatch: pytest.MonkeyPatch):
    folder = measured_loads()
    monkeypatch.chdir(folder)
    assert found(folder / "bundle", compares_data=True) == {}
    assert len([*folder.glob("bundle/results/*/*/*")]) == len(LOADS)


@pytest.mark.parametrize("available", [126.1, 129.9])
def test_a_small_tier_may_be_off_by_what_is_not_corrected(bundle: Path, available: float):  # noqa: F811
    on_a_tier(available)(bundle)
    remake(bundle)
    assert found(bundle).keys() <= {"complete", "report"}


def test_rounds_may_differ_by_more_than_noise(loads: Path):
    for path in loads.glob(f"results/*/*/{TURNS}/*.hdf5"):
        set_attributes(path, runs_disagree=True)
    remake(loads)
    assert found(loads).keys() <= {"report"}


def test_an_objective_that_is_kept_passes(loads: Path):
    within("p99.9:60s")(loads)
    remake(loads)
    assert found(loads).keys() <= {"report"}


def test_a_result_of_an_earlier_version_is_refused_by_one_line(loads: Path):
    path = next(loads.glob(f"results/*/*/{BATCH}/*.hdf5"))
    set_attributes(path, series=None)
    remake(loads)
    (line,) = [line for lines in found(loads).values() for line in lines]
    assert "has no series, seconds, truth or result_format 2" in line


def test_no_honest_open_loop_is_refused():
    for seed in range(60):
        with suppress(UserError):  # so much that nothing is answered after the lead-in
            point = opened(seed)
            for name, expected in open_figures(point).items():
                assert difference(point, name, expected) == "", (seed, name)


def opened(seed: int) -> CheckedPoint:
    """Return a point of clients that serve a queue, idle to overloaded, with or without a lead-in."""
    random = np.random.default_rng(seed)
    rate, clients, service = random.uniform(5, 400), int(random.integers(1, 5)), random.uniform(0.0005, 0.02)
    lead_in, seconds, patience = random.choice([0.0, 0.5]), random.uniform(0.2, 3), 1.0
    due = poisson_arrivals(rate, lead_in + seconds, [seed])
    if due[-1] < lead_in:
        due = np.append(due, lead_in + seconds / 2)
    free, answers = np.zeros(clients), [[] for _ in range(clients)]
    for moment in due:
        who = int(np.argmin(free))
        sent = max(moment, free[who])
        if sent <= due[-1] + patience:
            free[who] = sent + random.exponential(service)
            answers[who].append((moment, sent, free[who]))
    given = [np.array(one).T for one in answers if one]
    by_client = [made_answers(np.arange(len(one[0])), one[1], one[2], one[0]) for one in given]
    run = open_loop(by_client, due, patience, {"rate": rate, "clients": clients}, lead_in)
    attrs = {**run.facts, "best_search_time": run.seconds_per_query}
    series = Series("part", rate=rate, clients=clients)
    return replace(point("x", series, **attrs), times=run.times.astype(np.float32).astype(float))

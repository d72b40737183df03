"""Races that do not go well: contenders that fail, crash, hang or may not rest, and races that are cut."""

import signal
from pathlib import Path

import pytest

from ann_benchmarks.common.command import Ended
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.job import Job, Procedure
from ann_benchmarks.jobs.rounds import Race, Rounds
from ann_benchmarks.measure.turns_taken import TurnsTaken
from ann_benchmarks.results.file import iter_result_paths, read_attributes
from ann_benchmarks.results.measurement import CHAIN, chain_of
from ann_benchmarks.results.measurement import TURNS as TURN_NUMBERS
from ann_benchmarks.run import plan, rounds

from .programs import until
from .test_rounds import ANSWER, TURNS, TWO_POINTS, stored

pytestmark = pytest.mark.thorough

BREAKS = TURNS + "    if number == 2 and open('turns').read().count('2') == 3: raise ValueError('worn out')\n"
CRASHES = TURNS + "    if number == 2 and open('turns').read().count('2') == 3: os._exit(3)\n"


@pytest.mark.parametrize(("body", "reason"), [(BREAKS, "worn out"), (CRASHES, "status 3")])
def test_a_contender_that_fails_is_named(workspace, body: str, reason: str) -> None:
    workspace.add_plugin("a", body, TWO_POINTS)
    workspace.add_plugin("b", ANSWER)
    done = workspace.run("--rounds", "4")
    assert done.returncode == 1
    assert "failed: a(): " in done.stderr and reason in done.stderr
    assert "Traceback" not in done.stderr
    (attrs,) = stored().values()
    assert attrs["run_count"] == 4 and attrs["rounds_ended"] == "rounds"
    assert ("the others begin anew" in done.stderr) == (body == CRASHES)


def test_the_chain_of_a_race_is_that_of_its_results_without_a_point_that_has_failed(workspace) -> None:
    workspace.add_plugin("a", f"{BREAKS}def recover(self): pass\n", TWO_POINTS)
    done = workspace.run("--rounds", "4")
    assert done.returncode == 1 and "worn out" in done.stderr
    (attrs,) = stored().values()
    assert len(attrs["run_seconds"]) == 4
    chain = chain_of(attrs["rounds"], [attrs["run_seconds"]])
    assert (attrs["rounds_chain"], list(attrs["rounds_turns"])) == (chain[CHAIN], chain[TURN_NUMBERS])


@pytest.mark.parametrize(
    ("name", "fit", "reason"),
    [
        ("a", "os._exit(3)", "status 3"),
        ("z", "os._exit(3)", "status 3"),
        ("z", "time.sleep(600)", "--timeout"),
    ],
)
def test_a_build_that_ends_its_process_takes_no_other_contender_with_it(
    workspace, name: str, fit: str, reason: str
) -> None:
    workspace.add_plugin(name, f"{ANSWER}def fit(self, X): {fit}\n")
    workspace.add_plugin("b", ANSWER)
    limit = ("--timeout", "6") if reason == "--timeout" else ()  # the others have none
    done = workspace.run("--rounds", "4", *limit)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"failed: {name}(): ") and reason in lines[0]
    assert len(lines) == (1 if name == "a" else 2)  # b was in that process, and has to enter again
    assert [(name.partition("/")[0], attrs["run_count"]) for name, attrs in stored().items()] == [("b", 4)]


def test_plugins_that_cannot_rest_are_refused_before_anything_is_built(workspace) -> None:
    workspace.add_plugin(
        "a",
        f"{ANSWER}def fit(self, X): open('built', 'w')\n"
        "@classmethod\ndef check_turns(cls): raise RuntimeError('no right to rest')\n",
        {"args": [[1, 2]]},
    )
    done = workspace.run("--rounds", "4")
    assert done.returncode == 1 and "no right to rest" in done.stderr and not Path("built").exists()
    alone = workspace.run("--rounds", "4", "--max-n-algorithms", "1")
    assert alone.returncode == 0  # for which none has to rest


def test_what_a_server_lacks_is_said_before_anything_is_built_and_the_others_race(workspace) -> None:
    lacks = "@classmethod\ndef check_server(cls):\n    error = RuntimeError('it lacks some')\n"
    body = f"{ANSWER}{lacks}    error.is_unavailable = True\n    raise error\ndef fit(self, X): 1 / 0\n"
    workspace.add_plugin("a", body, {"args": [[1, 2]]})
    workspace.add_plugin("b", ANSWER)
    done = workspace.run("--rounds", "4")
    assert done.returncode == 0
    assert done.stderr == "warning: algorithm 'a' is skipped: it lacks some\n"
    assert [name.partition("/")[0] for name in stored()] == ["b"]
    named = workspace.run("--rounds", "4", "--algorithm", "a", "b", "--force")
    assert named.returncode == 1 and "algorithm 'a' cannot run here: it lacks some" in named.stderr


def test_an_interrupted_race_goes_on_with_its_rounds(workspace, monkeypatch) -> None:
    monkeypatch.setattr(rounds, "KEEP_SECONDS", 0.0)
    monkeypatch.setattr(rounds, "KEEP_SHARE", 1e9)
    end_round = Race.end_round

    def cut(race: Race) -> bool:
        if race.done == 3:
            raise Ended(signal.SIGINT)
        return end_round(race)

    workspace.add_plugin("a", f"has_found_index = True\n{TURNS}", TWO_POINTS)
    with monkeypatch.context() as cutting:
        cutting.setattr(Race, "end_round", cut)
        said = workspace.run("--rounds", "6").stderr
    assert said.startswith("interrupted; 3 rounds kept, with which the same command continues")
    kept = [TurnsTaken.read(path) for path in sorted(Path("results").rglob("*.turns"))]
    assert len(kept) == 2 and not list(iter_result_paths())
    assert "3 rounds of the interrupted race are kept" in workspace.run("--rounds", "6").stdout
    points = [read_attributes(path) for path in sorted(iter_result_paths())]
    for attrs, before in zip(points, kept, strict=True):
        assert attrs["run_rounds"] == [1, 2, 3, 4, 5, 6] and attrs["rounds"] == before.race[0]
        assert list(attrs["run_seconds"][:3]) == [run.seconds_per_query for run in before.runs]
        assert len(attrs["rounds_chain"].split()) == len(attrs["rounds_turns"]) == 6
    assert not list(Path("results").rglob("*.turns"))
    assert "nothing to do" in workspace.run("--rounds", "6").stdout


def test_an_interrupted_race_ends_with_a_line_and_begins_anew(workspace) -> None:
    workspace.add_plugin("a", TURNS, TWO_POINTS)
    process = workspace.start("--rounds", "200")
    until(lambda: Path("turns").exists() and len(Path("turns").read_text().split()) > 6)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "interrupted; no round is kept yet, the same command begins anew\n"
    assert "2 points" in workspace.run("--rounds", "4").stdout


def test_what_was_measured_in_turn_on_one_tier_stays_when_another_is_measured(monkeypatch) -> None:
    definition = Definition("a", "C", "m", "t", [], [], False)
    procedures = [Procedure(conditions=tier, rounds=Rounds(4)) for tier in ("done", "cut", "cut")]
    jobs = [Job(definition, [[]], "d", 10, procedure) for procedure in procedures]
    monkeypatch.setattr(plan, "_race_of", lambda one, *_: "mark" * (one.procedure.conditions == "done"))
    assert plan._are_anew([(one, {}, {}) for one in jobs]) == [False, True, True]


def test_a_race_of_earlier_versions_that_was_cut_is_not_finished(workspace, monkeypatch) -> None:
    workspace.add_plugin("a", ANSWER)
    workspace.run("--rounds", "3")
    (path,) = iter_result_paths()
    mark = read_attributes(path)["rounds"]
    assert "nothing to do" in workspace.run().stdout
    monkeypatch.setattr(plan, "read_attributes", lambda path: {"rounds": mark})  # without their end
    cut = plan.unfinished(path, Procedure(), "")
    assert cut is not None and cut.endswith("is of rounds that were interrupted")

"""Contenders in turn: every point once a round, in random order, in one process and on one server."""

import random
import re
import signal
from collections import Counter
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.commands.run import every_job
from ann_benchmarks.common.command import Ended
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import PointDone
from ann_benchmarks.jobs.job import Job, JobRequest, Procedure
from ann_benchmarks.jobs.rounds import Contender, Race, Rounds, read_share, read_time, shares_of_budget
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.spans import Measured
from ann_benchmarks.load.warmup import Caches, warm_up
from ann_benchmarks.measure import loaded_point
from ann_benchmarks.measure.answers import filled
from ann_benchmarks.measure.rounds import Contenders, Enter, Keep, Save, Turn
from ann_benchmarks.measure.turns_taken import TurnsTaken
from ann_benchmarks.results.file import iter_result_paths, read_attributes, read_result
from ann_benchmarks.results.measurement import CHAIN, chain_of
from ann_benchmarks.results.measurement import TURNS as TURN_NUMBERS
from ann_benchmarks.run import plan
from ann_benchmarks.run import rounds as running_rounds
from ann_benchmarks.run.race import conclusions
from ann_benchmarks.run.request import read_request
from ann_benchmarks.run.rounds import clients_of, draw_order
from ann_benchmarks.statistics.contests import FEWEST_ROUNDS
from ann_benchmarks.statistics.intervals import Interval

from .conftest import make_dataset
from .programs import until

pytestmark = pytest.mark.thorough

ANSWER = "def query(self, q, n):\n    time.sleep(0.0005)\n    return list(range(n))\n"
TURNS = ANSWER + "def set_query_arguments(self, number):\n    open('turns', 'a').write(f'{number} ')\n"
COUNTED = ANSWER.replace("    time", "    open('queries', 'a').write('.')\n    time")
TWO_POINTS = {"args": [], "query_args": [[1, 2]]}


def stored() -> dict[str, dict]:
    return {f"{path.parent.name}/{path.stem}": read_attributes(path) for path in iter_result_paths()}


# What is measured and stored


def test_each_round_measures_every_point_once_in_an_order_of_its_own(workspace) -> None:
    workspace.add_plugin("a", TURNS, TWO_POINTS)
    workspace.add_plugin("b", ANSWER)
    done = workspace.run("--rounds", "6")
    assert (done.returncode, done.stderr) == (0, "")
    assert "6 rounds in" in done.stdout and "in turn: 6 rounds" in done.stdout
    points = stored()
    assert len(points) == 3
    assert len({attrs["rounds"] for attrs in points.values()}) == 1
    starts = []
    for name, attrs in points.items():
        assert attrs["run_count"] == len(attrs["run_seconds"]) == 6
        assert attrs["run_rounds"] == [1, 2, 3, 4, 5, 6]
        starts += [
            (moment, number, name)
            for moment, number in zip(attrs["run_started"], attrs["run_rounds"], strict=True)
        ]
    order = [[name for *_, name in group] for _, group in groupby(sorted(starts), key=lambda turn: turn[1])]
    assert len(order) == 6  # no round begins before the one before it has ended
    assert all(sorted(names) == sorted(points) for names in order)
    assert len({tuple(names) for names in order}) > 1


def test_an_index_is_switched_on_once_a_round() -> None:
    jobs, running = {}, []
    for algorithm in ("a", "b", "c"):
        definition = Definition(algorithm, "", "", "", [], [[1], [2]], False)
        for clients in (1, 4, 16):
            job = Job(definition, [[1], [2]], "tiny", 10, Procedure(load=Load(clients)))
            jobs[job.label()] = job
            running += [Contender(job.label(), point, str(clients), False) for point in (0, 1)]
    orders = [draw_order(running, jobs) for _ in range(100)]
    for order in orders:
        assert sorted(order, key=running.index) == running
        each = [(jobs[one.job].definition.algorithm, clients_of(jobs[one.job])) for one in order]
        indexes = [name for name, _ in groupby(each, lambda one: one[0])]
        assert sorted(indexes) == ["a", "b", "c"]  # each in one piece
        assert [clients for _, clients in each] == [16, 16, 4, 4, 1, 1] * 3
    firsts = Counter(jobs[order[0].job].definition.algorithm for order in orders)
    assert min(firsts.values()) > 15 and len(firsts) == 3
    assert {order[0].point for order in orders} == {0, 1}


def test_in_the_first_round_more_clients_answer_every_query_also_for_fewer(workspace) -> None:
    make_dataset(queries=500)
    workspace.add_plugin("a", COUNTED)
    done = workspace.run("--rounds", "4", "--clients", "1,3,2", "--max-queries", "60", "--warmup", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    starts = {attrs["run_started"][0]: attrs["clients"] for attrs in stored().values()}
    assert [starts[moment] for moment in sorted(starts)] == [3, 2, 1]
    # The first turn has all 500 queries answered, each of the eleven others 60. A turn is warmed up by 3, and
    # sends its 60 once more where others took the CPU.
    repeats = sum(attrs["runs_measured_again"] for attrs in stored().values())
    assert len(Path("queries").read_text()) == 500 + 11 * 60 + 12 * 3 + repeats * 60


def test_points_are_shown_in_the_order_of_their_arguments(workspace) -> None:
    depths = list("123456")
    workspace.add_plugin("a", TURNS, {"args": [], "query_args": [[*map(int, depths)]]})
    shown = workspace.run("--rounds", "1").stdout
    assert re.findall(r"^a\((\d)\): recall", shown, re.MULTILINE) == depths
    assert re.findall(r"^a\((\d)\) +\d\.\d{4} +[\d,.]+ +-", shown, re.MULTILINE) == depths  # the table


def test_a_new_contender_is_measured_in_turn_with_all_others(workspace) -> None:
    workspace.add_plugin("a", ANSWER)
    workspace.run("--rounds", "4")
    assert "nothing to do: 1 point finished before" in workspace.run("--rounds", "4").stdout
    (first,) = stored().values()
    workspace.add_plugin("b", ANSWER)
    assert workspace.run("--rounds", "4").returncode == 0
    marks = {attrs["rounds"] for attrs in stored().values()}
    assert len(stored()) == 2 and len(marks) == 1 and first["rounds"] not in marks
    assert "nothing to do" not in workspace.run("--rounds", "5").stdout


@pytest.mark.parametrize("options", [[], ["--max-n-algorithms", "1"]])
def test_who_cannot_be_measured_has_nobody_measured_again(workspace, options: list[str]) -> None:
    workspace.add_plugin("a", ANSWER)
    workspace.add_plugin("b", ANSWER if options else f"import not_there\n{ANSWER}")
    workspace.run("--rounds", "2", *options)
    (before,) = stored().values()
    done = workspace.run("--rounds", "2", *options)
    assert done.returncode == 0 and "nothing to do: 1 point finished before" in done.stdout
    assert [attrs["rounds"] for attrs in stored().values()] == [before["rounds"]]
    assert "nothing to do" not in workspace.run("--rounds", "2", "--force", *options).stdout


def test_each_point_stores_what_the_plugin_said_in_its_own_turn(workspace) -> None:
    """A plug-in says what it did last, as a session its settings, and another point's turn was the last."""
    body = (
        "def set_query_arguments(self, number): self.number = number\n"
        "def query(self, q, n):\n    self.said = self.number\n    return list(range(n))\n"
        "def get_additional(self): return {'number': self.said}\n"
    )
    workspace.add_plugin("a", body, TWO_POINTS)
    assert workspace.run("--rounds", "3").returncode == 0
    assert {name: attrs["number"] for name, attrs in stored().items()} == {"a/1": 1, "a/2": 2}


SEARCHED = """
def __init__(self, slow, least, most, shaky=0):
    self.seconds, self.least, self.most = slow / 1000, least, most
    self.others = lambda now: (2 * slow + shaky) / 1000 - now if shaky else now
def fit(self, X): self.rows = X
def search_range(self, count):
    from types import SimpleNamespace
    return SimpleNamespace(parameter="ef", values=list(range(1, 11)), arguments=lambda value: [value])
def set_query_arguments(self, ef):
    self.right, self.seconds = min(max(ef, self.least), self.most), self.others(self.seconds)
def query(self, q, n):
    time.sleep(self.seconds)
    return np.argsort(((self.rows - q) ** 2).sum(1))[:n][: self.right].tolist()
"""


def test_who_misses_the_target_puts_nobody_out_of_the_race(workspace) -> None:
    for name, arguments in (("a", [2, 0, 10]), ("b", [1, 0, 10, 2]), ("hasty", [0.1, 0, 5])):
        workspace.add_plugin(name, SEARCHED, {"args": [[x] for x in arguments]})
    done = workspace.run("--target-recall", "0.9", "--until", "1%", "--rounds", "6")
    rounds = {name.partition("/")[0]: len(attrs["run_rounds"]) for name, attrs in stored().items()}
    assert rounds == {"a": 6, "b": 6, "hasty": 4}
    assert "hasty is" not in done.stdout and "as hasty" not in done.stdout


@pytest.mark.parametrize(
    ("options", "least", "said"),
    [
        (["--rounds", "5"], 9, "a and b cannot be told apart, because b has only higher recalls"),
        (["--rounds", "3"], 0, "as fast as a (from too few rounds to say how sure that is)"),
    ],
)
def test_what_rounds_have_shown_is_no_more_than_they_have(workspace, options, least: int, said: str) -> None:
    for name, arguments in (("a", [3, 0, 10]), ("b", [9 if least else 1, least, 10])):
        workspace.add_plugin(name, SEARCHED, {"args": [[x] for x in arguments]})
    done = workspace.run("--target-recall", "0.6", *options)
    assert done.returncode == 0 and said in done.stdout
    assert "(95% interval" not in done.stdout and ("times as fast" in done.stdout) == ("too few" in said)


def test_a_throughput_that_was_given_shows_nothing(workspace) -> None:
    words = "--local --dataset tiny --algorithm pgvector_hnsw --target-recall 0.9 --rounds 4 --clients 1"
    (job, *_) = every_job(read_request([*words.split(), "--rate", "50"]))
    path = job.path(job.points[0])
    done = PointDone("a", path, 0.9, Interval(0.9, 0.9), 4, 50.0, None, None, None, None, 1.0)
    assert list(conclusions([job], [done])) == []  # no file was read


def test_a_budget_ends_a_race_after_whole_rounds(workspace) -> None:
    workspace.add_plugin("a", "def query(self, q, n):\n    time.sleep(0.002)\n    return list(range(n))\n")
    done = workspace.run("--budget", "4s")
    (attrs,) = stored().values()
    assert done.returncode == 0 and attrs["rounds_ended"] == "budget"
    assert attrs["run_count"] >= FEWEST_ROUNDS
    assert attrs["run_count"] == FEWEST_ROUNDS or "of --budget" not in done.stdout


def test_the_least_number_of_rounds_may_take_longer_than_the_budget_which_is_said(workspace) -> None:
    workspace.add_plugin("a", "def query(self, q, n):\n    time.sleep(0.02)\n    return list(range(n))\n")
    done = workspace.run("--budget", "1s")
    (attrs,) = stored().values()
    assert attrs["run_count"] == FEWEST_ROUNDS
    (seconds,) = re.findall(r"^measuring took (\d+) s instead of the 1 s of --budget", done.stdout, re.M)
    assert float(seconds) >= 4 * 20 * 0.02
    assert re.search(r"^round 1, 1 contender, \d+ s left at most$", done.stdout, re.M)


def test_the_first_and_the_last_of_several_races_have_more_of_a_budget() -> None:
    left, parts = 9.0, []
    for share in shares_of_budget(6):
        parts.append(share * left)
        left -= parts[-1]
    assert parts == pytest.approx([3, 1, 1, 1, 1, 2])
    assert shares_of_budget(1) == [1] and shares_of_budget(2) == pytest.approx([0.6, 1])


def test_queries_that_a_round_has_not_sent_have_the_answers_of_others() -> None:
    def run(answers: list[int], counted: list[bool]) -> Measured:
        return Measured(np.ones(2), np.array(answers)[:, None], 1.0, {}, np.array(counted))

    first = run([5, 6, 7], [True, False, False])  # the last two were answered aside
    second, third = run([-1, 8, -1], [False, True, False]), run([-1, -1, -1], [False, False, False])
    runs = filled([first, second, third])
    assert [each.neighbors[:, 0].tolist() for each in runs] == [[5, 8, 7]] * 3
    assert [each.facts["queries_answered_aside"] for each in runs] == [1, 1, 1]


# When a race is over


def race_of(names: str, rounds: Rounds) -> tuple[Race, dict[str, Contender]]:
    contenders = {name: Contender(name, 0, "field", True) for name in names}
    return Race(list(contenders.values()), rounds), contenders


def run_race(speeds: dict[str, float], rounds: Rounds, seed: int) -> Race:
    """Drift that all share, and noise of each run; `speeds` are seconds a query."""
    race, _ = race_of("".join(speeds), rounds)
    chance = random.Random(seed)
    drift = 0.0
    for number in range(1, rounds.most + 1):
        drift = 0.98 * drift + chance.gauss(0, 0.05)
        for contender in list(race.running):
            seconds = speeds[contender.job] * np.exp(drift + chance.gauss(0, 0.09))
            race.note(contender, number, seconds)
        if race.end_round():
            break
    return race


def test_equal_contenders_are_seldom_told_apart() -> None:
    rounds = Rounds(number=60, until=0.03)
    found = Counter()
    for seed in range(200):
        race = run_race({"a": 1.0, "b": 1.0, "c": 1.0}, rounds, seed)
        found["out"] += bool(race.out)
    assert found["out"] <= 16  # 5% of 200, and three standard deviations of chance


def test_a_difference_is_found_and_the_slow_one_is_out_early() -> None:
    speeds = {"a": 1.0, "b": 1.1, "c": 3.0, "d": 7.0}
    races = [run_race(speeds, Rounds(until=0.05), seed) for seed in range(20)]
    for race in races:
        assert [len(race._logs[one]) for one in race.out if one.job == "d"] == [1]  # far behind
        (slow,) = (contender for contender in race.out if contender.job == "c")
        ratio = race.compare(race.running[0], slow)
        assert ratio.repetitions[0] <= 9 and ratio.ratio == pytest.approx(3, rel=0.25)
    assert sum(race.running[0].job == "a" for race in races) >= 18
    assert max(race.done for race in races) <= 80


def test_a_ratio_holds_its_interval_under_drift() -> None:
    inside = 0
    for seed in range(400):
        race = run_race({"a": 1.0, "b": 1.1}, Rounds(number=12), seed)
        low, high = race.compare(*race.running).interval(0.05)
        inside += low <= 1.1 <= high
    assert inside >= 0.92 * 400


def test_shares_and_times() -> None:
    assert (read_share("5%"), read_time("90s"), read_time("1.5m"), read_time("2h")) == (0.05, 90, 90, 7200)


# On a real server


@pytest.mark.parametrize("ram", ["", "1MB"])
def test_each_turn_uses_the_index_of_its_own(tmp_path, monkeypatch, plugin_server, ram: str) -> None:
    """Two graphs of one table, by one client and by two; the search for the recall is made once for each.

    Where the memory is short, as is said here, every query is sent again after another graph was used.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANN_BENCHMARKS_PG_RAM", ram)
    make_dataset(rows=2000, queries=50)
    words = (
        "--local --dataset tiny --algorithm pgvector_hnsw --target-recall 0.9 --clients 1,2 --duration 0.1"
    )
    args = read_request([*words.split(), "--rounds", "2", "--max-n-algorithms", "2"])
    every = list(every_job(args))
    chosen = {str(job.definition) for job in every[:4]}
    jobs = [job for job in every if str(job.definition) in chosen][:4]
    assert len(jobs) == 4 and len(chosen) == 2
    found: list[Caches] = []  # by warm-ups
    monkeypatch.setattr(loaded_point, "warm_up", lambda *how: found.append(how[4]) or warm_up(*how))
    said: list = []
    contenders = Contenders()
    used = [str(jobs[-1].definition)]  # the one that enters last
    unused, expected, has_searched = set(chosen), [], []
    try:
        for job in jobs:
            contenders.carry_out(Enter(JobRequest(job)), said.append)
        for number in (1, 2):
            for job in random.sample(jobs, len(jobs)):
                contenders.carry_out(Turn(job.label(), 0, number), said.append)
                used.append(str(job.definition))
                if ram and used[-1] != used[-2]:
                    unused.add(used[-1])
                expected.append(Caches.UNUSED if used[-1] in unused else Caches.WARM)
                has_searched.append(used[-1] not in used[1:-1])
                unused.discard(used[-1])
            for job in jobs:  # which takes no turn
                contenders.carry_out(Save(job.label(), ("mark", "2 rounds", number)), said.append)
        said.clear()
        for job in jobs:
            contenders.carry_out(Keep(job.label(), {"rounds": "mark"}), said.append)
    finally:
        contenders.close()
    assert sum(isinstance(event, PointDone) for event in said) == 4
    plans, trials, sent_once = {}, [], []
    for path in iter_result_paths():
        result = read_result(path)
        attrs = result.attrs
        assert attrs["run_rounds"] == [1, 2] and attrs["run_count"] == 2
        assert "sent_once" not in attrs and all(share in (0, 1) for share in attrs["run_sent_once"])
        sent_once += attrs["run_sent_once"]
        assert (result.neighbors >= 0).all() and min(attrs["run_recalls"]) >= 0.85
        plans.setdefault(str(attrs["build_arguments"]), set()).add(
            attrs["plan"].split('"Index Name": "')[1].split('"')[0]
        )
        trials.append(attrs["target_trials"])
    assert sent_once.count(1) == expected.count(Caches.UNUSED)
    assert len(plans) == 2 and all(len(names) == 1 for names in plans.values())
    assert len(set().union(*plans.values())) == 2
    assert sorted(trials)[:2] == [0, 0]
    assert found == [
        Caches.WARM if sent_all else caches for caches, sent_all in zip(expected, has_searched, strict=True)
    ]
    assert ram or expected.count(Caches.UNUSED) == 2  # once for each, by whichever clients


# Races that do not go well: contenders that fail, crash, hang or may not rest, and races that are cut.


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
    monkeypatch.setattr(running_rounds, "KEEP_SECONDS", 0.0)
    monkeypatch.setattr(running_rounds, "KEEP_SHARE", 1e9)
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

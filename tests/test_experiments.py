"""Experiments: files whose mistakes are named with their line, carried out, and judged."""

import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from ann_benchmarks.commands.run import every_job, requested_definitions
from ann_benchmarks.common.command import Ended
from ann_benchmarks.common.errors import NoDefinitionRuns, UserError
from ann_benchmarks.common.layout import DEFINITIONS_FOLDER
from ann_benchmarks.data.datasets import canonical_name, get_dataset
from ann_benchmarks.data.datasets.registry import find_entry
from ann_benchmarks.definitions.configs import read_configs, replace_run_groups
from ann_benchmarks.definitions.definition import Data, Definition, plugin_class
from ann_benchmarks.definitions.selection import apply_settings, named_algorithms, select_definitions
from ann_benchmarks.experiments.carrying_out import carry_out, command_of, report_arguments, step_request
from ann_benchmarks.experiments.findings import StepPoint, judged, selected
from ann_benchmarks.experiments.report import CLAIM_COLUMNS, report_experiment, report_of
from ann_benchmarks.experiments.schema import FOLDER, Claim, Options, find_experiment, read_experiment
from ann_benchmarks.fields.series import Series
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.jobs.rounds import read_time
from ann_benchmarks.published import published
from ann_benchmarks.reporting.content import Chapter
from ann_benchmarks.results.cache import CACHE_NAME
from ann_benchmarks.results.records import Phase, Record
from ann_benchmarks.results.runs import Run
from ann_benchmarks.run.command_line import make_parser
from ann_benchmarks.statistics.contests import FEWEST_ROUNDS
from ann_benchmarks.submission.manifest import read_manifest
from tiers.parse import parse_tiers

from .programs import ROOT, call_program
from .report_data import make_rate

SHIPPED = sorted(FOLDER.glob("*.yml"))
SMALL = """\
title: A small one
text: how it is measured
steps:
- name: first
  run: {algorithm: bruteforce-numpy, dataset: clustered-500-8-euclidean, runs: 1}
  mini: {run: {runs: 2, count: 5}, text: smaller}
- name: second
  title: with clients
  run: {algorithm: bruteforce-numpy, dataset: clustered-500-8-ip, clients: [1, 2], runs: 2, duration: 0.3}
  tables: [{kind: points}]
- name: third
  run: {algorithm: bruteforce-numpy, dataset: no-such-dataset}
  mini: {skip: not measured here}
findings:
- {says: it finds all, published: "1.0", compare: value, metric: recall, of: {step: first}, least: 0.999}
- {says: two are slower, published: "2", compare: ratio, of: {step: second, clients: 2},
   to: {step: second, clients: 1}, least: 100, mini: {not-testable: too small}}
- {says: a third, published: "-", compare: value, of: {step: third}, least: 1}
"""


@pytest.fixture
def options():
    return Options(make_parser())


def written(tmp_path, text):
    path = tmp_path / "small.yml"
    path.write_text(text)
    return path


def run(tmp_path, *arguments, program="run.py"):
    return call_program(program, "--local", *arguments, cwd=tmp_path)


@pytest.mark.parametrize("is_mini", [False, True])
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_what_comes_along_can_be_read(path, is_mini, options):
    experiment = read_experiment(path, is_mini, options)
    assert experiment.title and experiment.text and experiment.steps
    assert [step for step in experiment.steps if not step.skip]
    assert is_mini or not [step for step in experiment.steps if step.skip]


@pytest.mark.parametrize("end", [NoDefinitionRuns("the folder is in use"), Ended(signal.SIGTERM)])
def test_what_no_step_can_run_without_ends_the_experiment(tmp_path, end):
    ran = []

    def run_step(args):
        ran.append(args)
        raise end

    with pytest.raises(type(end)):
        carry_out(["--experiment", str(written(tmp_path, SMALL)), "--local"], make_parser(), run_step)
    assert len(ran) == 1


PLANNED = ["comparison", "inserts", "limits", "maintenance-memory", "read-path", "year-in-review"]


@pytest.mark.parametrize("is_mini", [False, True])
@pytest.mark.parametrize("name", PLANNED)
def test_arguments_fit_and_every_selection_means_a_point_that_is_planned(name, is_mini, options):
    experiment = read_experiment(find_experiment(name), is_mini, options)
    configs, _ = read_configs(DEFINITIONS_FOLDER)
    planned, tiers = {}, {}
    for step in experiment.steps:
        request = options.parse(step.arguments)
        entry = find_entry(canonical_name(request.dataset))
        if step.skip or entry is None:
            continue
        data = Data(entry.name, entry.rows, entry.dimension, entry.distance)
        changed = replace_run_groups(configs, step.groups)
        found = select_definitions(changed, named_algorithms(request.algorithm), data, 10)
        assert {named[0] for named in named_algorithms(request.algorithm)} == {one.algorithm for one in found}
        planned[step.name] = []
        every = (request.tiers, data.rows, data.dimension, 2**41)
        tiers[step.name] = parse_tiers(*every) if request.tiers else []
        for definition in apply_settings(found, request.setting):
            plugin = plugin_class(definition).constructor(*definition.arguments)
            for arguments in definition.points():
                plugin.set_query_arguments(*arguments)
                job = Job(definition, [], entry.name, 10)
                planned[step.name].append(replace(point("a", 1.0), job=job, query_arguments=arguments))
    for claim in experiment.claims:
        for selection in filter(None, () if claim.not_testable else (claim.of, claim.to)):
            steps = [selection["step"]] if "step" in selection else list(planned)
            keys = {"algorithm", "version", "build", "query", "setting"} & {*selection}
            points = [each for step in steps for each in planned[step]]
            assert any(all(each.matches(key, selection[key]) for key in keys) for each in points), claim.says
            known = {str(tier) for step in steps for tier in tiers[step]}
            assert selection.get("tier") in {None, *known}, claim.says


def test_every_ratio_that_the_report_states_is_a_finding(options):
    claims = read_experiment(find_experiment("comparison"), False, options).claims
    figures = [float(found[1]) for claim in claims if (found := re.match(r"([\d.]+) times", claim.published))]
    for row in (row for name in ("5m", "100m", "1b") for row in published(name).table("claims").rows):
        stated = (row["value"], 1 / row["value"])
        assert any(one == pytest.approx(each, rel=0.05) for one in figures for each in stated), row


def test_claims_are_one_table(tmp_path):
    done = run(tmp_path, "--claims", program="report.py")
    assert done.returncode == 0 and "wrote reports/claims/claims.md" in done.stdout, done.stderr
    rows = [
        line for line in (tmp_path / "reports/claims/claims.md").read_text().splitlines() if line[0:2] == "| "
    ]
    cells = [re.split(r" \| ", row.strip("| ")) for row in rows]
    assert cells[0] == list(CLAIM_COLUMNS) and {len(row) for row in cells} == {len(CLAIM_COLUMNS)}
    assert {row[5] for row in cells[2:]} == {"not measured", "not testable here"}


MISTAKES = [
    ("title: A small one", "titel: A", r":1: unknown key 'titel'.*did you mean 'title'"),
    ("name: second", "name: first", r":7: the step 'first' stands here a second time"),
    ("clients: [1, 2]", "cleints: [1]", r":9: unknown option 'cleints' of run.py; did you mean 'clients'"),
    ("clients: [1, 2]", "clients: [1, 0]", r":9: argument --clients: .*'0' is not a whole number"),
    ("runs: 2, duration: 0.3", "local: true", r":9: unknown option 'local'"),
    ("run: {runs: 2, count: 5}", "run: {runs: {a: 1}}", r":6: the option 'runs' cannot be {'a': 1}"),
    ("mini: {skip: not measured here}", "mini: {scip: x}", r":13: unknown key 'scip'.*did you mean 'skip'"),
    ("{kind: points}", "{kind: pionts}", r":10: unknown kind 'pionts'; did you mean 'points'"),
    ("compare: value", "compare: sum", r":15: unknown comparison 'sum'; known are: ratio"),
    ("of: {step: first}", "of: {step: forst}", r":15: unknown step 'forst'; did you mean 'first'"),
    ("of: {step: first}", "of: {stepp: first}", r":15: unknown key 'stepp'"),
    ("least: 0.999", "least: a lot", r":15: 'least' must be a number, not 'a lot'"),
    (", least: 0.999", "", r":15: give the bound that the finding keeps"),
    ("  title: with clients", "  title: a\n  title: b", r":9: the key 'title' stands here a second"),
    ("  title: with clients", "  sample: 0", r":8: 'sample' must be a whole number from 1 to 1024"),
    ("  title: with clients", "  sample: true", r":8: 'sample' must be a whole number from 1 to 1024"),
    ("  title: with clients", "  groups: {a: {b: {arg: 1}}}", r":8: unknown key 'arg' in run group 'b'"),
    (', published: "1.0"', "", r":15: the finding has no 'published'"),
    ("least: 0.999", "least: .nan", r":15: 'least' must be a number, not nan"),
    ("least: 0.999", "least: true", r":15: 'least' must be a number, not True"),
    ("metric: recall", "metric: [recall]", r":15: 'metric' must be a text"),
    ("algorithm: bruteforce-numpy", "algorithm: --force", r":5: the value of 'algorithm' begins with '-'"),
    ("  title: with clients", "  install: [{build-arg: [A=B]}]", r":8: options of install.py has no 'algo"),
    ("  title: with clients", "  install: [{algorithm: --local}]", r":8: '--local' is an option of install"),
    ("  title: with clients", "  settings: {work mem: 4MB}", r":8: 'work mem' is not a setting"),
]


@pytest.mark.parametrize("old, new, message", MISTAKES)
def test_a_mistake_is_named_with_its_line(tmp_path, options, old, new, message):
    assert old in SMALL
    path = written(tmp_path, SMALL.replace(old, new, 1))
    with pytest.raises(UserError, match=message) as error:
        read_experiment(path, True, options)
    assert str(path) in str(error.value)


def test_a_miniature_differs_where_it_says_so(tmp_path, options):
    path = written(tmp_path, SMALL)
    full, mini = (read_experiment(path, is_mini, options) for is_mini in (False, True))
    assert full.name == "small" and mini.name == "small-mini"
    assert full.steps[0].arguments[-2:] == ["--runs", "1"] and not full.steps[0].text
    assert mini.steps[0].arguments[-4:] == ["--runs", "2", "--count", "5"] and mini.steps[0].text == "smaller"
    assert full.steps[1] == mini.steps[1]
    assert (full.steps[2].skip, mini.steps[2].skip) == ("", "not measured here")


def test_names_and_unknown_names(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    Path("storage").mkdir()  # in which containers keep what outlives them
    assert find_experiment("storage") == FOLDER / "storage.yml"
    shipped = read_experiment(find_experiment("storage"), True, options)
    assert report_arguments(shipped, ["--local"]) == ["--experiment", "storage", "--mini", "--local"]
    own = read_experiment(written(tmp_path, SMALL), False, options)
    assert report_arguments(own, []) == ["--experiment", str(tmp_path / "small.yml")]
    with pytest.raises(UserError, match="unknown experiment 'storag': give a file, or one of .*storage"):
        find_experiment("storag")


@pytest.mark.thorough
def test_an_experiment_is_carried_out_and_goes_on(tmp_path, monkeypatch):
    path = written(tmp_path, SMALL)
    done = run(tmp_path, "--experiment", path)
    assert done.returncode == 1 and "not complete: third; the same command continues" in done.stdout
    assert "step third: unknown dataset 'no-such-dataset'" in done.stderr
    assert "step 2 of 3, second: with clients" in done.stdout and "Traceback" not in done.stderr
    assert len(list(tmp_path.glob("results/*/10/*/*.hdf5"))) == 3
    mini = run(tmp_path, "--experiment", path, "--mini")
    assert mini.returncode == 0 and "nothing to do: 2 points finished before" in mini.stdout
    assert "report: python report.py --experiment" in mini.stdout and "--mini --local" in mini.stdout

    monkeypatch.chdir(tmp_path)
    name, report = report_of(str(path), False, make_parser(), ["--local"], every_job)
    assert name == "small" and [len(chapter.runs) for chapter in report.chapters] == [1, 2, 0]
    assert report.chapters[2].missing and not report.chapters[1].missing
    verdicts = [finding.verdict for finding in report.findings]
    assert verdicts == ["reproduced", "not reproduced", "not measured"]
    done = run(tmp_path, "--experiment", path, "-o", "made", program="report.py")
    assert done.returncode == 0 and "wrote made/report.html" in done.stdout, done.stderr
    assert "not reproduced" in (tmp_path / "made" / "report.md").read_text()
    for cache in tmp_path.glob(f"results/*/{CACHE_NAME}"):  # as if the figures in it were computed otherwise
        stale, count = re.subn('"qps": [0-9.]+', '"qps": 1.5', cache.read_text())
        assert count
        cache.write_text(stale)
    words = ["--experiment", str(path), "--bundle", "bundle", "--division", "open"]
    with pytest.raises(UserError, match="has other figures than before: add --recompute"):
        report_experiment([*words, "--local"], make_parser(), every_job)
    done = run(tmp_path, *words, "--recompute", program="report.py")
    assert done.returncode == 0 and "wrote bundle/manifest.json" in done.stdout, done.stderr
    manifest = read_manifest(tmp_path / "bundle")
    assert manifest.experiment == "small" and not manifest.mini and {"experiment.yml"} < set(manifest.files)
    assert str(tmp_path) not in (tmp_path / "bundle" / "report" / "report.md").read_text()
    _, report = report_of(str(path), True, make_parser(), ["--local"], every_job)
    assert [finding.verdict for finding in report.findings][1:] == ["not testable here", "not measured"]
    assert report.chapters[2] == Chapter(report.chapters[2].title, "Left out: not measured here.")


def test_a_report_gets_no_dataset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, SMALL.replace("no-such-dataset", "clustered-5k-8-ip"))
    _, report = report_of(str(path), False, make_parser(), ["--local"], every_job)
    assert report.chapters[2].missing[0].startswith("the dataset clustered-5k-8-ip is not here")
    assert not (tmp_path / "data").exists()


def test_a_damaged_record_is_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    get_dataset("clustered-300-4-euclidean")[0].close()
    step = "{algorithm: pgvector_hnsw, dataset: clustered-300-4-euclidean, workload: inserts, writers: [1]}"
    path = written(tmp_path, f"title: One\ntext: one\nsteps:\n- name: only\n  run: {step}\n")
    places = []

    def jobs_of(args):
        jobs = list(every_job(args))
        places.extend(place for job in jobs for place, _ in job.paths())
        return jobs

    (before,) = report_of(str(path), False, make_parser(), ["--local"], jobs_of)[1].chapters
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("{")
    (after,) = report_of(str(path), False, make_parser(), ["--local"], jobs_of)[1].chapters
    assert before.missing == after.missing != [] and not after.records
    assert f"skipped {places[0]}: cannot be read" in capsys.readouterr().err


def test_what_the_command_line_says_wins(tmp_path):
    path = written(tmp_path, SMALL[: SMALL.index("- name: second")])
    done = run(tmp_path, "--experiment", path, "--dataset", "clustered-300-4-euclidean")
    assert done.returncode == 0, done.stderr
    datasets = {found.parts[-4] for found in tmp_path.glob("results/*/10/*/*.hdf5")}
    assert datasets == {"clustered-300-4-euclidean"}
    for words, said in (
        (["--experiment", path, "--cleints", "3"], "--cleints"),
        (["--mini"], "--experiment"),
    ):
        refused = run(tmp_path, *words)
        assert refused.returncode == 1 and said in refused.stderr and "Traceback" not in refused.stderr


def point(algorithm, qps, arguments=({"M": 16},), query=(40,), recall=0.95, **attrs):
    definition = Definition(algorithm, "C", "m", "t", list(arguments), [], False)
    metrics = {"recall": recall, "qps": qps, "p99": 1000 / qps, "build": 1.0, "indexsize": 1.0}
    seconds = [1 / (qps * share) for share in (0.98, 1.0, 1.02)]
    given = {
        "clients": 1,
        "qps_low": qps * 0.9,
        "qps_high": qps * 1.1,
        "run_count": 3,
        "run_seconds": seconds,
        **attrs,
    }
    outcome = Run("d", 10, "euclidean", Series(algorithm), "p", metrics, given)
    return StepPoint("s", Job(definition, [], "d", 10), list(query), outcome)


def verdict(points, compare, **more):
    """Return what is found of a claim: its verdict and the measured figure."""
    found = judged(Claim("x", "y", compare=compare, **more), points)
    return found.verdict, found.measured


def test_a_ratio_has_an_interval_and_a_verdict():
    points = [point("a", 300.0), point("a", 500.0, query=(10,), recall=0.5), point("b", 100.0)]
    of = {"of": {"algorithm": "a"}, "to": {"algorithm": "b"}}
    for more, outcome, start in (
        ({"at_recall": 0.95, "least": 2}, "reproduced", "3 (95%: 1.92 to"),
        ({"most": 4}, "not reproduced", "5 (95%: "),
        ({"metric": "p99", "most": 0.4}, "reproduced", "0.2"),  # the best p99 is the smallest
    ):
        judgement, measured = verdict(points, "ratio", **of, **more)
        assert judgement == outcome and measured.startswith(start)


def test_a_spread_is_of_the_best_of_each_tier():
    points = [point("a", qps, tier=tier) for qps, tier in ((100.0, "s"), (90.0, "s"), (700.0, "l"))]
    spread = {"of": {"algorithm": "a"}, "least": 5}
    assert verdict(points, "spread", **spread) == (
        "reproduced",
        "7 (95%: 4.48 to 10.9); from 100 to 700, measured once, at different times",
    )
    assert verdict(points[:2], "spread", **spread)[0] == "not measured"


def test_a_share_of_waits_is_that_of_events_and_of_types():
    waits = '{"IPC:BufferIO": 0.5, "IO:DataFileRead": 0.25, "CPU": 0.25}'
    for metric, figure in (("wait_events.BufferIO+IO", "0.75"), ("wait_events.BufferIo", "0")):
        assert verdict([point("a", 1.0, wait_events=waits)], "value", metric=metric, least=0)[1] == figure
    assert verdict([point("a", 1.0)], "value", metric="wait_events.IO", least=0)[0] == "not measured"


def test_nothing_is_divided_by_zero():
    points = [point("a", 300.0), point("b", 100.0, zero=0, tier="s")]
    sides = {"of": {"algorithm": "a"}, "to": {"algorithm": "b"}, "least": 2}
    assert verdict(points, "ratio", **sides, to_metric="zero") == ("not measured", "")
    points = [point("a", 100.0, zero=0, tier="s"), point("a", 100.0, zero=1, tier="l")]
    assert verdict(points, "spread", of={"algorithm": "a"}, metric="zero", least=2) == ("not measured", "")


@pytest.mark.parametrize("more", [{"of": {"algorithm": "b"}}, {"metric": "nope"}, {"at_recall": 0.99}])
def test_what_is_not_there_is_not_measured(more):
    assert verdict([point("a", 1.0)], "value", least=1, **more) == ("not measured", "")


def test_selections():
    generic = {"plan_cache_mode": "force_generic_plan"}
    near = point("c", 1.0, filter="near:0.01")
    definition = replace(near.job.definition, settings=generic)
    points = [
        point("a", 1.0, query=("38,76", 1.9), clients=32, tier_disk="gp3"),
        point("b", 1.0, ({"M": 8, "e": 4},)),
        point("c", 1.0, filter="uniform:0.01"),
        replace(near, job=replace(near.job, definition=definition)),
    ]
    for selection, chosen in (
        ({"build": {"M": 8}}, [1]),
        ({"build": {"M": 8, "e": 5}}, []),
        ({"query": ["38,76", 1.9]}, [0]),
        ({"algorithm": ["a", "b"], "clients": [1, 2]}, [1]),
        ({"disk": "gp3", "clients": 32}, [0]),
        ({"algorithm": ["a", "b"]}, [0, 1]),
        ({"filter": "uniform:0.01"}, [2]),
        ({"filter": ["uniform:0.01", "near:0.01"]}, [2, 3]),
        ({"filter": ""}, [0, 1]),
        ({"setting": generic}, [3]),
        ({"setting": generic, "filter": "uniform:0.01"}, []),
    ):
        assert selected(selection, points) == [points[i] for i in chosen]


def test_workloads_are_compared_by_phase():
    phases = [
        Phase("before", 0, 1, make_rate(100.0, 0.01)),
        Phase("writing", 1, 1, make_rate(50.0, 0.03), {"insert": make_rate(20.0, spread=0.1)}, recall=0.9),
    ]
    record = Record("writes", "d", 10, "a-writes", "A", [{}], [40], 32, 2, 100.0, phases)
    measured = [StepPoint("s", point("a", 1.0).job, [40], record)]
    slow = replace(record, phases=[phases[0], replace(phases[1], queries=make_rate(50.0, 0.09))])
    both = [*measured, replace(measured[0], outcome=slow)]
    p99, inserts = "writing.queries.p99", "writing.writes.insert.per_second"
    for points, compare, more, start in (
        (measured, "ratio", {"metric": p99, "to_metric": "before.queries.p99"}, "3; 0.03 to 0.01"),
        (both, "value", {"metric": p99}, "0.03"),
        (measured, "value", {"metric": inserts, "of": {"writers": 2}}, "20 (95%: 18 to 22)"),
    ):
        outcome, figure = verdict(points, compare, **{"of": {"rate": 100}, "least": 2} | more)
        assert figure.startswith(start) and outcome == ("not reproduced" if points is both else "reproduced")
    assert verdict(measured, "value", metric="after.recall", least=0)[0] == "not measured"


def test_a_report_says_what_is_not_measured_yet(tmp_path, options):
    path = written(tmp_path, SMALL)
    (tmp_path / "results").mkdir()
    done = run(tmp_path, "--experiment", path, program="report.py")
    assert done.returncode == 0
    first, second = done.stdout.splitlines()
    assert first.startswith("nothing is measured yet; to measure it: python run.py --experiment ")
    assert second.startswith("wrote ")


def test_a_command_names_each_option_once(tmp_path, options):
    step = read_experiment(find_experiment("choose"), True, options).steps[0]
    words = command_of(step, ["--local", "--dataset", "mine", "--clients=1"]).split()
    assert words[:2] == ["python", "run.py"] and words[-4:] == ["--local", "--dataset", "mine", "--clients=1"]
    assert words.count("--dataset") == 1 and "--clients" not in words and "1,8" not in words
    assert words[words.index("--algorithm") + 1 :][:3] == ["pgvector_hnsw", "vchord", "--tiers"]


@pytest.mark.parametrize("rows", [13_000, 64_000, 100_000, 1_000_000])
def test_access_methods_are_compared_by_as_many_definitions(options, rows):
    step = read_experiment(find_experiment("choose"), False, options).steps[0]
    request = step_request(step, make_parser(), ["--local"])
    configs, _ = read_configs(request.definitions)
    found = requested_definitions(request, configs, Data("mine", rows, 384, "angular", "float", 384))
    modules = [definition.module.rpartition(".")[2] for definition in found]
    number = 1 if rows >= 300_000 else 2
    expected = {"pgvector_hnsw": number, "vchord": number, "pgvectorscale": number, "pgvector_ivfflat": 1}
    assert {name: modules.count(name) for name in modules} == expected  # IVFFlat is far behind


def test_algorithms_without_a_definition_for_the_vectors_are_left_out(options):
    step = read_experiment(find_experiment("choose"), False, options).steps[0]
    request = step_request(step, make_parser(), ["--local"])
    configs, _ = read_configs(request.definitions)
    data = Data("mine", 13_000, 64, "hamming", "bit", 2)
    found = requested_definitions(request, configs, data)
    assert [definition.algorithm for definition in found] == ["pgvector_hnsw", "pgvector_ivfflat"]
    with pytest.raises(UserError, match="'vchord' has no definition for bit vectors"):
        requested_definitions(replace(request, algorithm=("vchord",)), configs, data)


def test_the_demo_has_its_rounds_in_time_on_a_slow_machine(options):
    """Two cores as fast as usual take 0.7 s for a turn, and 0.3 ms and 10 us a candidate for a query."""
    makefile = (ROOT / "Makefile").read_text()
    assert "run.py --local --experiment demo --dataset $(DEMO_DATASET)\n" in makefile
    (step,) = read_experiment(find_experiment("demo"), False, options).steps
    ((group,),) = (groups.values() for groups in step.groups.values())
    assert len(group["arg_groups"]) == 1
    (depths,) = group["query_args"]
    a_round = sum(0.7 + 1000 * (3e-4 + 1e-5 * depth) for depth in depths)
    assert FEWEST_ROUNDS * a_round < read_time(step.arguments[step.arguments.index("--budget") + 1])
    assert FEWEST_ROUNDS * 2 * a_round < 100  # of four minutes, with a build and all that is installed


def test_given_filters_replace_those_of_a_step(options):
    step = replace(read_experiment(find_experiment("choose"), True, options).steps[0], groups={})
    step = replace(step, arguments=["--filter", "uniform:0.1", "near:0.1", "--setting", "jit=off"])
    args = step_request(step, make_parser(), ["--filter", "far:0.1", "--setting", "work_mem=4MB"])
    assert args.filters == ("far:0.1",) and len(args.setting) == 2


BUILT = """\
title: Two indexes
text: how they are measured
steps:
- name: first
  run: {algorithm: bruteforce-numpy, dataset: clustered-500-8-euclidean, clients: [1, 2], duration: 0.3,
    budget: 1h, target-recall: 0.95, tiers: mini}
- name: second
  run: {algorithm: bruteforce-numpy, dataset: clustered-300-4-ip, filter: "uniform:0.1", rounds: 9}
- name: third
  run: {algorithm: bruteforce-numpy, dataset: clustered-300-4-ip, workload: inserts, writers: [1]}
"""


def test_all_indexes_of_an_experiment_are_built(tmp_path):
    path = written(tmp_path, BUILT)
    done = run(tmp_path, "--experiment", path, "--build-only")
    assert done.returncode == 0, done.stderr
    assert "--clients" not in done.stdout and "--rounds" not in done.stdout
    assert "step third: nothing to build, because its workload builds a table of its own" in done.stdout
    assert done.stdout.count("1 definition built") == 2 and not (tmp_path / "results").exists()
    assert f"to measure: python run.py --experiment {path} --local" in done.stdout
    assert "--filter uniform:0.1 --local" in done.stdout
    refused = run(tmp_path, "--experiment", path, "--build-only", "--tiers", "mini")
    assert refused.returncode == 1 and "--tiers cannot be combined with --build-only" in refused.stderr

import signal
import subprocess
from pathlib import Path
from textwrap import dedent

import psutil
import pytest

from ann_benchmarks.commands.run import main
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.file import iter_result_paths, read_attributes
from ann_benchmarks.results.runs import load_runs
from ann_benchmarks.run import checks

from .conftest import make_dataset
from .programs import call_program, until, without_others

ANSWER = "def query(self, q, n): return list(range(n))\n"
# The points from the fourth on wait for the file `go`.
HELD = """\
def set_query_arguments(self, number):
    self.name = f"slow {number}"
    with open("begun", "a") as file:
        print(number, os.getpid(), file=file)
def query(self, q, n):
    while self.name > "slow 3" and not Path("go").exists():
        time.sleep(0.01)
    return [0]
def fit(self, X):
    multiprocessing.util.Finalize(self, Path("finalized").touch, exitpriority=1)
def done(self):
    Path("done").touch()
"""
SIX_POINTS = {"args": [], "query_args": [[1, 2, 3, 4, 5, 6]]}


def lines(process):
    return process.stdout.splitlines(), process.stderr.splitlines()


def finished():
    return list(iter_result_paths())


def begun():
    return [line.split() for line in Path("begun").read_text().splitlines()] if Path("begun").exists() else []


def test_the_password_of_a_url_goes_to_plugins_alone(workspace):
    workspace.add_plugin(
        "asking", "def query(self, q, n): return [int(os.environ['ANN_BENCHMARKS_PG_PORT'])]\n"
    )
    done = workspace.run("--url", "postgresql://ann:hu%2Fsh@db.example.org:7/shop?sslmode=require")
    assert done.returncode == 0 and len(finished()) == 1
    assert read_attributes(finished()[0])["command_line"].endswith("--dataset tiny --runs 1")
    written = [path for path in workspace.path.rglob("*") if path.is_file() and "plugins" not in path.parts]
    assert len(written) > 1
    for path in written:
        assert b"hu/sh" not in path.read_bytes() and b"hu%2Fsh" not in path.read_bytes(), path
    assert "hu" + "/sh" not in done.stdout + done.stderr and "%2F" not in done.stdout + done.stderr


def test_points_are_measured_shown_and_not_repeated(workspace):
    body = ANSWER + "def set_query_arguments(self, n): Path(f'asked-{n}').touch()\n"
    workspace.add_plugin("quick", body, {"args": [["a", "b"]], "query_args": [[1, 2]]})
    first = workspace.run()
    out, err = lines(first)
    assert (first.returncode, err) == (0, [])
    assert out[0] == "dataset tiny: 200 x 8, euclidean; 20 queries for 10 neighbours"
    assert "2 definitions with 4 points" in out[1]
    assert [line.split(":")[0] for line in out if ": recall " in line] == [
        f'quick("{build}", {query})' for build in "ab" for query in (1, 2)
    ]
    assert out[-2].split()[:4] == ['quick("a")', "2", "0", "0"]
    files = workspace.results()
    assert files == [f"tiny/10/quick/{build}_{query}.hdf5" for build in "ab" for query in (1, 2)]
    times = {name: Path("results", name).stat().st_mtime_ns for name in files}

    again = workspace.run()
    assert again.returncode == 0
    assert again.stdout.splitlines()[1] == "nothing to do: 4 points finished before; --force measures again"

    Path("results", files[0]).write_bytes(Path("results", files[0]).read_bytes()[:500])
    mended = workspace.run()
    assert mended.returncode == 0
    assert "measured again" in mended.stderr and files[0] in mended.stderr
    assert mended.stdout.splitlines()[-1].split()[:4] == ['quick("a")', "1", "1", "0"]
    changed = {name for name in files if Path("results", name).stat().st_mtime_ns != times[name]}
    assert changed == {files[0]}

    assert workspace.run("--force").stdout.count(": recall ") == 4
    assert workspace.results() == files


def test_a_dry_run_says_what_a_run_would_take_and_keeps_nothing(workspace):
    workspace.add_plugin("quick", "def query(self, v, n): return range(n)")
    done = workspace.run("--algorithm", "quick", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert "dry run: nothing of this is kept" in done.stdout and "measuring 1 point" in done.stdout
    assert not Path("results").exists()


def test_points_on_other_vectors_of_the_same_name_are_measured_again(workspace):
    workspace.add_plugin("quick", ANSWER)
    assert workspace.run().returncode == 0
    make_dataset(rows=300)
    drawn = call_program("plot.py", "--dataset", "tiny")
    assert drawn.returncode == 1 and "other vectors of the same name" in drawn.stderr
    again = workspace.run()
    assert again.returncode == 0
    assert "other vectors of the same name; it is measured again" in again.stderr
    assert again.stdout.count(": recall ") == 1


@pytest.mark.thorough
def test_what_fails_is_said_and_the_others_go_on(workspace):
    workspace.add_plugin("a-crash", "def fit(self, X): os.kill(os.getpid(), signal.SIGSEGV)")
    workspace.add_plugin("b-raise", "def fit(self, X): raise ValueError('no such\\nluck')")
    workspace.add_plugin("c-twice", "def query(self, q, n): return [5, 5]")
    workspace.add_plugin(
        "d-half",
        ANSWER + "def set_query_arguments(self, n):\n    if n == 2: raise MemoryError\n",
        {"args": [], "query_args": [[1, 2, 3]]},
    )
    workspace.add_plugin("e-full", "def fit(self, X): raise OSError(28, 'No space left on device', 'x')")
    workspace.add_plugin("f-import", "raise RuntimeError('at import')")
    workspace.add_plugin("g-few", "def query(self, q, n): return [3]")
    run = workspace.run()
    assert run.returncode == 1
    failures = [line for line in run.stderr.splitlines() if line.startswith("failed: ")]
    assert failures == run.stderr.splitlines()
    assert [line.split()[1][:6] for line in failures] == [
        *("f-impo", "a-cras", "b-rais", "c-twic", "d-half", "e-full")
    ]
    imported, crash, raised, twice, half, full = failures
    assert "RuntimeError: at import" in imported
    assert "SIGSEGV" in crash and "logs/tiny/10/a-crash" in crash
    assert "ValueError: no such luck (see logs/tiny/10/b-raise/" in raised
    assert "query 0 was answered with neighbour 5 twice" in twice
    assert "out of memory" in half
    assert "the disk is full" in full
    assert "in fit" in next(Path("logs/tiny/10/a-crash").iterdir()).read_text()
    assert "Traceback" in next(Path("logs/tiny/10/b-raise").iterdir()).read_text()
    assert "Traceback" not in run.stdout + run.stderr
    assert {name.split("/")[2] for name in workspace.results()} == {"d-half", "g-few"}
    rows = {row.split("(")[0]: row.split()[1:4] for row in run.stdout.splitlines()[-8:]}
    assert rows["d-half"] == ["1", "0", "2"]
    assert rows["g-few"] == ["1", "0", "0"]
    assert rows["a-crash"] == ["0", "0", "1"]


@pytest.mark.thorough
def test_what_no_definition_can_run_without_is_said_once(workspace):
    lacks = (
        "def fit(self, X):\n    error = RuntimeError('the folder is in use')\n"
        "    error.ends_run = {}\n    raise error"
    )
    workspace.add_plugin("a-lacks", lacks.format(True), {"args": [[1, 2, 3]]})
    for more in ((), ("--rounds", "4")):
        run = workspace.run("--algorithm", "a-lacks", *more)
        assert (run.returncode, run.stderr) == (1, "error: RuntimeError: the folder is in use\n")
        assert run.stdout.count("a-lacks(") == 1
    workspace.add_plugin("b-fails", lacks.format(False), {"args": [[1, 2, 3]]})
    assert workspace.run("--algorithm", "b-fails").stderr.count("the folder is in use") == 3


@pytest.mark.thorough
def test_what_takes_too_long_is_ended(workspace):
    sleeps = "def fit(self, X): time.sleep(600)\ndef done(self): Path('done').touch()"
    workspace.add_plugin("a-sleeps", sleeps)
    workspace.add_plugin("b-quick", ANSWER)
    run = workspace.run("--timeout", "5")  # enough for a quick one on a busy machine
    assert run.returncode == 1
    assert "not finished after 5 s (--timeout)" in run.stderr
    assert Path("done").exists()
    assert workspace.results() == ["tiny/10/b-quick/.hdf5"]


def test_definitions_run_side_by_side(workspace, monkeypatch, capfd):
    body = """\
    def __init__(self, name):
        self.name, self.end = name, time.monotonic() + 60
    def fit(self, X):
        Path(f"here-{self.name}").touch()
        while len([*Path().glob("here-*")]) < 2 and time.monotonic() < self.end:
            time.sleep(0.01)
    """
    workspace.add_plugin("both", dedent(body) + ANSWER, {"args": [["a", "b"]]})
    monkeypatch.setattr(checks, "usable_cores", lambda: 3)
    monkeypatch.syspath_prepend(workspace.path)
    assert main(workspace.command("--parallelism", "2")[2:]) == 0
    lines = capfd.readouterr().out.splitlines()
    starts_and_ends = [line for line in lines if line.endswith("1 point") or "index ready" in line]
    assert [line.endswith("1 point") for line in starts_and_ends] == [True, True, False, False]


def test_one_process_runs_all_definitions_and_ends_properly(workspace):
    body = """\
    def fit(self, X):
        with open("pids", "a") as file:
            print(os.getpid(), file=file)
        multiprocessing.util.Finalize(None, Path("finalized").touch, exitpriority=1)
    """
    workspace.add_plugin("server", body, {"args": [["a", "b", "c"]]})
    assert workspace.run().returncode == 0
    pids = Path("pids").read_text().split()
    assert len(pids) == 3 and len(set(pids)) == 1
    assert Path("finalized").exists()


@pytest.mark.thorough
def test_a_killed_run_goes_on_where_it_was(workspace):
    workspace.add_plugin("slow", HELD, SIX_POINTS)
    process = workspace.start()
    until(lambda: len(finished()) == 3)
    process.kill()
    process.communicate()
    worker = int(begun()[0][1])
    until(lambda: not psutil.pid_exists(worker))
    assert Path("done").exists() and Path("finalized").exists()
    kept = {name: Path("results", name).stat().st_mtime_ns for name in workspace.results()}
    assert len(kept) == 3
    before = len(begun())
    Path("go").touch()
    assert workspace.run().returncode == 0
    assert workspace.results() == [f"tiny/10/slow/{n}.hdf5" for n in range(1, 7)]
    assert all(Path("results", name).stat().st_mtime_ns == when for name, when in kept.items())
    assert [int(number) for number, _ in begun()[before:]] == list(range(len(kept) + 1, 7))


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_puts_things_away(workspace, number, status):
    workspace.add_plugin("slow", HELD, SIX_POINTS)
    process = workspace.start()
    until(lambda: finished())
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == status
    (said,) = without_others(errors).splitlines()
    assert "what is finished is kept" in said
    assert Path("done").exists() and Path("finalized").exists()
    assert not psutil.pid_exists(int(begun()[0][1]))
    assert len(workspace.results()) == len(finished()) >= 1


@pytest.mark.thorough
def test_what_is_not_installed_is_skipped_unless_asked_for(workspace):
    workspace.add_plugin("lacking", "import no_such_module_here", {"args": [["a", "b"]]})
    workspace.add_plugin("quick", ANSWER)
    run = workspace.run()
    assert run.returncode == 0
    assert run.stderr.splitlines() == [
        "warning: algorithm 'lacking' is skipped: the Python module 'no_such_module_here' is not installed"
    ]
    asked = workspace.run("--algorithm", "lacking")
    assert asked.returncode == 1
    assert asked.stderr.splitlines() == [
        "error: algorithm 'lacking' cannot run here: the Python module 'no_such_module_here' is not installed"
    ]


def test_options_choose_definitions(workspace):
    workspace.add_plugin("one", ANSWER, {"args": [["a", "b", "c"]]}, docker_tag="first")
    workspace.add_plugin("two", ANSWER, disabled=True, docker_tag="second")
    assert (
        "nothing to run: every requested definition is disabled" in workspace.run("--algorithm", "two").stderr
    )
    assert workspace.run("--max-n-algorithms", "2").returncode == 0
    assert workspace.results() == ["tiny/10/one/a.hdf5", "tiny/10/one/b.hdf5"]
    assert workspace.run("--docker-tag", "second", "--run-disabled", "-k", "3", "--batch").returncode == 0
    assert workspace.results()[-1] == "tiny/3/two-batch/.hdf5"
    names = workspace.run("--list-algorithms").stdout.splitlines()
    assert names == ["one", "    float: any", "two", "    float: any"]


def test_mistakes_are_one_line(workspace, monkeypatch):
    monkeypatch.syspath_prepend(str(workspace.path))
    workspace.add_plugin("quick", ANSWER)
    folder = workspace.add_plugin("only-ip", ANSWER)
    config = (folder / "config.yml").read_text()
    (folder / "config.yml").write_text(config.replace("any:", "ip:"))
    typo = workspace.add_plugin("typo", ANSWER)
    (typo / "config.yml").write_text((typo / "config.yml").read_text().replace("run_groups:", "run_group:"))
    workspace.add_plugin("elsewhere", ANSWER, module="plugins.nowhere")
    workspace.add_plugin("nameless", ANSWER, constructor="Plugs")
    make_dataset("few", neighbours=4)
    cases = {
        ("--dataset", "tinny"): "tinny",
        ("--dataset", "few", "--algorithm", "quick"): "4",
        ("--algorithm", "quik"): "did you mean 'quick'?",
        ("--algorithm", "only-ip"): "it has float: ip",
        ("--algorithm", "typo"): "did you mean 'run_groups'?",
        ("--algorithm", "elsewhere"): "names the module 'plugins.nowhere'",
        ("--algorithm", "nameless"): "did you mean 'Plugin'?",
        ("--definitions", "nowhere"): "nowhere",
        ("--docker-tag", "none"): "Docker tag 'none'",
    }
    for arguments, words in cases.items():
        with pytest.raises(UserError) as caught:
            main(workspace.command(*arguments)[2:])
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)
    run = workspace.run("--algorithm", "quik")
    assert run.returncode == 1
    assert run.stderr.splitlines() == ["error: unknown algorithm 'quik'; did you mean 'quick'?"]
    assert workspace.results() == []


def test_without_local_it_says_what_to_add(workspace):
    workspace.add_plugin("quick", ANSWER)
    command = [word for word in workspace.command() if word != "--local"]
    environment = workspace.environment | {"DOCKER_HOST": f"unix://{workspace.path}/no-engine"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 1
    assert "no Docker engine answers" in run.stderr
    assert "add --local" in run.stderr and len(run.stderr.splitlines()) == 1


def test_a_result_says_that_its_algorithm_is_exact_where_the_plugin_does(workspace):
    workspace.add_plugin("graph", ANSWER)
    workspace.add_plugin("scan", f"{ANSWER}def search_range(self, count): return None\n")
    assert workspace.run().returncode == 0
    stored = {run.series.algorithm: run.attrs.get("is_exact") for run in load_runs(iter_result_paths())}
    assert stored == {"graph": None, "scan": True}

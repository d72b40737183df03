"""install.py --export, into a stand-in for a checkout of ann-benchmarks and, where one is named, a copy."""

import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.layout import DEFINITIONS_FOLDER
from ann_benchmarks.installing.main import content_of, export

from .test_contract import ALGORITHMS, PLUGINS, THEIR_PYTHON, needs_checkout, run, stand_in, their_copy

pytestmark = pytest.mark.thorough


def plugin(definitions: Path, name: str, *algorithms: str, text: str = "x = 1\n") -> Path:
    folder = definitions / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "module.py").write_text(text)
    (folder / "Dockerfile").write_text("FROM ann-benchmarks\n")
    entries = [
        {
            "name": algorithm, "module": f"ann_benchmarks.algorithms.{name}", "constructor": "C",
            "docker_tag": f"ann-benchmarks-{name}", "run_groups": {"all": {"args": []}},
        }
        for algorithm in algorithms or [name]
    ]  # fmt: skip
    (folder / "config.yml").write_text(yaml.safe_dump({"float": {"any": entries}}))
    return folder


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return stand_in(tmp_path / "ann-benchmarks")


@pytest.fixture
def definitions(tmp_path: Path) -> Path:
    """Two plug-ins, what they share, and what is not to be copied."""
    folder = tmp_path / "algorithms"
    plugin(folder, "one", "one", "one-more")
    plugin(folder, "two")
    plugin(folder, "base")
    (folder / "shared/inner").mkdir(parents=True)
    for path in ("__init__.py", "inner/code.py", "inner/step.sh"):
        (folder / "shared" / path).write_text(f"# {path}\n")
    (folder / "shared/inner/step.sh").chmod(0o755)
    for path in ("one/__pycache__", "one/tests", "__pycache__", "notes"):
        (folder / path).mkdir()
        (folder / path / "left.pyc").write_text("")
    return folder


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_exactly_the_plugins_are_copied(checkout, definitions, capsys):
    before = files(checkout)
    export(checkout, definitions)
    assert files(checkout) - before == {
        *(f"{ALGORITHMS}/{name}/{file}" for name in ("one", "two")
          for file in ("module.py", "Dockerfile", "config.yml")),
        *(f"{ALGORITHMS}/shared/{file}" for file in
          ("__init__.py", "inner/code.py", "inner/step.sh", "Dockerfile")),
    }  # fmt: skip
    assert (checkout / ALGORITHMS / "shared/Dockerfile").read_text().endswith("\nFROM ann-benchmarks\n")
    assert os.access(checkout / ALGORITHMS / "shared/inner/step.sh", os.X_OK)
    assert not os.access(checkout / ALGORITHMS / "shared/inner/code.py", os.X_OK)
    assert "BaseANN" in (checkout / ALGORITHMS / "base/module.py").read_text()  # still theirs
    assert capsys.readouterr().out.splitlines() == [
        "one: copied, 3 files",
        "shared: copied, 4 files",
        "two: copied, 3 files",
        f"next, in {checkout} (docs/submitting.md says more):",
        "    python install.py --algorithm one",
        "    python install.py --algorithm two",
        "    python run.py --algorithm one --dataset random-xs-20-angular",
    ]


def test_one_algorithm_is_copied_with_what_it_needs(checkout, definitions, capsys):
    (definitions / "one/more").mkdir()
    (definitions / "one/more/part.py").write_text("from ...shared.inner import code\n")
    (definitions / "two/module.py").write_text("from ..one.module import x\n# from shared\n")
    plugin(definitions, "three")
    dockerfile = definitions / "three/Dockerfile"
    dockerfile.write_text(f"FROM ann-benchmarks\nCOPY {ALGORITHMS}/shared/inner/step.sh /tmp/\n")
    export(checkout, definitions, "three")
    there = {path.name for path in (checkout / ALGORITHMS).iterdir()}
    assert {"three", "shared"} <= there and not {"one", "two"} & there
    export(checkout, definitions, "two")
    capsys.readouterr()
    export(checkout, definitions, "one-more")  # an algorithm of the folder one
    assert "one: there already" in capsys.readouterr().out
    (checkout / ALGORITHMS / "one/module.py").write_text("y = 1\n")
    with pytest.raises(UserError, match="one is not as exported from here, and the plug-ins need"):
        export(checkout, definitions, "two")
    with pytest.raises(UserError, match="'none' cannot be exported; there are one, three, two"):
        export(checkout, definitions, "none")


def test_nothing_that_is_there_is_replaced(checkout, definitions, capsys):
    export(checkout, definitions)
    (checkout / ALGORITHMS / "one/__pycache__").mkdir()  # it ran there
    (definitions / "two/module.py").write_text("x = 2\n")
    capsys.readouterr()
    export(checkout, definitions)
    assert capsys.readouterr().out.splitlines()[:3] == [
        "one: there already", "shared: there already",
        f"two: left alone, because another one is there; to have this one, rm -r {checkout / ALGORITHMS}/two"
        " and export again",
    ]  # fmt: skip
    assert (checkout / ALGORITHMS / "two/module.py").read_text() == "x = 1\n"


def test_what_is_not_ours_is_left_alone(checkout, definitions, capsys):
    plugin(checkout / ALGORITHMS, "one", "theirs", text="theirs\n")
    (checkout / ALGORITHMS / "two").symlink_to(definitions)
    export(checkout, definitions)
    assert (checkout / ALGORITHMS / "one/module.py").read_text() == "theirs\n"
    assert (checkout / ALGORITHMS / "two").is_symlink()
    said = capsys.readouterr().out
    assert f"one: left alone, because another one is there; to have this one, rm -r {checkout}" in said
    assert "install.py" not in said  # nothing of ours is there to be built
    shutil.rmtree(checkout / ALGORITHMS / "one")
    export(checkout, definitions)
    assert (checkout / ALGORITHMS / "one/module.py").read_text() == "x = 1\n"


def test_nothing_is_copied_where_what_plugins_share_cannot_be(checkout, definitions):
    (checkout / ALGORITHMS / "shared").mkdir()
    (checkout / ALGORITHMS / "shared/other.py").write_text("")
    before = files(checkout)
    with pytest.raises(UserError, match="shared is not as exported from here, and the plug-ins need"):
        export(checkout, definitions)
    assert files(checkout) == before


def test_only_a_checkout_of_ann_benchmarks_is_taken(tmp_path, checkout, definitions):
    with pytest.raises(
        UserError, match=r"nowhere must be a checkout of ann-benchmarks, but has no install\.py"
    ):
        export(tmp_path / "nowhere", definitions)
    with pytest.raises(
        UserError, match=r"must be a checkout of ann-benchmarks, but has no run_algorithm\.py"
    ):
        export(DEFINITIONS_FOLDER.parent, definitions)
    with pytest.raises(UserError, match="is where the plug-ins are already"):
        export(checkout, checkout / ALGORITHMS)


def test_a_folder_that_cannot_be_written_is_one_line(checkout, definitions):
    (checkout / "ann_benchmarks/.export").write_text("")  # where it works, a folder is needed
    with pytest.raises(
        UserError, match=r"^cannot export to .*\.export/new.*: (Not a directory|File exists)$"
    ):
        export(checkout, definitions)


AGAIN_AND_AGAIN = """
import shutil
import sys
from pathlib import Path
from ann_benchmarks.installing.main import export
print("ready", file=sys.stderr, flush=True)
while True:
    for definitions in sys.argv[2:]:
        for name in ("one", "shared", "two"):
            if (place := Path(sys.argv[1], "ann_benchmarks/algorithms", name)).exists():
                shutil.rmtree(Path(sys.argv[1], "trash"), ignore_errors=True)
                place.rename(Path(sys.argv[1], "trash"))  # whole, too
        export(Path(sys.argv[1]), Path(definitions))
"""


def test_killed_at_any_moment_each_folder_is_whole_or_not_there(tmp_path, checkout, definitions):
    other = tmp_path / "other"
    shutil.copytree(definitions, other)
    names = ("one", "shared", "two")
    for folder in (definitions, other):
        for name in names:
            for i in range(30):
                (folder / name / f"part{i}.py").write_text(f"{folder} {i}")
    whole = [content_of(folder / name) for folder in (definitions, other) for name in names]
    chance = random.Random(1)
    for _ in range(6):
        command = [sys.executable, "-c", AGAIN_AND_AGAIN, str(checkout), str(definitions), str(other)]
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, cwd=DEFINITIONS_FOLDER.parent, **streams, text=True)
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        assert process.wait() == -signal.SIGKILL
        for name in names:
            place = checkout / ALGORITHMS / name
            assert not place.exists() or content_of(place) in whole
            shutil.rmtree(place, ignore_errors=True)
    export(checkout, definitions)
    for name in names:
        assert content_of(checkout / ALGORITHMS / name) == content_of(definitions / name)
    assert not (checkout / "ann_benchmarks/.export").exists()


def test_all_that_comes_with_the_project_is_exported(checkout):
    command = (sys.executable, str(DEFINITIONS_FOLDER.parent / "install.py"), "--export", str(checkout))
    said = run(checkout, *command)
    for name in (*PLUGINS, "bruteforce"):
        assert f"{name}: copied, " in said
        assert content_of(checkout / ALGORITHMS / name) == content_of(DEFINITIONS_FOLDER / name)
    assert not list((checkout / ALGORITHMS).rglob("__pycache__"))
    assert not (checkout / ALGORITHMS / "base/Dockerfile").exists()


# Stand-in for the docker command: succeeds where the Dockerfile that is to be built exists.
FAKE_DOCKER = """#!/bin/sh
while [ $# -gt 0 ]; do
    if [ "$1" = -f ]; then test -f "$2" || exit 1; fi
    shift
done
"""

THEIR_DEFINITIONS = """
import json
from ann_benchmarks.definitions import get_definitions
print(json.dumps([[d.algorithm, d.docker_tag] for d in get_definitions(20, "float", "angular", 10)]))
"""


@needs_checkout
def test_ann_benchmarks_builds_and_finds_them(tmp_path):
    theirs = their_copy(tmp_path)
    export(theirs, DEFINITIONS_FOLDER)
    (tmp_path / "bin").mkdir()
    docker = tmp_path / "bin/docker"
    docker.write_text(FAKE_DOCKER)
    docker.chmod(docker.stat().st_mode | stat.S_IXUSR)
    done = subprocess.run(
        [THEIR_PYTHON, "install.py"], cwd=theirs, capture_output=True, text=True, check=False,
        env=os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
    )  # fmt: skip
    built = done.stdout + done.stderr
    # The folders of its own without a Dockerfile, and files among the folders, do not build there.
    for name in PLUGINS:
        assert f"{{'{name}': 'success'}}" in built
    found = json.loads(run(theirs, THEIR_PYTHON, "-c", THEIR_DEFINITIONS).splitlines()[-1])
    for config in (DEFINITIONS_FOLDER / name / "config.yml" for name in PLUGINS if name != "postgres"):
        for entry in yaml.safe_load(config.read_text())["float"]["any"]:
            assert [entry["name"], entry["docker_tag"]] in found
    assert "bruteforce-numpy" not in dict(found)  # its own folder of that name is as it was

"""The Dockerfiles, as far as they can be read without an engine."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ann_benchmarks.common.layout import PROGRAM
from ann_benchmarks.installing.context import read_dockerfile

from .conftest import ROOT

ALGORITHMS = ROOT / "algorithms"
DOCKERFILES = sorted(ALGORITHMS.glob("*/Dockerfile*"))
PLUGINS = [path for path in DOCKERFILES if path.parent.name != "base"]
POSTGRES = [path for path in PLUGINS if "postgres/docker/" in path.read_text()]
SCRIPTS = sorted([*ALGORITHMS.glob("base/*.sh"), *ALGORITHMS.glob("*/docker/*.sh")])
LOCKS = sorted([*ALGORITHMS.glob("base/*.lock"), *ALGORITHMS.glob("postgres/docker/*.lock")])
GIVEN = ("package[s]/", "ca-certificate[s]")  # of the context, where install.py put them


def named(path: Path) -> str:
    return str(path.relative_to(ALGORITHMS))


def instructions(path: Path) -> list[str]:
    text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.MULTILINE)
    return [line for line in re.sub(r"\\\n\s*", "", text).splitlines() if line.strip()]


def last_stage(path: Path) -> list[str]:
    """Its instructions, from what it starts from."""
    found = instructions(path)
    return found[max(n for n, line in enumerate(found) if line.startswith("FROM ")) :]


def requirements(lock: Path) -> set[str]:
    """Each package with its version, its condition and its hashes on a line."""
    return set(re.sub(r" \\\n +", " ", lock.read_text()).splitlines())


def pins(lock: Path) -> dict[str, set[str]]:
    """Versions and hashes by name; conditions differ with what else needs a package."""
    found: dict[str, set[str]] = {}
    for line in requirements(lock):
        name, version = re.match(r"([\w.-]+)==(\S+)", line).groups()  # type: ignore[union-attr]
        found.setdefault(name, set()).update([version, *re.findall(r"--hash=(\S+)", line)])
    return found


def test_what_there_is() -> None:
    assert len(SCRIPTS) == 7 and len(LOCKS) == 3
    assert {path.parent.name for path in POSTGRES} >= {
        *("pgvector_hnsw", "pgvector_ivfflat", "pgvector_exact", "vchord", "vchordg", "pgpu"),
        "pgvectorscale",
    }


@pytest.mark.parametrize("config", sorted(ALGORITHMS.glob("*/config.yml")), ids=named)
def test_every_image_that_a_config_names_can_be_built(config: Path) -> None:
    metrics = [
        metrics for points in yaml.safe_load(config.read_text()).values() for metrics in points.values()
    ]
    tags = {definition["docker_tag"] for definitions in metrics for definition in definitions}
    assert tags == {f"ann-benchmarks-{config.parent.name}"}
    assert config.with_name("Dockerfile").is_file()


@pytest.mark.parametrize("dockerfile", PLUGINS, ids=named)
def test_ours_take_either_base(dockerfile: Path) -> None:
    assert instructions(dockerfile)[0] == "ARG BASE=ann-benchmarks"
    assert last_stage(dockerfile)[0] == "FROM ${BASE}"


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=named)
def test_what_is_copied_is_there(dockerfile: Path) -> None:
    for instruction in instructions(dockerfile):
        if not instruction.startswith("COPY ") or instruction.startswith("COPY --from="):
            continue
        *sources, _ = instruction.removeprefix("COPY ").split()
        ours = [source for source in sources if not source.startswith(GIVEN)]
        assert ours  # where nothing else was given, a COPY still needs something
        for source in ours:
            folder, _, path = source.partition("ann_benchmarks/algorithms/")
            assert folder == "" and (ALGORITHMS / path).is_file(), source


@pytest.mark.parametrize("dockerfile", POSTGRES, ids=named)
def test_layers_of_postgresql_are_those_of_pgvector_hnsw(dockerfile: Path) -> None:
    shared = last_stage(ALGORITHMS / "pgvector_hnsw/Dockerfile")
    assert last_stage(dockerfile)[: len(shared)] == shared


def test_containers_take_variables_that_the_plugins_read() -> None:
    [label] = [
        line for line in instructions(ALGORITHMS / "pgvector_hnsw/Dockerfile") if line.startswith("LABEL")
    ]
    names = re.fullmatch(r'LABEL ann-benchmarks\.environment="([\w ]+)"', label)[1].split()  # type: ignore[index]
    prefix = "ANN_BENCHMARKS_PG_"
    assert all(name.startswith(prefix) for name in names)
    short = {name.removeprefix(prefix) for name in names}
    assert short == {"SETTINGS"}
    texts = "".join(path.read_text() for path in (ALGORITHMS / "postgres").rglob("*.py"))
    assert all(f'"{name}"' in texts for name in short)


def test_vectorchord_is_the_release_that_installs_locally() -> None:
    release = yaml.safe_load((ALGORITHMS / "vchord/release.yml").read_text())
    assert f"ARG VCHORD={release['version']}" in instructions(ALGORITHMS / "vchord/Dockerfile")
    assert f"github.com/{release['github']}/" in (ALGORITHMS / "vchord/docker/vchord.sh").read_text()


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=named)
def test_what_scripts_read_is_declared(dockerfile: Path) -> None:
    """A build argument that a Dockerfile does not declare does not reach its scripts."""
    declared = read_dockerfile(dockerfile).arguments
    ran = [
        script
        for script in SCRIPTS
        if f"RUN sh /tmp/{script.parent.name}/{script.name}" in dockerfile.read_text()
        and f"algorithms/{script.relative_to(ALGORITHMS)}" in dockerfile.read_text()
    ]
    for script in ran:
        text = script.read_text()
        if "/packages.sh" in text:
            text += (ALGORITHMS / "postgres/docker/packages.sh").read_text()
        read = set(re.findall(r"\$\{?([A-Z]+(?:_[A-Z]+)*)\b", text)) - {"VERSION_CODENAME", "PRETTY_NAME"}
        assert read and read <= declared, script


@pytest.mark.parametrize("lock", LOCKS, ids=named)
def test_images_have_the_locked_versions(lock: Path) -> None:
    everything = pins(ROOT / "requirements-dev.lock") | pins(ROOT / "requirements.lock")
    found = pins(lock)
    assert found and {name: everything.get(name) for name in found} == found
    wanted = re.findall(r"^([\w-]+)", lock.with_suffix(".in").read_text(), re.MULTILINE)
    assert {name.lower() for name in wanted} <= found.keys()


def test_a_container_has_what_the_framework_imports() -> None:
    """With everything else that is installed here out of reach."""
    code = (
        "import sys\n"
        "from importlib.metadata import packages_distributions\n"
        "for module, packages in packages_distributions().items():\n"
        "    if not {name.lower() for name in packages} & set(sys.argv[1:]):\n"
        "        sys.modules[module] = None\n"
        "import ann_benchmarks.run.process, ann_benchmarks.data.datasets\n"
        "import ann_benchmarks.data.vectors.parquet\n"
    )
    there = pins(ALGORITHMS / "base/requirements.lock")
    done = subprocess.run([sys.executable, "-c", code, *there], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_scripts_are_of_the_plainest_shell(script: Path) -> None:
    done = subprocess.run(["sh", "-n", str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shellcheck = shutil.which("shellcheck")
    if shellcheck:
        checked = subprocess.run(
            [shellcheck, "--shell=sh", "--severity=warning", "-x", "-P", "SCRIPTDIR", str(script)],
            capture_output=True,
            text=True,
        )
        assert checked.returncode == 0, checked.stdout


def test_the_client_image_is_made_of_what_is_built_here() -> None:
    folder = ROOT / "templates/client"
    compose = yaml.safe_load((folder / "compose.yml").read_text())["services"]
    build = compose["client"]["build"]
    context = (folder / build["context"]).resolve()
    assert context == ROOT / "dist" and (context / build["dockerfile"]).resolve() == folder / "Dockerfile"
    names = {"USER": "USER", "PASSWORD": "PASSWORD", "DBNAME": "DB"}
    login = {name: compose["server"]["environment"][f"POSTGRES_{there}"] for name, there in names.items()}
    wanted = {f"ANN_BENCHMARKS_PG_{name}": value for name, value in (login | {"HOST": "server"}).items()}
    assert compose["client"]["environment"] == wanted
    said = instructions(folder / "Dockerfile")
    program = yaml.safe_load(
        next(line for line in said if line.startswith("ENTRYPOINT"))[len("ENTRYPOINT") :]
    )
    assert program == [PROGRAM] and any(line == "USER 10001" for line in said)
    copied = next(line for line in said if line.startswith("COPY")).split()[1:-1]
    assert copied == ["requirements.lock", "*.whl"] and (ROOT / copied[0]).exists()

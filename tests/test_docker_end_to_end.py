"""What a user does, with a real engine: build an image, measure in a container, plot; also other versions."""

import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import pytest

from ann_benchmarks.results.file import iter_result_paths, read_attributes
from ann_benchmarks.results.records import iter_record_paths, read_record

from .docker_engine import install
from .programs import call_program, temporary_folder
from .vchord_archives import ARCHIVES
from .vectorscale_wheel import release_stand_in

pytestmark = pytest.mark.thorough

BUILD = ("--base", "debootstrap", "--algorithm")


@pytest.fixture
def folder(base_image: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with temporary_folder(on_disk=True) as folder:
        monkeypatch.chdir(folder)
        yield folder


def command(program: str, *arguments: str) -> str:
    """Run one of the project's commands, which must succeed; what it says."""
    done = call_program(program, *arguments, seconds=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(folder: Path, *arguments: str) -> str:
    """Build an image; its line of the table."""
    done = install(*BUILD, *arguments, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def hnsw(base_image: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image of pgvector_hnsw, which is built: its line of the table."""
    return built(tmp_path_factory.mktemp("install"), "pgvector_hnsw")


def points(algorithm: str) -> list[dict[str, Any]]:
    """The attributes of the results that were stored of an algorithm."""
    found = map(read_attributes, iter_result_paths())
    return [attrs for attrs in found if attrs["algo"] == algorithm]


def test_image_run_and_plot(folder: Path, hnsw: str):
    assert re.search(r"ann-benchmarks-pgvector_hnsw: (built|unchanged) .* 17\.\d.* vector 0\.8", hnsw), hnsw
    name = "random-xs-20-angular"
    out = command("run.py", "--algorithm", "pgvector_hnsw", "--dataset", name, "--runs", "1",
                  "--warmup", "100", "--max-n-algorithms", "1", "--memory", "2g")  # fmt: skip
    assert "in containers of 2 GB" in out
    found = points("pgvector_hnsw")
    assert len(found) == 9
    for attrs in found:
        assert attrs["recall_high"] > 0.95
        assert attrs["postgres_version"].startswith("17.")
        assert attrs["docker_image"] == "ann-benchmarks-pgvector_hnsw"
        assert attrs["container_memory_bytes"] == 2 << 30
        settings = attrs["settings"]
        assert (
            '"shared_buffers": "512MB"' in settings
        )  # a quarter of the container's memory, not of the machine's
        assert '"dynamic_shared_memory_type": "sysv"' not in settings  # /dev/shm is large enough
    command("plot.py", "--dataset", name)
    assert Path(f"results/{name}.png").stat().st_size > 10_000
    # The index is kept.
    out = command("run.py", "--algorithm", "pgvector_hnsw", "--dataset", name, "--max-n-algorithms", "1",
                  "--build-only", "--memory", "2g")  # fmt: skip
    assert "found, built earlier" in out


def test_tiers_are_the_limits_of_containers_that_take_turns(engine: Any, folder: Path, hnsw: str):
    image = engine.images.get("ann-benchmarks-pgvector_hnsw")
    image.tag("ann-benchmarks-pgvector_hnsw", "twin")
    try:
        out = command(
            "run.py", "--algorithm", "pgvector_hnsw", "pgvector_hnsw:twin", "--max-n-algorithms", "1",
            "--dataset", "random-xs-20-angular", "--rounds", "2", "--clients", "4", "--target-recall", "0.9",
            "--payload", "vector", "--tiers", "32MB:256MB+1cpus+gp3,64MB:all",
        )  # fmt: skip
    finally:
        engine.images.remove("ann-benchmarks-pgvector_hnsw:twin", noprune=True)
    assert "2 tiers, in this order: 64MB:all by container, 32MB:256MB+1cpus+gp3 by container" in out
    assert out.count("2 rounds in") == 2
    for name in ("pgvector_hnsw", "pgvector_hnsw-twin"):
        (small,) = points(f"{name}-c4-payload-vector-container-1cpus-gp3-sb32MB-ram256MB")
        (large,) = points(f"{name}-c4-payload-vector-container-sb64MB-ramall")
        assert small["tier_available"] == pytest.approx(256 << 20, rel=0.05)
        assert (small["shared_buffers"], large["shared_buffers"]) == (32 << 20, 64 << 20)
        assert small["index_reused"] and large["index_reused"]  # built once, with all memory
        assert small["target_trials"] == 0 < large["target_trials"]
        assert small["cores"] == 1
        assert small["payload_bytes"] == large["payload_bytes"] == 10 * (4 + 4 * 20)
        assert list(small["run_rounds"]) == [1, 2]


def test_workloads_write_in_containers(folder: Path, hnsw: str):
    common = ("--algorithm", "pgvector_hnsw", "--dataset", "random-xs-20-angular", "--max-n-algorithms", "1",
              "--duration", "1", "--writers", "2")  # fmt: skip
    command("run.py", *common, "--workload", "writes", "--clients", "1", "--write-rate", "50",
            "--memory", "2g")  # fmt: skip
    out = command("run.py", *common, "--workload", "inserts", "--tiers", "32MB:256MB")
    assert "1 tier, in this order: 32MB:256MB by container" in out
    writes, inserts = sorted(map(read_record, iter_record_paths()), key=lambda record: -record.clients)
    assert [phase.name for phase in writes.phases] == ["before", "writing", "after", "vacuumed", "reindexed"]
    assert writes.phases[1].writes["insert"].count > 0 and writes.attrs["container_memory_bytes"] == 2 << 30
    assert writes.monitoring is not None and writes.attrs["docker_image"] == "ann-benchmarks-pgvector_hnsw"
    assert inserts.phases[0].writes["insert"].count > 0
    assert inserts.phases[0].facts["tier_available"] == pytest.approx(256 << 20, rel=0.05)


def test_vchord_from_its_package(folder: Path):
    packages = sorted(ARCHIVES.glob("postgresql-17-vchord_*.deb")) if ARCHIVES.is_dir() else []
    if not packages:
        pytest.skip(
            f"no package of VectorChord for PostgreSQL 17 in {ARCHIVES} (ANN_BENCHMARKS_VCHORD_ARCHIVES)"
        )
    line = built(folder, "vchord", "--build-arg", f"VCHORD={packages[-1]}")
    assert re.search(r"vchord 1\.", line), line
    command("run.py", "--algorithm", "vchord", "--dataset", "random-xs-20-euclidean", "--runs", "1",
            "--max-n-algorithms", "1", "--clients", "4", "--duration", "0.3")  # fmt: skip
    found = points("vchord-c4")
    assert found and all(attrs["vchord_version"].startswith("1.") for attrs in found)
    with h5py.File(next(iter_result_paths())) as file:
        assert len(file["times"])


@pytest.fixture
def double(engine: Any) -> Iterator[str]:
    """The name of an image of pgvectorscale that is removed in the end."""
    if not shutil.which("dpkg-deb"):
        pytest.skip("dpkg-deb is missing, which makes the package")
    yield "pgvectorscale:double"
    for image in engine.images.list("ann-benchmarks-pgvectorscale"):
        if "ann-benchmarks-pgvectorscale:double" in image.tags:
            engine.images.remove("ann-benchmarks-pgvectorscale:double", force=True)


def test_pgvectorscale_from_a_double_of_its_release(folder: Path, double: str):
    """An extension of the same name, of one SQL function, in the layers that other images share."""
    files = {
        "vectorscale.control": b"default_version = '0.9.0'\nrequires = 'vector'\n",
        "vectorscale--0.9.0.sql": b"CREATE FUNCTION double() RETURNS text RETURN 'a test double';\n",
    }
    path = release_stand_in(folder, "17", files)
    line = built(folder, double, "--build-arg", f"PGVECTORSCALE={path}")
    assert re.search(r" 17\.\d.* vector 0\.8\S*, vectorscale 0\.9\.0$", line), line
    other = path.rename(folder / "pgvectorscale-0.9.0-pg18-amd64.zip")
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("pgvectorscale-postgresql-18_0.9.0-Linux_amd64.deb", "for another PostgreSQL")
    for archive_or_package, message in (
        (
            other,
            r"has no pgvectorscale-postgresql-17_\.\.\._\w+\.deb: give that one, or choose POSTGRES to match",
        ),
        ("0.9", "give it as PGVECTORSCALE=./pgvectorscale-0.9-pg17-"),
    ):
        done = install(*BUILD, double, "--build-arg", f"PGVECTORSCALE={archive_or_package}", folder=folder)
        assert done.returncode == 1 and re.search(message, done.stdout + done.stderr), (
            done.stdout + done.stderr
        )

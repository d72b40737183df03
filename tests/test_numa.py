"""Machines with several nodes of memory: folders that look like theirs, a program in numactl's place."""

from pathlib import Path

import pytest

from ann_benchmarks.algorithms.postgres.servers.programs import numa_advice, numa_command


def make_nodes(folder: Path, *memory: int | None) -> Path:
    """Make a folder as Linux shows the nodes of a machine, with as many KiB each."""
    for number, kibibytes in enumerate(memory):
        node = folder / f"node{number}"
        node.mkdir(parents=True)
        if kibibytes is not None:
            (node / "meminfo").write_text(
                f"Node {number} MemTotal:       {kibibytes} kB\nNode {number} MemFree:  1 kB\n"
            )
    (folder / "online").write_text("0-1\n")
    return folder


@pytest.fixture
def two_nodes(tmp_path: Path) -> Path:
    return make_nodes(tmp_path / "nodes", 1000, 2000)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and the only one where programs are looked for."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def install_numactl(programs: Path, status: int = 0) -> str:
    file = programs / "numactl"
    file.write_text(f'#!/bin/sh\n[ "$*" = "--interleave=all true" ] && exit {status}\nexit 9\n')
    file.chmod(0o755)
    return str(file)


def test_memory_is_spread_over_two_nodes(two_nodes: Path, programs: Path):
    numactl = install_numactl(programs)
    assert numa_command(two_nodes) == [numactl, "--interleave=all"]
    assert numa_advice(nodes=two_nodes) is None


@pytest.mark.parametrize("memory", [(), (1000,), (1000, 0), (1000, None)])
def test_one_node_with_memory_needs_nothing(
    memory: tuple[int | None, ...], tmp_path: Path, programs: Path
) -> None:
    install_numactl(programs)
    nodes = make_nodes(tmp_path / "nodes", *memory) if memory else tmp_path / "none-such"
    assert numa_command(nodes) == []
    assert numa_advice(nodes=nodes) is None
    assert numa_advice(1, nodes) is None


def test_two_nodes_without_numactl_are_told(two_nodes: Path, programs: Path):
    assert numa_command(two_nodes) == []
    said = numa_advice(nodes=two_nodes)
    assert said is not None and "install numactl" in said and "\n" not in said


def test_a_container_that_forbids_it_is_told(two_nodes: Path, programs: Path):
    install_numactl(programs, status=1)
    assert numa_command(two_nodes) == []
    assert "SYS_NICE" in (numa_advice(nodes=two_nodes) or "")


@pytest.mark.parametrize(
    ("maps", "is_told"),
    [
        ("7f00 default file=/dev/zero dirty=9 N0=9\n", True),
        ("7f00 interleave:0-1 file=/dev/zero dirty=9 N0=5 N1=4\n", False),
        ("7f00 interleave=relative:0-1 anon=1\n", False),
        ("7f00 default file=/lib/interleave dirty=9\n", True),
        (None, False),  # not for us to see
    ],
)
def test_somebody_elses_server(maps: str | None, is_told: bool, two_nodes: Path, tmp_path: Path):
    process = tmp_path / "proc" / "77"
    process.mkdir(parents=True)
    if maps is not None:
        (process / "numa_maps").write_text(maps)
    said = numa_advice(77, two_nodes, tmp_path / "proc")
    assert (said is not None) == is_told
    assert said is None or "numactl --interleave=all" in said

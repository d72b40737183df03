"""Run groups that say which data they are meant for."""

from dataclasses import replace

import pytest
import yaml

from ann_benchmarks.commands.run import main
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.definitions.configs import read_config
from ann_benchmarks.definitions.definition import Data, get_definitions
from ann_benchmarks.definitions.selection import select_definitions

CONFIG = """\
float:
  any:
  - name: tree
    module: m
    constructor: C
    docker_tag: t
    base_args: ['@metric']
    run_groups:
      small: {args: [small], rows: [null, 2_000]}
      medium: {args: [medium], rows: [2_000, 50_000], query_args: [[1, 2]]}
      large: {args: [large], rows: [50_000, null]}
      part: {args: [part], datasets: [parts], rows: [0, 100]}
    more_run_groups:
      report: {args: [[a, b]], datasets: [deep1b, laion-5m-test-ip, mine]}
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tree" / "config.yml"
    path.parent.mkdir()
    path.write_text(CONFIG)
    return read_config(path)


@pytest.mark.parametrize(
    "dataset, rows, chosen",
    [
        ("other", 0, ["small"]),
        ("other", 1_999, ["small"]),
        ("other", 2_000, ["medium"]),
        ("other", 49_999, ["medium"]),
        ("other", 50_000, ["large"]),
        ("other", 10**9, ["large"]),
        ("deep1b", 10**9, ["a", "b"]),
        ("mine", 3_000, ["a", "b"]),
        ("laion-5m", 5_000_000, ["a", "b"]),
        ("laion-5m-test-ip", 5_000_000, ["a", "b"]),  # a file under data/ may have an alias for a name
        ("deep10m", 10**7, ["large"]),
        ("parts", 99, ["part"]),
        ("parts", 100, ["small"]),
    ],
)
def test_the_groups_meant_for_a_dataset_are_used(config, dataset, rows, chosen):
    definitions = get_definitions([config], Data(dataset, rows, 3, "angular", "float"), 10)
    assert [d.arguments for d in definitions] == [["angular", name] for name in chosen]
    assert definitions[0].query_argument_groups == ([[1], [2]] if chosen == ["medium"] else [])


def test_that_no_group_is_meant_for_a_dataset_is_said(config):
    config.entries["float"]["any"][0]["run_groups"] = {"g": {"args": [], "datasets": ["deep1b"]}}
    assert get_definitions([config], Data("x", 10_000, 3, "angular", "float"), 10) == []
    data = Data("x", 10_000, 3, "angular")
    with pytest.raises(UserError) as caught:
        select_definitions([config], [("tree", None)], data, 10)
    assert str(caught.value) == (
        f"no run group of 'tree' is meant for 'x' with 10,000 rows: add one to {config.path}"
    )
    with pytest.raises(UserError, match="no algorithm has a run group that is meant for 'x' with 10,000"):
        select_definitions([config], [(None, None)], data, 10)
    with pytest.raises(UserError, match="no definition for bit vectors"):
        select_definitions([config], [("tree", None)], Data("x", 10_000, 3, "angular", "bit"), 10)


def test_run_takes_the_size_and_the_name_from_the_dataset(workspace):
    folder = workspace.add_plugin("one", run_group={"args": [], "rows": [200, 201]})
    assert "1 definition built" in workspace.run("--build-only").stdout
    for key, value in (("rows", [201, None]), ("datasets", ["deep1b"])):
        text = yaml.safe_load((folder / "config.yml").read_text())
        text["float"]["any"][0]["run_groups"] = {"g": {"args": [], key: value}}
        (folder / "config.yml").write_text(yaml.safe_dump(text))
        with pytest.raises(
            UserError, match="'one' is meant for 'tiny' with 200 rows: add one to plugins/one"
        ):
            main(workspace.command("--algorithm", "one")[2:])


def test_groups_for_filtered_queries(config):
    entries = config.entries["float"]["any"]
    groups = {"plain": {"args": [1]}, "filtered": {"args": [[2, 3]], "filtered": True}}
    strategy = {"run_groups": {}, "more_run_groups": {"filtered": groups["filtered"]}}
    entries[:] = [
        {**entries[0], "run_groups": groups, "more_run_groups": {}},
        {**entries[0], "name": "strategy", **strategy},
        {**entries[0], "name": "other", "run_groups": {"plain": groups["plain"]}, "more_run_groups": {}},
    ]
    data = Data("x", 10_000, 3, "angular")

    def chosen(filtered: bool) -> list[tuple[str, int]]:
        found = get_definitions([config], replace(data, filtered=filtered), 10)
        return [(d.algorithm, d.arguments[1]) for d in found]

    assert chosen(False) == [("tree", 1), ("other", 1)]
    assert chosen(True) == [("tree", 2), ("tree", 3), ("strategy", 2), ("strategy", 3), ("other", 1)]
    with pytest.raises(UserError, match="'strategy' is a strategy of filtered queries: add --filter"):
        select_definitions([config], [("strategy", None)], data, 10)

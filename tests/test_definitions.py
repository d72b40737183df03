from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.layout import DEFINITIONS_FOLDER
from ann_benchmarks.definitions.configs import read_config, read_configs
from ann_benchmarks.definitions.definition import Data, get_definitions, supported_data
from ann_benchmarks.definitions.selection import config_warnings

ENTRY = """\
float:
  any:
  - name: a
    module: m
    constructor: C
    docker_tag: t
    base_args: ['@metric', ['@dimension', {k: '@count'}], '@other']
    run_groups:
      g: {args: []}
"""


def write_config(folder, text):
    path = Path(folder, "config.yml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def expand(tmp_path, run_group):
    text = ENTRY.replace("{args: []}", yaml.safe_dump(run_group, default_flow_style=True, width=1000).strip())
    text = text.replace("['@metric', ['@dimension', {k: '@count'}], '@other']", "[b]")
    config = read_config(write_config(tmp_path, text))
    definitions = get_definitions([config], Data("tiny", 200, 3, "angular", "float"), 10)
    return [d.arguments for d in definitions], definitions[0].query_argument_groups


# What ann-benchmarks makes of the same run groups.
@pytest.mark.parametrize(
    "run_group, arguments, queries",
    [
        ({"args": []}, [["b"]], []),
        ({"args": {}}, [["b", {}]], []),
        ({"args": [[1, 2], "x"]}, [["b", 1, "x"], ["b", 2, "x"]], []),
        ({"args": {"M": [1, 2], "e": 3}}, [["b", {"M": 1, "e": 3}], ["b", {"M": 2, "e": 3}]], []),
        ({"arg_groups": [{"M": [1, 2]}, 7]}, [["b", {"M": 1}, 7], ["b", {"M": 2}, 7]], []),
        ({"arg_groups": [[1, 2]], "args": ["no"]}, [["b", 1], ["b", 2]], []),
        ({"args": [], "query_args": [[1, 2], [3, 4]]}, [["b"]], [[1, 3], [1, 4], [2, 3], [2, 4]]),
        ({"args": [], "query_args": ["@count"]}, [["b"]], [["@count"]]),
        ({"args": [], "query_arg_groups": [{"e": [1, 2]}]}, [["b"]], [[{"e": 1}], [{"e": 2}]]),
        ({"args": [], "query_args": []}, [["b"]], [[]]),
    ],
)
def test_arguments_are_expanded_as_a_product(tmp_path, run_group, arguments, queries):
    assert expand(tmp_path, run_group) == (arguments, queries)


def test_variables_are_replaced_at_any_depth(tmp_path):
    config = read_config(write_config(tmp_path, ENTRY))
    (definition,) = get_definitions([config], Data("tiny", 200, 96, "ip", "float"), 7)
    assert definition.arguments == ["ip", [96, {"k": 7}], "@other"]
    assert definition.disabled is False
    assert definition.points() == [[]]


def test_a_metrics_own_definition_wins_over_any_and_keeps_its_place(tmp_path):
    metrics = yaml.safe_load(ENTRY)["float"]
    second = {**metrics["any"][0], "name": "b"}
    metrics["any"].append(second)
    metrics["angular"] = [{**metrics["any"][0], "constructor": "Own"}]
    config = read_config(write_config(tmp_path, yaml.safe_dump({"float": metrics}, sort_keys=False)))

    def names(point_type, metric):
        definitions = get_definitions([config], Data("tiny", 200, 3, metric, point_type), 10)
        return [(d.algorithm, d.constructor) for d in definitions]

    assert names("float", "angular") == [("a", "Own"), ("b", "C")]
    assert names("float", "euclidean") == [("a", "C"), ("b", "C")]
    assert names("bit", "angular") == []
    assert supported_data([config]) == {"a": {"float": ["any", "angular"]}, "b": {"float": ["any"]}}


@pytest.mark.parametrize(
    "old, new, line, words",
    [
        ("args: []", "arg: []", 9, ["'arg'", "'args'"]),
        ("{args: []}", "{args: 5}", 9, ["'args' must be a list"]),
        ("{args: []}", "{query_args: []}", 9, ["'g'", "args: []"]),
        ("{args: []}", "{args: [], arg_groups: {M: 1}}", 9, ["'arg_groups' must be a list"]),
        ("{args: []}", "{args: [], datasets: deep1b}", 9, ["'datasets' must be a list"]),
        ("{args: []}", "{args: [], datasets: []}", 9, ["'datasets' must be a list"]),
        ("{args: []}", "{args: [], datasets: [5]}", 9, ["'datasets' must be a list"]),
        ("{args: []}", "\n        args: []\n        rows: [5]", 11, ["'rows' must be two whole numbers"]),
        ("{args: []}", "{args: [], rows: 5}", 9, ["'rows' must be two whole numbers"]),
        ("{args: []}", "{args: [], rows: [1.5, 2]}", 9, ["'rows' must be two whole numbers"]),
        ("{args: []}", "{args: [], rows: [true, 2]}", 9, ["'rows' must be two whole numbers"]),
        ("{args: []}", "{args: [], rows: [5_000, 5_000]}", 9, ["5,000 is not below 5,000"]),
        ("{args: []}", "{arg_groups: [{lists: []}]}", 9, ["an empty list is a choice of nothing", "[[]]"]),
        ("{args: []}", "{args: [], query_args: [[1], []]}", 9, ["an empty list is a choice of nothing"]),
        ("{args: []}", "{args: []}\n    more_run_groups: {g: {args: []}}", 10, ["'g'", "'run_groups'"]),
        ("{args: []}", "{args: []}\n    more_run_groups: {h: {arg: []}}", 10, ["'arg'", "'args'"]),
        ("docker_tag", "dockertag", 6, ["'dockertag'", "'docker_tag'"]),
        ("    docker_tag: t\n", "", 3, ["no 'docker_tag'"]),
        ("  any:", "  angluar:", 2, ["'angluar'", "'angular'"]),
        ("float:", "flot:", 1, ["'flot'", "'float'"]),
        ("module: m", "module: [m]", 4, ["'module' must be a text"]),
        ("module: m", "module: m\n    module: n", 5, ["'module'", "second time"]),
        ("module: m", "module: m\n    disabled: 'no'", 5, ["'disabled'", "true or false"]),
        ("module: m", "module: [", 6, ["not valid YAML"]),
    ],
)
def test_a_mistake_is_named_with_file_line_and_key(tmp_path, old, new, line, words):
    path = write_config(tmp_path, ENTRY.replace(old, new, 1))
    with pytest.raises(UserError) as caught:
        read_config(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: ")
    assert all(word in message for word in words), message
    assert "\n" not in message


def test_an_empty_file_is_a_mistake(tmp_path):
    with pytest.raises(UserError, match=r"config\.yml: is empty"):
        read_config(write_config(tmp_path, ""))


def test_the_same_name_in_two_files_is_a_mistake(tmp_path):
    write_config(tmp_path / "one", ENTRY)
    write_config(tmp_path / "two", ENTRY)
    configs, broken = read_configs(tmp_path)
    assert [config.path.parent.name for config in configs] == ["one"]
    assert "'a' is defined in" in broken[0].problem


def test_a_broken_config_is_fatal_only_to_its_own_algorithm(tmp_path):
    write_config(tmp_path / "good", ENTRY)
    write_config(tmp_path / "bad", ENTRY.replace("name: a", "name: 'other'").replace("args: []", "arks: []"))
    write_config(tmp_path / "base", "not: [looked at")
    configs, broken = read_configs(tmp_path)
    warnings = config_warnings(configs, broken, None)
    assert len(warnings) == 1 and "'arks'" in warnings[0]
    assert config_warnings(configs, broken, "a") == warnings
    with pytest.raises(UserError, match="'arks'"):
        config_warnings(configs, broken, "other")
    with pytest.raises(UserError, match="unknown algorithm 'goood'; known are: a"):
        config_warnings(configs, broken, "goood")


def test_the_projects_own_configs_are_right():
    configs, broken = read_configs(DEFINITIONS_FOLDER)
    assert not broken
    assert "bruteforce-numpy" in supported_data(configs)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UserError, match="nowhere"):
        read_configs(tmp_path / "nowhere")
    with pytest.raises(UserError, match="NAME/config.yml"):
        read_configs(tmp_path)


def test_merge_keys_are_understood(tmp_path):
    text = dedent(
        """\
        float:
          euclidean:
          - &first {name: a, module: m, constructor: C, docker_tag: t, run_groups: {g: {args: []}}}
          angular:
          - {<<: *first, constructor: D}
        """
    )
    config = read_config(write_config(tmp_path, text))
    assert get_definitions([config], Data("tiny", 200, 3, "angular", "float"), 10)[0].constructor == "D"

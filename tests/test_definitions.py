from dataclasses import replace
from itertools import product
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from ann_benchmarks.commands.run import main
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.layout import DEFINITIONS_FOLDER
from ann_benchmarks.definitions.configs import read_config, read_configs
from ann_benchmarks.definitions.definition import Data, Definition, get_definitions, supported_data
from ann_benchmarks.definitions.selection import config_warnings, joined, select_definitions

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


# What the shipped config.yml files build for which data.


EF_SEARCH = [[10], [20], [40], [80], [120], [200], [400], [800]]
REPORT = {"residual_quantization": True, "kmeans_algorithm": "hierarchical", "sampling_factor": 256, "pin": 2}


def definitions(folder: str, algorithm: str, dataset: str, rows: int) -> list[Definition]:
    config = read_config(Path(DEFINITIONS_FOLDER) / folder / "config.yml")
    found = get_definitions([config], Data(dataset, rows, 96, "euclidean", "float"), 10)
    return [definition for definition in found if definition.algorithm == algorithm]


@pytest.mark.parametrize(
    ("dataset", "rows", "small", "large", "at_95_percent"),
    [
        ("laion-5m", 5_000_000, [50, 8000], [190, 35_000], "38,76"),
        ("laion-100m", 100_000_000, [400, 160_000], [570, 320_000], "17,140"),
        ("deep1b", 1_000_000_000, [400, 160_000], [800, 640_000], "40,250"),
    ],
)
def test_vectorchord_of_the_report(dataset: str, rows: int, small: list, large: list, at_95_percent: str):
    found = definitions("vchord", "vchord", dataset, rows)
    assert [d.arguments for d in found] == [
        ["euclidean", REPORT | {"lists": small}],
        ["euclidean", REPORT | {"lists": large}],
    ]
    assert all(epsilon == 1.9 for d in found for _, epsilon in d.query_argument_groups)
    assert [at_95_percent, 1.9] in found[1].query_argument_groups


PGPU = {"residual_quantization": True, "pin": 2, "sampling_factor": 256, "kmeans_iterations": 30}


def test_every_configuration_of_vsbt_is_measured_on_its_dataset():
    rows = yaml.safe_load((Path(__file__).parent / "files" / "vsbt.yml").read_text())
    missing = []
    for dataset, algorithm, arguments, query in rows:
        folder = {"vchord_in_table": "vchord", "pgvector_ivfflat_bq": "pgvector_ivfflat"}
        common = {"pgpu": PGPU, "vchord": REPORT, "vchord_in_table": REPORT}.get(algorithm, {})
        requested = {**common, **arguments}
        found = definitions(folder.get(algorithm, algorithm), algorithm, dataset, 10**6)
        measured = [
            point
            for definition in joined(found)
            if requested.items() <= definition.arguments[1].items()
            and set(definition.arguments[1]) <= {*requested, "form"}
            for point in definition.query_argument_groups
        ]
        if not all([*point] in measured for point in product(*query)):
            missing.append((dataset, algorithm))
    assert len(rows) == 64
    # pgpu 2.1.0 refuses a sample that is larger than the table; here it is half as large.
    assert missing == [("laion-5m-test-ip", "pgpu")] * 2


@pytest.mark.parametrize(
    "dataset", ["dbpedia-openai-1000k-angular", "sift-128-euclidean", "gist-960-euclidean"]
)
@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("pgvector_hnsw", {}),
        ("pgvector_hnsw_halfvec", {"form": "halfvec"}),
        ("pgvector_hnsw_bq_hamming", {"form": "bit_hamming"}),
        ("pgvector_hnsw_bq_jaccard", {"form": "bit_jaccard"}),
    ],
)
def test_the_year_in_review(dataset: str, name: str, form: dict[str, str]):
    every = definitions("pgvector_hnsw", name, dataset, 1_000_000)
    (found,) = (one for one in every if one.arguments[1] == {"M": 16, "efConstruction": 256} | form)
    assert found.query_argument_groups == EF_SEARCH
    ivfflat = definitions("pgvector_ivfflat", "pgvector_ivfflat", dataset, 1_000_000)[0]
    assert ivfflat.arguments[1] == {"lists": 1000}
    assert ivfflat.query_argument_groups == [[probes] for probes in (1, 2, 4, 10, 20, 40, 100)]


@pytest.mark.parametrize(
    ("folder", "dataset", "arguments", "query"),
    [
        ("pgvector_hnsw", "cohere-1m", {"M": 16, "efConstruction": 256}, [256]),
        ("pgvector_hnsw", "bioasq-10m", {"M": 16, "efConstruction": 128}, [128]),
        ("pgvector_ivfflat", "openai-500k", {"lists": 10}, [2]),
        ("vchord", "openai-50k", {"lists": 1000}, [10, 1.9]),
        (
            "pgvectorscale",
            "cohere-10m",
            {"num_neighbors": 50, "search_list_size": 100, "max_alpha": 1.2},
            [100, 50],
        ),
    ],
)
def test_what_vectordbbench_measures(
    folder: str, dataset: str, arguments: dict[str, float], query: list[float]
):
    found = definitions(folder, folder, dataset, 1_000_000)
    assert any(
        definition.arguments[1] == arguments and query in definition.query_argument_groups
        for definition in found
    )


@pytest.mark.parametrize("rows", [1000, 10_000, 99_999, 100_000, 1_999_999, 2_000_000, 50_000_000, 10**9])
@pytest.mark.parametrize(
    "name",
    ["vchord", "vchord_halfvec", "vchord_rabitq8", "vchord_rabitq4", "pgvector_hnsw", "pgvector_hnsw_halfvec",
     "pgvector_hnsw_bq_hamming", "pgvector_hnsw_bq_jaccard", "pgvector_ivfflat", "pgvector_ivfflat_halfvec",
     "pgvector_ivfflat_bq", "pgvector_exact"],
)  # fmt: skip
def test_data_of_any_size_has_definitions_that_fit_it(name: str, rows: int):
    folder = {"vchord": "vchord", "pgvector": "pgvector_" + name.split("_")[1] if "_" in name else name}
    found = definitions(folder[name.split("_")[0]], name, "mine", rows)
    assert 1 <= len(found) <= 3
    for definition in found:
        lists = definition.arguments[1].get("lists", "auto") if len(definition.arguments) > 1 else "auto"
        assert lists == "auto" or lists < rows / 50
        assert definition.query_argument_groups


# Run groups that say which data they are meant for.


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

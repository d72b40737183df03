"""What the shipped config.yml files build for which data."""

from itertools import product
from pathlib import Path

import pytest
import yaml

from ann_benchmarks.common.layout import DEFINITIONS_FOLDER
from ann_benchmarks.definitions.configs import read_config
from ann_benchmarks.definitions.definition import Data, Definition, get_definitions
from ann_benchmarks.definitions.selection import joined

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
        wanted = {**common, **arguments}
        found = definitions(folder.get(algorithm, algorithm), algorithm, dataset, 10**6)
        measured = [
            point
            for definition in joined(found)
            if wanted.items() <= definition.arguments[1].items()
            and set(definition.arguments[1]) <= {*wanted, "form"}
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

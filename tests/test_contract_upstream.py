"""The contract with the code of ann-benchmarks itself: its tests, its definitions and its makers of datasets.

All of it needs a checkout, as some tests of test_contract.py do.
"""

import json
import shutil
import sys
from collections import Counter
from itertools import product
from pathlib import Path

from ann_benchmarks.definitions.configs import read_configs
from ann_benchmarks.definitions.definition import Data, get_definitions
from ann_benchmarks.results.file import LONGEST_NAME, result_path

from .conftest import make_dataset
from .test_contract import (
    ALGORITHMS,
    CHECKOUT,
    REPOSITORY,
    THEIR_PYTHON,
    folder,  # noqa: F401
    needs_checkout,
    run,
)

pytestmark = needs_checkout

KINDS = [*product(("float", "bit"), ("angular", "euclidean", "hamming", "jaccard", "ip"), (20,), (10,))]
KINDS += [("float", "angular", 960, 100), ("bit", "jaccard", 128, 100)]

EXPAND = """
import json, sys
from ann_benchmarks.definitions import get_definitions
from ann_benchmarks.results import build_result_filepath
print(json.dumps([
    [[vars(d), [build_result_filepath("data", k, d, q) for q in d.query_argument_groups or [[]]]]
     for d in get_definitions(dimension, points, metric, k)]
    for points, metric, dimension, k in json.loads(sys.argv[1])
]))
"""


def test_their_tests_pass_on_our_package(folder: Path):  # noqa: F811
    tests = shutil.copytree(Path(CHECKOUT, "test"), folder / "test")
    make_dataset("glove-25-angular", "angular", 500, 25, queries=50, neighbours=100, folder=folder / "data")
    files = sorted(map(str, tests.glob("*_test.py")))
    said = run(folder, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files,
               PYTHONPATH=str(REPOSITORY))  # fmt: skip
    assert len(files) >= 3
    assert " passed" in said and "skipped" not in said


def test_their_configs_have_the_same_definitions_and_results_here():
    theirs = json.loads(run(Path(CHECKOUT), THEIR_PYTHON, "-c", EXPAND, json.dumps(KINDS)).splitlines()[-1])
    configs, broken = read_configs(Path(CHECKOUT) / ALGORITHMS)
    assert not broken
    for (points, metric, dimension, k), expected in zip(KINDS, theirs, strict=True):
        found, fields = [], expected[0][0].keys() if expected else ()  # ours have more
        for definition in get_definitions(configs, Data("data", 1000, dimension, metric, points), k):
            name, build = definition.algorithm, definition.arguments
            paths = [str(result_path("data", k, name, build + query)) for query in definition.points()]
            facts = {field: value for field, value in vars(definition).items() if field in fields}
            found.append([facts, paths])
        assert counted(found) == counted(expected), (points, metric)
    assert sum(map(len, theirs)) > 2000


def counted(definitions: list) -> Counter:
    """Definitions with their files; names that no file system takes are shortened here."""
    return Counter(
        json.dumps([facts, [p if len(Path(p).name) <= LONGEST_NAME else "" for p in paths]], sort_keys=True)
        for facts, paths in definitions
    )

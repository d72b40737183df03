"""Files of settings that are hostile or damaged: each is a line with file and key, and nothing hangs."""

import os
from pathlib import Path

import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.yaml_file import MOST_BYTES, MOST_DEPTH, YamlFile
from ann_benchmarks.definitions.configs import read_config, read_configs

pytestmark = pytest.mark.thorough

_X9 = ",".join(["x"] * 9)
BOMB = f"a: &a [{_X9}]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(12)
)
CONFIG = """\
float:
  any:
  - name: exact
    module: ann_benchmarks.algorithms.bruteforce
    constructor: ExactScan
    docker_tag: ann-benchmarks-bruteforce
    base_args: ['@metric']
    disabled: false
    run_groups:
      all:
        args: []
        query_args: [[1, 2]]
        rows: [1, 1000]
        datasets: [tiny]
    more_run_groups:
      more:
        arg_groups: [{M: 8}]
        query_arg_groups: [{ef: [1, 2]}]
"""


def refused(tmp_path: Path, text: str) -> str:
    path = tmp_path / "f.yml"
    path.write_text(text)
    with pytest.raises(UserError) as raised:
        YamlFile(path, "anything")
    message = str(raised.value)
    assert message.startswith(str(path)) and len(message.splitlines()) == 1
    return message.removeprefix(str(path))


# Before there were bounds, the first eight crashed the interpreter, never ended or were tracebacks.
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, ":6: it has more than 200,000 entries, counting what aliases repeat"),
        ("- " * 100_000, f":1: it has more than {MOST_DEPTH} levels"),
        ("[" * 3000, f":1: it has more than {MOST_DEPTH} levels"),
        ("&a [*a]", ":1: '*a' stands within '&a', so that it has no end"),
        ("a: &a\n  b: *a", ":2: '*a' stands within '&a'"),
        (
            "a: b\nc: {d: [2024-99-99]}",
            ":2: 'd': 2024-99-99 is read as timestamp: write it without",
        ),
        ("a: 0x_", ":1: 'a': 0x_ must be a whole number"),
        ("a: !!int foo", ":1: 'a': foo must be a whole number"),
        ("a: !!int ''", ":1: 'a': must be a whole number"),
        ("a: !!bool maybe", ":1: 'a': maybe must be a truth value"),
        ("a: !!binary ====", ":1: 'a': ==== is read as binary"),
        ("a: " + "9" * 5000, "99999 must be a whole number: correct it, or put it in quotes"),
        ("a: 0x" + "f" * 20, "is a number beyond 64 bits: put it in quotes"),
        ("a: 1" + ":1" * 300_000, "must be a whole number"),
        ("{a: {b: {[c]: d}}}", ":1: 'b': a mapping or a list cannot be a key"),
        ("{1: 2}", ":1: the key '1' must be a text: put it in quotes"),
        ('a: "b\\0c"', ":1: 'a': b\\x00c has a zero byte"),
        ("a: {<<: 3}", ":1: not valid YAML: expected a mapping"),
        ("a: =", ":1: 'a': = is read as value"),
        ("a: *b", ":1: not valid YAML: found undefined alias"),
        ("a: 1\na: 2", ":2: the key 'a' stands here a second time"),
        ("a: !!python/object/apply:os.system [id]", ":1: 'a': this is read as python/object/apply:os.system"),
        ("x" * (MOST_BYTES + 1), ": cannot be read: it has more than 4,194,304 bytes"),
    ],
)
def test_what_yaml_raises_is_a_line(tmp_path: Path, text: str, message: str) -> None:
    assert message in refused(tmp_path, text)


def test_aliases_and_merges_within_the_bounds_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "f.yml"
    path.write_text("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: [*a, *a]\nd: {<<: [*a, {z: .inf}]}\n")
    content = YamlFile(path, "anything").content
    assert content["b"] == {"x": 1, "y": 3} and content["c"] == [{"x": 1, "y": 2}] * 2
    assert content["d"] == {"x": 1, "y": 2, "z": float("inf")}


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", ".", "a" * 300):
        with pytest.raises(UserError, match="cannot be read"):
            YamlFile(tmp_path / name, "anything")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: exact", "name: " + "a" * 300, "'name' has 300 bytes, more than 200"),
        ("name: exact", "name: a/b", "'name' has '/' in it"),
        ("module: ann", "module: ..ann", "must be a module of Python"),
    ],
)
def test_names_of_algorithms(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "config.yml"
    path.write_text(CONFIG.replace(old, new))
    with pytest.raises(UserError, match=message):
        read_config(path)


def test_a_broken_folder_is_set_aside(tmp_path: Path) -> None:
    for name, text in (("good", CONFIG), ("deep", "- " * 100_000), ("bomb", BOMB), ("date", "a: 2024-99-99")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yml").write_text(text)
    configs, broken = read_configs(tmp_path)
    assert [config.names() for config in configs] == [["exact"]]
    assert [file.path.parent.name for file in broken] == ["bomb", "date", "deep"]
    assert broken[0].mentions("bomb") and not broken[0].mentions("exact")

"""Hostile names and values on command lines: each is refused on a line, and nothing hangs."""

import argparse
from pathlib import Path

import pytest
from hypothesis import given, settings

from ann_benchmarks.common import cli
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.names import checked_name, name_problem
from ann_benchmarks.plugin import Plugin

from .hostile_cases import SHARE
from .hostile_commands import PIPES, attack_once, load_commands
from .hostile_options import DIGITS, NUMBERS, TEXTS, command_lines

pytestmark = pytest.mark.thorough

OWN = ["--name", "x", "--distance", "ip", "--neighbors", "2"]
ALL = [*OWN, "--train", "file.npy"]
CASES = 30 * SHARE


@pytest.fixture(scope="module", autouse=True)
def commands() -> None:
    load_commands()


@pytest.mark.parametrize("read", [cli.positive_int, cli.positive_ints, cli.limit, cli.seed])
@pytest.mark.parametrize("text", NUMBERS)
def test_whole_numbers(read, text: str) -> None:
    try:
        value = read(text)
    except argparse.ArgumentTypeError as error:
        assert len(str(error)) < 300 and len(str(error).splitlines()) == 1
    else:
        assert all(-1 <= number < 2**63 for number in (value if isinstance(value, list) else [value]))
        assert text.isascii()


@pytest.mark.parametrize("read", [cli.positive_float, cli.number, cli.size])
@pytest.mark.parametrize("text", [*NUMBERS, "8g", "1.5m", f"{DIGITS}g", "٣g", "0.1b"])
def test_amounts(read, text: str) -> None:
    try:
        assert abs(read(text)) <= 2**50 and text.isascii()
    except argparse.ArgumentTypeError as error:
        assert len(str(error)) < 300 and len(str(error).splitlines()) == 1


@pytest.mark.parametrize("text", TEXTS)
def test_names(text: str) -> None:
    if name_problem(text) is None:
        assert checked_name(text, "dataset") == text and "/" not in text and 0 < len(text.encode()) <= 200
    else:
        with pytest.raises(UserError, match="cannot be the name of a dataset: it "):
            checked_name(text, "dataset")


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        (
            "plot",
            ["--dataset", "/etc/passwd"],
            "'/etc/passwd' cannot be the name of a dataset: it has '/'",
        ),
        ("report", ["--dataset", "/etc/passwd"], "cannot be the name of a dataset"),
        ("report", ["--dataset", ""], "'' cannot be the name of a dataset: it is empty"),
        ("plot", ["--dataset", ""], "'' cannot be the name of a dataset: it is empty"),
        ("plot", ["--dataset", "a" * 300], "it has 300 bytes, more than 200"),
        ("plot", ["--dataset", "tiny", "-o", "a" * 300], "it has 300 bytes, more than 255"),
        ("create_dataset", ["--dataset", "a" * 300], "it has 300 bytes, more than 200"),
        ("run", ["--experiment", "a" * 300], "it has 300 bytes, more than 255"),
        ("run", ["--memory", DIGITS], "must be a size, such as 512m or 8g"),
        (
            "run",
            ["--local", "--clients", "2000000000"],
            "are as many processes or threads; this machine",
        ),
        ("run", ["--warmup", DIGITS], "is not a warm-up"),
        ("run", ["--timeout", "9" * 20], "is not a whole number of at least -1, from -1 to 2,147,483,647"),
        ("algorithms.clustering.__main__", ["--seed", "1e9"], "is not a whole number of at least 0"),
        *(
            ("create_dataset", [*OWN, "--train", name], f"cannot read {name}: it must be a regular file, but")
            for name in ("/dev/zero", *(name for name in PIPES if name.startswith("pipe")))
        ),
        ("create_dataset", [*ALL, "--test", "pipe.npy"], "cannot read pipe.npy: it must be a regular file"),
        (
            "create_dataset",
            [
                *ALL,
                "--test",
                "file.npy",
                "--attributes",
                "pipe.parquet",
                "--filters",
                "plugins/exact/config.yml",
            ],
            "cannot read pipe.parquet: it must be a regular file, but is a pipe",
        ),
        (
            "create_dataset",
            [*ALL, "--queries", "5", "--attributes", "x.parquet", "--filters", "pipe.yml"],
            "pipe.yml: cannot ",
        ),
        ("create_dataset", ["--convert", "pipe.npy", "--output", "x.npy"], "cannot read pipe.npy: it must"),
        (
            "run",
            ["--local", "--dataset", "pipe"],
            "cannot open data/pipe.hdf5: it must be",
        ),
        (
            "run",
            ["--experiment", "pipe.yml"],
            "pipe.yml: cannot be read: it must be a regular file, but is a",
        ),
        ("report", ["--dataset", "tiny", "--prices", "/dev/zero"], "/dev/zero: cannot be read: it must be a"),
        ("compare", ["pipe", "pipe"], "pipe holds no readable result"),
        (
            "install",
            ["--ca-bundle", "/dev/zero"],
            "cannot be read: it must be a regular file, but is a device",
        ),
    ],
)
def test_what_the_options_name(tmp_path: Path, command: str, words: list[str], message: str) -> None:
    ended = attack_once(tmp_path, command, words)
    assert message in ended.errors and not ended.problem


def test_a_picture_goes_into_a_folder(tmp_path: Path) -> None:
    ended = attack_once(tmp_path, "plot", ["--dataset", "tiny", "-o", "folder"])
    assert "wrote folder/tiny.png" in ended.output and not ended.problem


def test_clients_that_cannot_be_are_refused() -> None:
    class Few:
        def most_clients(self) -> int:
            return 8

    Plugin(Few()).check_clients(8)
    Plugin(object()).check_clients(100_000)
    with pytest.raises(UserError, match="Few can have 8 clients here, not 100,000: give fewer"):
        Plugin(Few()).check_clients(100_000)


def test_hostile_command_lines_end_in_a_line(tmp_path: Path) -> None:
    tried: dict[str, int] = {}

    @settings(max_examples=CASES, deadline=None, derandomize=True, database=None)
    @given(command_lines())
    def each(case: tuple[str, list[str]]) -> None:
        command, words = case
        ended = attack_once(tmp_path, command, words)
        tried[command] = tried.get(command, 0) + 1
        assert not ended.problem, f"{command} {words}: {ended.problem}\n{ended.errors[-2000:]}"

    each()
    print("cases tried:", tried)
    assert sum(tried.values()) >= CASES

"""Hostile names and values on command lines: each is refused on a line, and nothing hangs."""

import argparse
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.common import cli
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.names import checked_name, name_problem
from ann_benchmarks.plugin import Plugin

from .plotting_data import make_result, make_truth
from .programs import call_program, write_config

pytestmark = pytest.mark.thorough

DIGITS = "9" * 5000
NUMBERS = [
    "0", "-1", "-0", "1.5", "1e3", "1e999", "-1e999", "nan", "inf", "-inf", "1e-999", "0x10", "1_0", "+3",
    "٣", "１２", "²", "½", "", " ", "--", "3 ", "true", "None", "1,", ",", "1,,2", "1;2", "\x1b[31m", "a\nb",
    DIGITS, f"-{DIGITS}", f"0.{DIGITS}", f"1e{DIGITS}", "2147483648", "9223372036854775808", "1e308",
    "1e18", "4294967296", "100000", "18446744073709551616", "1,2,3", "1e-308", "0.0000001", "1/2", "5%",
    "500%",
]  # fmt: skip
TEXTS = [
    "", " ", ".", "..", "/", "//", "-", "--help", "*", "[", "?", "{}", "%s", "%(x)s", "$HOME", "`id`",
    "a\nb", "\x1b]0;x\x07", "\x7f", "é" * 130, "a" * 256, "a" * 300, "a" * 5000, "../" * 50,
    "../../etc/passwd", "/etc/passwd", "/dev/null", "/proc/self/mem", "/dev/full", "a/b", "a\\b", "a:b",
    ":", "a:", ":b", "=", "a=", "\udc80", "‮", "\u2028", "con", "CON.", "tiny", "tiny.hdf5",
    "data/tiny.hdf5", "folder", "folder/", "file", "file/x", "file.npy", "loop", "dangling", "pipe",
    "x" * 200 + ".npy", "/" * 4000, "a/" * 2500, "nan", "0",
]  # fmt: skip
PIPES = ["pipe", "pipe.npy", "pipe.npz", "pipe.h5", "pipe.parquet", "pipe.yml"]
OWN = "create_dataset.py --name x --distance ip --neighbors 2"
ALL = f"{OWN} --train file.npy"
LONGEST_LINE = 1200


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a dataset that has results, an algorithm, and what is not what it seems."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("place"))
        make_result("tiny", "exact", "exact", make_truth("tiny", queries=5), 0.9, 0.1)
        write_config(Path("plugins/exact"), "exact")
        Path("folder").mkdir()
        np.save("file.npy", np.ones((20, 2), np.float32))
        for name in (*PIPES, "data/pipe.hdf5"):
            os.mkfifo(name)
        yield Path.cwd()


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


LONG = "a" * 300
NO_FILE = "it must be a regular file"
REFUSED = {
    "plot.py --dataset /etc/passwd": "'/etc/passwd' cannot be the name of a dataset: it has '/'",
    "report.py --dataset /etc/passwd": "cannot be the name of a dataset",
    "report.py --dataset ''": "'' cannot be the name of a dataset: it is empty",
    "plot.py --dataset ''": "'' cannot be the name of a dataset: it is empty",
    f"plot.py --dataset {LONG}": "it has 300 bytes, more than 200",
    f"create_dataset.py --dataset {LONG}": "it has 300 bytes, more than 200",
    f"run.py --memory {DIGITS}": "must be a size, such as 512m or 8g",
    "run.py --local --clients 2000000000": "are as many processes or threads; this machine",
    f"run.py --warmup {DIGITS}": "is not a warm-up",
    f"run.py --timeout {'9' * 20}": "is not a whole number of at least -1, from -1 to 2,147,483,647",
    **{f"{OWN} --train {name}": f"cannot read {name}: {NO_FILE}, but" for name in ("/dev/zero", *PIPES)},
    f"{ALL} --test pipe.npy": f"cannot read pipe.npy: {NO_FILE}",
    f"{ALL} --test file.npy --attributes pipe.parquet --filters plugins/exact/config.yml":
        f"cannot read pipe.parquet: {NO_FILE}, but is a pipe",
    f"{ALL} --queries 5 --attributes x.parquet --filters pipe.yml": "pipe.yml: cannot ",
    "run.py --local --dataset pipe": "cannot open data/pipe.hdf5: it must be",
    "run.py --experiment pipe.yml": f"pipe.yml: cannot be read: {NO_FILE}, but is a",
    "report.py --dataset tiny --prices /dev/zero": "/dev/zero: cannot be read: it must be a",
    "compare.py pipe pipe": "pipe holds no readable result",
    "install.py --ca-bundle /dev/zero": f"cannot be read: {NO_FILE}, but is a device",
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED, ids=lambda words: words[:60])
def test_what_the_options_name(place: Path, words: str) -> None:
    """It is refused soon, on a line, without a traceback."""
    done = call_program(*shlex.split(words), cwd=place, seconds=60)
    assert REFUSED[words] in done.stderr and done.returncode > 0 and "Traceback" not in done.stderr, done
    said = [line for line in done.stderr.splitlines() if line.startswith(("error: ", "warning: "))]
    assert all(len(line) < LONGEST_LINE for line in said)


def test_clients_that_cannot_be_are_refused() -> None:
    class Few:
        def most_clients(self) -> int:
            return 8

    Plugin(Few()).check_clients(8)
    Plugin(object()).check_clients(100_000)
    with pytest.raises(UserError, match="Few can have 8 clients here, not 100,000: give fewer"):
        Plugin(Few()).check_clients(100_000)

"""Hostile files of settings, generated: valid ones with mistakes, and files that are none."""

from hypothesis import strategies as st

from .hostile_options import DIGITS

_X9 = ",".join(["x"] * 9)
BOMB = f"a: &a [{_X9}]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(12)
)
# Whole files.
FILES = [
    "", " ", "\t", "-", "null", "~", "5", "text", "[]", "{}", "---", "--- a\n--- b", "\ufeff", "\x00",
    "\x07", BOMB, "- " * 100_000, "[" * 3000, "{a: " * 3000, "? " * 3000, "&a [*a]", "a: &a {b: *a}",
    "a: *a", "<<: *a", "&a {<<: *a}", "%YAML 9.9\n---\na: 1", "!!python/object/apply:os.system [id]",
    "a: 1\n" * 2000, "a: |\n", "\n".join(" " * n + "a:" for n in range(1000)), "x: " + "y" * 5_000_000,
    '"' + "\\x41" * 300_000 + '"', "- [" + "a," * 300_000 + "]",
    "".join(f"k{n}: 1\n" for n in range(200_000)), "a: 1" + ":1" * 300_000, "&a a: &a [&a b, *a]",
    "!<tag:yaml.org,2002:map> x", "!!map x", "!!seq {}", "!!str [a]", "{? [a] : b}",
]  # fmt: skip
# What stands in place of a value.
VALUES = [
    "", "~", "true", "1", "-1", "0", "1.5", ".nan", ".inf", "-.inf", "1.0e+999", "2024-99-99", "2024-01-01",
    "0x_", "0b_", "0o", "1_", "!!int foo", "!!int ''", "!!float x", "!!bool maybe", "!!binary ====",
    "!!set {a}", "!!null x", "!!timestamp x", "!!omap [a]", "!!pairs [a]", "!!python/name:os.system",
    "!x y", "=", "<<", "*x", "&x", "&x 1", DIGITS, f"0x{'f' * 5000}", f"1.{DIGITS}", "1:" * 40 + "1",
    "18446744073709551616", "[]", "{}", "[[]]", "[{}]", "[a]", "{a: b}", "{1: 2}", "{[a]: b}",
    "{{a: b}: c}", "{~: 1}", "{true: 1}", "{a: {a: {a: [1]}}}", "[1, a, ~]",
    '"\\0"', '"\\e[31m"', '"a\\nb"', '"\\ud800"', '"\\uFFFE"', "/", "'{0}'", "'{x:>999999999}'",
    "a" * 300, "é" * 130, "'" + "a" * 5000 + "'", "..", "a/b", "a\\b", "-x", "--force", "@metric",
    "'{0..999999999}'", "[" + ", ".join("[1, 2, 3, 4, 5, 6, 7, 8, 9, 0]" for _ in range(9)) + "]",
    "{<<: 3}", "{<<: [1]}", "[*x]",
]  # fmt: skip
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
EXPERIMENT = """\
title: A
source: B
text: C
steps:
- name: one
  title: One
  text: D
  run:
    algorithm: exact
    dataset: tiny
    runs: 1
    clients: [1]
  groups:
    exact:
      g:
        args: []
  settings:
    work_mem: 4MB
  install:
  - algorithm: exact
    build-arg: [A=B]
  pictures:
  - kind: frontier
    x: k-nn
    raw: false
    published: 5m
    where: {clients: 1}
  tables:
  - kind: points
    recall: 0.9
    title: T
    algorithms: [exact]
    of: {clients: 1}
  mini:
    run:
      runs: 2
findings:
- says: E
  published: twice
  compare: ratio
  metric: qps
  to-metric: qps
  at-recall: 0.5
  of:
    step: one
    clients: [1]
  to:
    step: one
  over: tier
  least: 1
  most: 2
  unit: s
  mini:
    least: 2
"""
REFERENCE = """\
label: A
source: B
hardware:
  cpu: C
versions:
  pg: 1
settings:
  a: b
datasets:
- name: D
notes:
- E
tables:
  points:
    columns:
      recall: share
      qps: 1/s
      algorithm: text
    curves: algorithm
    labels: algorithm
    rows:
    - [0.9, 100, x]
    - [0.95, 50, x]
"""
DESCRIPTION = """\
distance: euclidean
rows: 10
dimension: 2
queries: 2
train: file.npy
test: file.npy
neighbors: n
folder: f
"""
RELEASE = "github: own/thing\nversion: 1.0.0\nasset: thing_{version}.zip\n"
# A kind of file: where it lies, what is valid, and the commands that read it.
KINDS = {
    "config": ("plugins/exact/config.yml", CONFIG, [
        ("run", ["--definitions", "plugins", "--list-algorithms"]),
        ("run", ["--local", "--definitions", "plugins", "--dataset", "tiny", "--algorithm", "exact"]),
        ("install", ["--definitions", "plugins", "--local", "--algorithm", "exact"]),
    ]),
    "experiment": ("own.yml", EXPERIMENT, [
        ("run", ["--experiment", "own.yml", "--local", "--definitions", "plugins"]),
        ("run", ["--experiment", "own.yml", "--mini", "--local", "--definitions", "plugins"]),
        ("report", ["--experiment", "own.yml", "--local", "--definitions", "plugins"]),
    ]),
    "reference": ("own.yml", REFERENCE, [("plot", ["--dataset", "tiny", "--published", "own.yml"])]),
    "description": ("data/own.yml", DESCRIPTION, [
        ("create_dataset", ["--list"]),
        ("create_dataset", ["--verify", "own"]),
        ("run", ["--local", "--definitions", "plugins", "--dataset", "own"]),
    ]),
    "release": ("plugins/exact/release.yml", RELEASE, [
        ("install", ["--definitions", "plugins", "--local", "--algorithm", "thing"]),
    ]),
}  # fmt: skip


@st.composite
def settings_files(draw):
    """Generate a kind of file, its text, and the command that reads it: a file with one to three mistakes."""
    kind = draw(st.sampled_from(list(KINDS)))
    _, text, commands = KINDS[kind]
    command, words = draw(st.sampled_from(commands))
    if draw(st.integers(0, 4)) == 0:
        return kind, draw(st.one_of(st.sampled_from(FILES), st.text(max_size=200))), command, words
    lines = text.splitlines()
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(lines) - 1))
        key, colon, _ = lines[place].partition(": ") if ": " in lines[place] else lines[place].partition(":")
        value = draw(st.one_of(st.sampled_from(VALUES), st.text(max_size=20)))
        lines[place : place + 1] = draw(
            st.sampled_from([
                [f"{key}: {value}" if colon else f"- {value}"],
                [],
                [lines[place], lines[place]],
                [lines[place].replace(key.strip("- "), value[:400], 1) if key.strip("- ") else value],
                [f"  {lines[place]}"],
            ])
        )  # fmt: skip
        lines = lines or [""]
    return kind, "\n".join(lines), command, words

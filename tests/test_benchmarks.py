"""The harness of benchmarks/: its claims, turns, ratios with intervals, goals, and what it keeps."""

import argparse
import json
import math
import sys
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.__main__ import find_claims, main, read_options
from benchmarks.harness import Case, ClaimReport, Goal, Row, compare_rounds, count_shares, take_turns


@pytest.mark.parametrize("name", sorted(find_claims()))
def test_every_claim_has_a_sentence_a_goal_and_options(name: str, monkeypatch: pytest.MonkeyPatch):
    claim = import_module(f"benchmarks.{name}")
    assert 30 < len(find_claims()[name]) <= 110 and find_claims()[name].endswith(".")
    assert claim.GOAL is None or isinstance(claim.GOAL, Goal)
    assert read_options(name, claim, ["--rounds", "2", "--seed", "3"]).rounds == 2


def test_without_a_name_the_claims_are_listed(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "nonsense"])
    with pytest.raises(SystemExit, match="'nonsense' must be one of these claims"):
        main()
    assert "\nclients        Our clients take about the CPU of pgbench's" in capsys.readouterr().out


def test_each_round_begins_with_another_way():
    order: list[str] = []
    ways = {name: lambda number, name=name: order.append(f"{name}{number}") or {"s": 1.0} for name in "abc"}
    assert take_turns(ways, 3) == {name: [{"s": 1.0}] * 3 for name in "abc"}
    assert order == ["a0", "b0", "c0", "b1", "c1", "a1", "c2", "a2", "b2"]


def test_ratios_have_an_interval_by_which_a_goal_is_judged():
    ratio = compare_rounds([2.0, 8.0], [1.0, 1.0])
    assert (ratio.value, ratio.least, ratio.largest) == pytest.approx((4, 2, 8))
    assert math.log(ratio.high / 4) == pytest.approx(12.706 * math.log(2), rel=1e-3)  # Student's, of two
    sure = compare_rounds([0.9, 0.92, 0.91], [1.0, 1.0, 1.0])
    verdicts = [Goal("s", most=most).judge(sure) for most in (1.0, 0.91, 0.8)]
    assert verdicts == ["goal kept", "goal undecided", "goal missed"]
    assert Goal("s", most=9).judge(compare_rounds([1.0], [1.0])) == "goal undecided"


def test_what_is_measured_is_printed_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture):
    report = ClaimReport(
        "claim", Goal("s", most=1), argparse.Namespace(rounds=3, json=tmp_path / "kept.json")
    )
    case = Case(
        "work", {"ours": lambda n: {"s": 1.0 + n / 100}, "theirs": lambda n: {"s": 2.0}}, base="theirs"
    )
    report.add(case)
    report.add(Row("drawn", {"share": count_shares(4, lambda: [True])[0]}))
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert [found["s"] for found in kept["cases"][0]["rounds"]["ours"]] == [1.0, 1.01, 1.02]
    assert kept["rows"] == [{"title": "drawn", "share": 1.0}]
    out = capsys.readouterr().out
    assert (
        "0.505 (0.493 to 0.518), rounds 0.500 to 0.510; goal kept: s at most 1 times that of the base" in out
    )

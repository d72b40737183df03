"""Every tampering is refused, with the manifest as it was and with one that was made again."""

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from ann_benchmarks.definitions.configs import read_configs
from ann_benchmarks.submission.checking import expected
from ann_benchmarks.submission.checking.check import check_bundle
from ann_benchmarks.submission.checking.folder import check_folder
from ann_benchmarks.submission.checking.rules import RULES, Findings
from ann_benchmarks.submission.manifest import read_manifest

from .bundle_data import copied_bundle, measured, remake
from .hostile_bundles import HOSTILE, OUTSIDE
from .tampered_bundles import BUNDLES
from .tampered_points import POINTS
from .tampering import Tampering


@pytest.fixture(autouse=True)
def run_groups(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The plug-in of these bundles is one of the project's, as far as the checker knows."""
    monkeypatch.setattr(expected, "_known", read_configs(measured() / "plugins")[0])
    yield


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return copied_bundle(tmp_path)


def found(folder: Path, **how: Any) -> dict[str, list[str]]:
    """Return the lines of what refuses a bundle, by rule."""
    now = datetime.now(timezone.utc)
    lines: dict[str, list[str]] = {}
    for finding in check_bundle(folder, now, **how).findings.refused:
        lines.setdefault(finding.rule, []).append(str(finding))
    return lines


def test_an_honest_bundle_passes(bundle: Path):
    assert found(bundle) == {}
    assert found(bundle, compares_data=True, data=measured() / "data") == {}


@pytest.mark.parametrize("tampering", [*POINTS, *BUNDLES], ids=lambda tampering: tampering.name)
def test_a_tampering_is_refused_also_with_a_remade_manifest(bundle: Path, tampering: Tampering):
    tampering.change(bundle)
    findings = Findings()
    check_folder(bundle, read_manifest(bundle), findings)
    assert {finding.rule for finding in findings.refused} == {"files"}
    remake(bundle)
    lines = found(bundle)
    assert any(tampering.words in line for line in lines.get(tampering.rule, [])), lines


@pytest.mark.parametrize("tampering", HOSTILE, ids=lambda tampering: tampering.name)
def test_what_cannot_be_read_is_one_line(bundle: Path, tampering: Tampering):
    tampering.change(bundle)
    remake(bundle)
    lines = found(bundle)
    assert any(tampering.words in line for line in lines.get(tampering.rule, [])), lines
    assert all("\n" not in line for several in lines.values() for line in several)


@pytest.mark.parametrize("tampering", OUTSIDE, ids=lambda tampering: tampering.name)
def test_what_no_manifest_can_list_is_refused(bundle: Path, tampering: Tampering):
    tampering.change(bundle)
    lines = found(bundle)
    assert any(tampering.words in line for line in lines.get(tampering.rule, [])), lines


def test_every_rule_refuses_something():
    assert {tampering.rule for tampering in [*POINTS, *BUNDLES, *HOSTILE, *OUTSIDE]} | {"files"} == {*RULES}

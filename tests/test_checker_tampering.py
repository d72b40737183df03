"""Every tampering is refused, with the manifest as it was and with one that was made again."""

import json
from functools import cache
from itertools import filterfalse
from pathlib import Path

import pytest

from ann_benchmarks.submission.checking.reading import check_folder
from ann_benchmarks.submission.checking.rules import RULES, Findings
from ann_benchmarks.submission.manifest import MANIFEST, read_manifest

from .bundle_data import copied_bundle, measured, point_files, remake, set_attributes
from .checked_bundles import bundle, found, run_groups  # noqa: F401
from .hostile_bundles import HOSTILE, OUTSIDE
from .load_bundles import copied_loads, measured_loads
from .tampered import HonestBundle
from .tampered_bundles import BUNDLES
from .tampered_evidence import EVIDENCE, EVIDENCE_OF_LOADS
from .tampered_loads import LOADS
from .tampered_points import POINTS
from .tampering import Tampering, is_in_memory

pytestmark = pytest.mark.thorough
EVERY, EVERY_LOAD = (*POINTS, *BUNDLES, *EVIDENCE), (*LOADS, *EVIDENCE_OF_LOADS)


def test_an_honest_bundle_passes(bundle: Path, monkeypatch: pytest.MonkeyPatch):  # noqa: F811
    assert found(bundle) == {}
    monkeypatch.chdir(measured())
    assert found(bundle, compares_data=True) == {}


def test_what_earlier_versions_wrote_besides_passes(bundle: Path):  # noqa: F811
    readme, manifest = bundle / "README.md", bundle / MANIFEST
    readme.write_text(readme.read_text().replace("\n\n## Data", "\n- Machine: cpu Some CPU\n\n## Data"))
    (bundle / "logs/tiny").mkdir(parents=True)
    for name in ("system.json", "logs/tiny/x.log"):
        (bundle / name).write_text("{}")
    remake(bundle)
    manifest.write_text(
        json.dumps({**json.loads(manifest.read_text()), "claims": [{"qps": 1}], "commit": ""})
    )
    assert found(bundle) == {}


def test_a_server_that_was_started_twice_may_have_more_free_disk(bundle: Path):  # noqa: F811
    set_attributes(point_files(bundle)[0], settings='{"max_wal_size": "16551MB"}')
    for path in point_files(bundle)[1:]:
        set_attributes(path, settings='{"max_wal_size": "16562MB"}')
    remake(bundle)
    assert found(bundle).keys() <= {"report"}


@cache
def honest(of_loads: bool) -> HonestBundle:
    return HonestBundle((measured_loads() if of_loads else measured()) / "bundle")


@pytest.mark.parametrize(
    "tampering", [*filter(is_in_memory, (*EVERY, *EVERY_LOAD))], ids=lambda tampering: tampering.name
)
def test_a_tampering_with_a_point_is_refused(tampering: Tampering):
    assert honest(tampering in EVERY_LOAD).sees(tampering)


@pytest.mark.parametrize(
    "tampering", [*filterfalse(is_in_memory, (*EVERY, *EVERY_LOAD))], ids=lambda tampering: tampering.name
)
def test_a_tampering_is_refused_also_with_a_remade_manifest(tmp_path: Path, tampering: Tampering):
    folder = copied_loads(tmp_path) if tampering in EVERY_LOAD else copied_bundle(tmp_path)
    tampering.change(folder)
    findings = Findings()
    check_folder(folder, read_manifest(folder), findings)
    assert {finding.rule for finding in findings.refused} == {"files"}
    remake(folder)
    lines = found(folder)
    assert any(tampering.words in line for line in lines.get(tampering.rule, [])), lines


@pytest.mark.parametrize("tampering", HOSTILE, ids=lambda tampering: tampering.name)
def test_what_cannot_be_read_is_one_line(bundle: Path, tampering: Tampering):  # noqa: F811
    tampering.change(bundle)
    remake(bundle)
    lines = found(bundle)
    assert any(tampering.words in line for line in lines.get(tampering.rule, [])), lines
    assert all("\n" not in line for several in lines.values() for line in several)


@pytest.mark.parametrize("tampering", OUTSIDE, ids=lambda tampering: tampering.name)
def test_what_no_manifest_can_list_is_refused(bundle: Path, tampering: Tampering):  # noqa: F811
    tampering.change(bundle)
    lines = found(bundle)
    assert any(tampering.words in line for line in lines.get(tampering.rule, [])), lines


def test_every_rule_refuses_something():
    every = [*EVERY, *EVERY_LOAD, *HOSTILE, *OUTSIDE]
    assert {tampering.rule for tampering in every} | {"files"} == {*RULES}

"""Bundles as the checker finds them, for its tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ann_benchmarks.definitions.configs import read_configs
from ann_benchmarks.submission.checking import complete
from ann_benchmarks.submission.checking.check import check_bundle

from .bundle_data import copied_bundle, measured


@pytest.fixture(autouse=True)
def run_groups(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The plug-in of these bundles is one of the project's, as far as the checker knows."""
    configs = read_configs(measured() / "plugins")[0]
    monkeypatch.setattr(complete, "known_configs", lambda: configs)
    yield


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return copied_bundle(tmp_path)


def found(folder: Path, **how: Any) -> dict[str, list[str]]:
    """Return the lines of what refuses a bundle, by rule."""
    lines: dict[str, list[str]] = {}
    for finding in check_bundle(folder, **how).findings.refused:
        lines.setdefault(finding.rule, []).append(str(finding))
    return lines

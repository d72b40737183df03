"""Honest results that look like something else, none of which the checker refuses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ann_benchmarks.fields.series import Series
from ann_benchmarks.reporting.document import Heading, html_page, markdown_text
from ann_benchmarks.results.runs import Run
from ann_benchmarks.submission.checking.check import check_pages
from ann_benchmarks.submission.checking.curves import mixed
from ann_benchmarks.submission.checking.points import CheckedPoint, OpenedBundle
from ann_benchmarks.submission.checking.relations import name_problems, series_problems
from ann_benchmarks.submission.checking.rules import Findings
from ann_benchmarks.submission.checking.truth import Neighborhood
from ann_benchmarks.submission.contents import readme
from ann_benchmarks.submission.manifest import BundledDataset, Manifest

SERIES = Series("hnsw", clients=1)


def point(stem: str, series: Series = SERIES, /, **attrs: Any) -> CheckedPoint:
    """Return a point with these attributes, whose arrays do not matter."""
    file = f"results/mine/10/{series.folder}/{stem}.hdf5"
    facts, run = BundledDataset(100, 1, "euclidean", 100, ""), Run("mine", 10, "euclidean", series, stem, {})
    truth = Neighborhood(np.zeros((1, 10)), rows=np.zeros((1, 10), int))
    return CheckedPoint(file, run, attrs, facts, truth)


def test_titles_have_characters_that_markdown_and_html_escape(tmp_path: Path) -> None:
    title, findings = "pgvector [0.8] & <mine>, *fast*", Findings()
    blocks, manifest = [Heading(1, title)], Manifest(title, "2026-01-31T12:00:00+00:00", "open", 0.9)
    pages = {"report.md": markdown_text(blocks), "report.html": html_page(title, blocks)}
    (tmp_path / "report").mkdir()
    for name, text in pages.items():
        (tmp_path / "report" / name).write_text(text)
    (tmp_path / "README.md").write_text(readme(manifest))
    files = ["README.md", *(f"report/{name}" for name in pages)]
    opened = OpenedBundle(tmp_path, manifest, files, {}, findings)
    check_pages(opened)
    assert not findings.refused
    check_pages(replace(opened, manifest=replace(manifest, title="another")))
    assert len(findings.refused) == 2


def built(minute: int, seconds: float, build: int = 16, **attrs: Any) -> CheckedPoint:
    """Return a point of an index that took so many seconds, measured in a minute of a day."""
    names = {"name": f"hnsw(M={build})", "started_at": f"2026-01-31T12:{minute}:00+00:00"}
    return point(f"{build}_{minute}", build_arguments=[build], build_time=seconds, **names | attrs)


def test_an_index_of_a_server_has_one_size_in_all_series():
    here = {"server": "embedded", "index_build_time": 9.0, "table_size": 9000.0}
    small, other = built(10, 9.5, index_size=1000.0, **here), Series("hnsw", clients=8)
    for size, difference in ((1000.0, 0), (500.0, 2)):
        attrs = {**built(11, 9.5).attrs, **here, "index_size": size}
        assert len([*mixed([small, point("16_11", other, **attrs)])]) == difference
    rebuilt_later = {**small.attrs, "index_build_time": 13.0, "build_time": 13.5, "index_size": 1010.0}
    assert [*mixed([small, point("16_11", other, **rebuilt_later)])] == []


@pytest.mark.parametrize(
    ("build", "name"),
    [
        ([16], "16_40"),
        ([16.0, 2.5], "16_2_5_40"),
        ([16.0, 2.5], "16_0_2_5_40"),
        ("[]", "40"),
        ('["a", 1]', "a_1_40"),
    ],
)
def test_build_arguments_may_be_an_array_of_numbers(build: Any, name: str):
    assert list(name_problems(point(name, build_arguments=build))) == []


def test_a_folder_with_an_address_has_a_placeholder_without_brackets():
    found = point("x", Series("hnsw", environment="at-[address-2]-5432"))
    texts = list(series_problems(replace(found, file="results/mine/10/hnsw@at-address-2-5432/x.hdf5")))
    assert texts and not any("it lies in" in text for text in texts)

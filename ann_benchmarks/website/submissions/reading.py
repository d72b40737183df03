"""Reads bundles for the table: every file as its manifest lists it, every figure from the stored answers."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from tqdm import tqdm

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.hdf5 import fits_in_memory, is_of_numbers, lacking, open_hdf5_file
from ann_benchmarks.common.names import name_problem
from ann_benchmarks.common.text import DAMAGE, reason_of
from ann_benchmarks.fields.series import series_of
from ann_benchmarks.pricing.prices import PriceList, Quote, read_prices
from ann_benchmarks.pricing.servers import needed_capacity
from ann_benchmarks.results.file import read_result, truth_mark
from ann_benchmarks.results.runs import Run, judged
from ann_benchmarks.results.truth import Truth
from ann_benchmarks.submission.manifest import MANIFEST, Manifest, file_in, read_manifest, sha256_of
from ann_benchmarks.submission.truths import truth_name

RESULT = re.compile(r"results/([^/]+)/\d+/([^/]+)/([^/]+)\.hdf5")  # dataset, series, arguments
PRICES = "prices.yml"


@dataclass(frozen=True)
class SubmittedPoint:
    """A row of the table: a measured point, and the same one from cold caches where both were measured.

    `run` is the warm one; of a point that was measured from cold caches alone, both are that. `digest` is
    the SHA-256 of the file of `run`. A claim is what the report of the bundle rests on. `quote` is the price
    of the server, None where the bundle has no prices or none that fits.
    """

    run: Run
    cold: Run | None
    digest: str
    is_claim: bool
    quote: Quote | None = None

    @property
    def warm(self) -> Run | None:
        """What was measured from warm caches."""
        return None if self.run.series.is_cold else self.run


@dataclass(frozen=True)
class SubmittedBundle:
    """A bundle whose files are those that its manifest lists."""

    folder: Path
    manifest: Manifest
    points: list[SubmittedPoint]
    prices: PriceList | None = None


def bundle_folders(given: Iterable[Path]) -> list[Path]:
    """Return the folders of bundles: those that are given, or those within one that is no bundle itself."""
    found: dict[Path, Path] = {}
    for folder in given:
        inside = [] if (folder / MANIFEST).exists() or not folder.is_dir() else sorted(folder.iterdir())
        folders = [path for path in inside if path.is_dir() and not path.name.startswith(".")]
        for one in folders or [folder]:
            found.setdefault(one.resolve(), one)
    return list(found.values())


def read_bundle(folder: Path) -> SubmittedBundle:
    """Read a bundle; UserError for one that is damaged, changed, or no bundle."""
    manifest = read_manifest(folder)
    for name, listed in tqdm(
        manifest.files.items(), desc=folder.name, unit="file", disable=None, leave=False
    ):
        path = file_in(folder, name)
        if path.stat().st_size != listed.bytes or sha256_of(path) != listed.sha256:
            raise UserError(f"{path} is not the file that {MANIFEST} lists: its content has changed")
    for claim in manifest.claims:
        if claim.file not in manifest.files:
            raise UserError(f"a claim rests on {shown(claim.file)}, which {MANIFEST} does not list")
    try:
        prices = read_prices(file_in(folder, PRICES)) if PRICES in manifest.files else None
        return SubmittedBundle(folder, manifest, points_of(folder, manifest, prices), prices)
    except DAMAGE as error:
        raise UserError(f"{folder} cannot be read: {reason_of(error)}") from None


def points_of(folder: Path, manifest: Manifest, prices: PriceList | None) -> list[SubmittedPoint]:
    """Return the points of a bundle, by the names of their files; UserError if it has none."""
    truths = SubmittedTruths(folder, manifest)
    warm: dict[str, tuple[str, Run]] = {}
    cold: dict[str, tuple[str, Run]] = {}
    results = [(name, match) for name in sorted(manifest.files) if (match := RESULT.fullmatch(name))]
    for name, match in tqdm(results, desc=folder.name, unit="point", disable=None, leave=False):
        run = truths.judged(name, match[1], match[2])
        # A file is named by its build and query arguments.
        place = f"{match[1]}/{run.count}/{run.series.without('caches').folder}/{match[3]}"
        (cold if run.series.is_cold else warm).setdefault(place, (name, run))
    if not results:
        raise UserError(f"{folder} holds no result below results/")
    claimed = {claim.file for claim in manifest.claims}
    points = []
    for place in dict.fromkeys([*warm, *cold]):
        name, run = warm.get(place) or cold[place]
        files = {found[place][0] for found in (warm, cold) if place in found}
        beside = cold[place][1] if place in cold else None
        digest = manifest.files[name].sha256
        points.append(SubmittedPoint(run, beside, digest, bool(files & claimed), quote_of(run, prices)))
    return points


def quote_of(run: Run, prices: PriceList | None) -> Quote | None:
    """Return what the server of a result costs, None where that is not known."""
    with suppress(UserError):  # no instance fits, or what it must have is not known
        return prices.quote(needed_capacity(run)) if prices else None
    return None


class SubmittedTruths:
    """The true distances that a bundle holds, each read when a result needs it."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder, self._files = folder, manifest.files
        self._known: dict[str, Truth] = {}
        self._marks: dict[tuple[str, int], str] = {}

    def judged(self, name: str, dataset: str, folder: str) -> Run:
        """Return the result in a file with its metrics; UserError names the file that is wrong."""
        path = file_in(self._folder, name)
        result = read_result(path, with_neighbors=False)
        try:
            series = series_of(result.attrs, folder)
            place = truth_of(dataset, series.filter)
            truth = self._read(place, bool(series.filter))
            count, (queries, deepest) = result.attrs["count"], truth.distances.shape
            if len(result.distances) > queries or not count == result.distances.shape[1] <= deepest:
                raise UserError(
                    f"it has {len(result.distances):,} queries with {count} neighbours, {place}"
                    f" {queries:,} with {deepest}"
                )
            if (place, count) not in self._marks:
                self._marks[place, count] = truth_mark(truth.distances[:, :count])
            return judged(result, series, dataset, truth, [self._marks[place, count]])
        except UserError as error:
            raise UserError(f"{path}: {error}") from None

    def _read(self, name: str, is_filtered: bool) -> Truth:
        if name not in self._known:
            if name not in self._files:
                raise UserError(f"the bundle has no {shown(name)} to judge it by")
            self._known[name] = Truth(read_distances(file_in(self._folder, name)), is_filtered)
        return self._known[name]


def truth_of(dataset: str, filter_set: str) -> str:
    """Return the path of true distances in a bundle; UserError for a filter that can name no file."""
    name = truth_name(dataset, filter_set)
    if problem := name_problem(name.removeprefix("truth/")):
        raise UserError(f"its filter '{shown(filter_set)}' can name no file: it {problem}")
    return name


def read_distances(path: Path) -> np.ndarray:
    """Read the true distances of a bundle, (queries, neighbours); UserError if they are none."""
    try:
        with open_hdf5_file(path) as file:
            array = file.get("distances")
            if not isinstance(array, h5py.Dataset) or len(array.shape or ()) != 2 or 0 in array.shape:
                raise UserError(f"{path} is no truth: its 'distances' are no matrix")
            if not is_of_numbers(array.dtype) or not fits_in_memory(array):
                raise UserError(f"{path} is no truth: its 'distances' are no numbers that fit into memory")
            if problem := lacking(file, array):
                raise UserError(f"{path} is no truth: its 'distances' {problem}")
            distances: np.ndarray = array[()]
    except DAMAGE as error:
        raise UserError(f"{path} cannot be read: {reason_of(error)}") from None
    if np.isnan(distances).any():
        raise UserError(f"{path} is no truth: some of its 'distances' are no numbers")
    return distances


def without_repeats(bundles: Iterable[SubmittedBundle]) -> Mapping[int, SubmittedPoint]:
    """Return the points of bundles by the identity of their runs; a file in several bundles counts once."""
    digests: set[str] = set()
    found: dict[int, SubmittedPoint] = {}
    for bundle in bundles:
        for point in bundle.points:
            if point.digest not in digests:
                digests.add(point.digest)
                found[id(point.run)] = point
    return found

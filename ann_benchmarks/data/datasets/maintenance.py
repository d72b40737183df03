"""Work on datasets that are there: find their true neighbours, verify their files."""

from collections.abc import Iterator

import numpy as np
from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.distance import candidate_distances

from ..filters import FilterSet
from ..filters.matching import Matcher
from ..ground_truth import SearchOptions, ground_truth
from .catalog import canonical_name, dataset_path, entry_of, get_dataset
from .dataset import DATA_FOLDER, Dataset
from .filter_files import attribute_mark, column_path, read_attribute, stored_filters
from .queries import TrueNeighbors, agreement, read_truth, truth_path
from .truth_check import check_truth

CHECKED_QUERIES = 100  # their matches and distances under a filter set are computed again


def find_truth(name: str, count: int, scheduler: str | None = None, force: bool = False) -> str:
    """Write data/NAME.truth.h5 with the `count` nearest rows of every query; return one line about it.

    An interrupted run goes on where it stopped. With `scheduler`, the address of a Dask cluster whose workers
    see the same files, the cluster does the work.
    """
    name = canonical_name(name)
    path = truth_path(name, DATA_FOLDER)
    stored = read_truth(path).neighbors.shape[1] if path.exists() and not force else 0
    if stored >= count:
        raise UserError(f"{path} has {stored} true neighbours a query already; --force finds them again")
    with get_dataset(name)[0] as dataset:
        metric = str(dataset.attrs["distance"])
        state = DATA_FOLDER / f".{name}.truth.partial"
        files = [(path.stat().st_size, path.stat().st_mtime_ns) for path in dataset.train_files]
        mark = f"{dataset.mark()} {files}"  # what was found in files that have changed since is not used
        options = SearchOptions(state, mark, scheduler)
        found = TrueNeighbors(*ground_truth(metric, dataset.vectors(), dataset.test(), count, options), name)
        dataset.keep_truth(found)
        state.unlink(missing_ok=True)
        return f"{path} has the {count} nearest rows of each query{_compared(found, dataset)}"


def _compared(found: TrueNeighbors, dataset: Dataset) -> str:
    try:
        published = dataset.published_truth()
        if published is None:
            return ""
        share = agreement(found, dataset.compute_distances(published.neighbors))
    except UserError:  # they name rows that are not there, or files that were deleted after a conversion
        return ""
    return f"; {share:.4%} of those that came with the data are among them or as near"


def verify_dataset(name: str) -> Iterator[str]:
    """Give one line for each thing that is wrong with the files of a dataset; nothing if all is well."""
    name = canonical_name(name)
    entry = entry_of(name)
    files = entry.files() if entry is not None else [dataset_path(name)]
    missing = [path for path in files if not path.exists()]
    if missing:
        raise UserError(
            f"{', '.join(map(str, missing[:3]))} {'is' if len(missing) == 1 else 'are'} not there"
            f"{f', nor {len(missing) - 3} others' if len(missing) > 3 else ''}; get them by: "
            f"python create_dataset.py --dataset {name}"
        )
    try:
        assert entry is not None
        with entry.open() as dataset:
            yield from _verify_content(dataset)
            yield from _verify_filters(dataset)
    except UserError as error:
        yield str(error)


def _verify_content(dataset: Dataset) -> Iterator[str]:
    """Read every vector, and check the true neighbours."""
    dataset.test()
    train = dataset.vectors()
    if not isinstance(train, list):  # sets are read whole when they are opened
        bar = tqdm(total=len(train), desc="vectors", unit=" rows", unit_scale=True, delay=1, disable=None)
        with bar:
            for _, block in train.blocks():
                bar.update(len(block))
    for text in check_truth(dataset, dataset.stored_truth()).corrections:
        yield f"{dataset.name} came with {text}, which the first run puts right"


def _verify_filters(dataset: Dataset) -> Iterator[str]:
    """Give one line for each thing that is wrong with the filters of a dataset."""
    mark, damaged = dataset.mark(), set()
    folder = column_path(dataset.name, "x", dataset.data).parent
    for path in sorted(folder.glob("[!.]*.h5")):
        try:
            attribute, values_mark = read_attribute(path, mark)
            if attribute_mark(attribute) != values_mark:
                damaged.add(attribute.name)
                yield f"{path} has other values than were written; delete it, and make the filters again"
        except UserError as error:
            yield str(error)
    for name in stored_filters(dataset.name, dataset.data):
        try:
            found = dataset.filter_set(name)
            if not damaged & {*found.attributes}:
                yield from _verify_set(dataset, found)
        except UserError as error:
            yield str(error)


def _verify_set(dataset: Dataset, filters: FilterSet) -> Iterator[str]:
    """Compute the matches and the distances of some queries again."""
    remedy = (
        f"make it again by: python create_dataset.py --ground-truth {dataset.name} --filters {filters.name}"
        " --force"
    )
    attributes = dataset.attributes([filters.name])
    truth, every = dataset.truth(filters.name), dataset.test()
    if len(filters.filters) != len(every) or filters.rows != dataset.rows:
        yield f"the filters '{filters.name}' are of another number of rows or queries; {remedy}"
        return
    train = dataset.vectors()
    numbers = np.linspace(0, len(every) - 1, min(CHECKED_QUERIES, len(every)), dtype=int)
    matcher, everywhere = Matcher(attributes), range(dataset.rows)
    for number in numbers.tolist():
        passing = matcher.rows(filters.filters[number], everywhere)
        found = truth.neighbors[number][truth.neighbors[number] >= 0]
        distances = candidate_distances(
            dataset.attrs["distance"], every[number : number + 1], train, truth.neighbors[number][None]
        )
        stored = truth.known_distances[number]
        slack = 1e-4 * float(np.median(np.abs(stored[np.isfinite(stored)]))) if len(found) else 0.0
        problem = ""
        if len(passing) != filters.matches[number]:
            problem = f"{len(passing):,} rows pass, not {filters.matches[number]:,}"
        elif not np.isin(found, passing).all() or len(found) != min(len(passing), len(stored)):
            problem = "its neighbours are not rows that pass"
        elif not np.isclose(distances[0], stored, rtol=1e-3, atol=slack).all():
            problem = "its neighbours are at other distances"
        if problem:
            yield f"the filters '{filters.name}', query {number} (from 0): {problem}; {remedy}"
            return

"""Rows spread over cells: the room of each, what is refused, and which cells are near to a vector."""

import math

import numpy as np
import pytest

from ann_benchmarks.algorithms.clustering import kmeans
from ann_benchmarks.algorithms.clustering.clustering import Cells, find_cells, spread
from ann_benchmarks.algorithms.clustering.settings import ClusteringError

from .postgres_fixtures import clustered

ROWS = clustered(1000, 6, seed=3)


def one_after_the_other(rows, cells, room):
    """The cell of each row, found as a loop over the rows finds it."""
    left = np.full(len(cells), math.ceil(room * len(rows) / len(cells)))
    places = []
    for row in rows:
        distances = -cells.centroids @ row if cells.spherical else ((cells.centroids - row) ** 2).sum(1)
        places.append(next(place for place in np.argsort(distances) if left[place]))
        left[places[-1]] -= 1
    return places


@pytest.mark.parametrize("metric", ["euclidean", "angular", "ip"])
@pytest.mark.parametrize("room", [1.0, 1.25, 20.0])
def test_rows_have_the_nearest_cell_that_has_room(monkeypatch, metric, room):
    monkeypatch.setattr(kmeans, "BLOCK_BYTES", 4 * 6 * 77)  # rows of several blocks
    cells = find_cells(ROWS, 20, metric)
    places = spread(ROWS, cells, room)
    assert places.dtype == np.uint8 and places.tolist() == one_after_the_other(ROWS, cells, room)
    assert np.bincount(places).max() <= math.ceil(room * 50)
    assert (spread(ROWS, find_cells(ROWS, 20, metric), room) == places).all()


def test_the_length_of_a_vector_changes_nothing_where_directions_count():
    lengths = np.linspace(0.5, 3, len(ROWS), dtype=np.float32)[:, np.newaxis]
    cells = find_cells(ROWS, 9, "angular")
    assert np.allclose(np.linalg.norm(cells.centroids, axis=1), 1, atol=1e-5)
    assert (spread(ROWS * lengths, cells, 9) == spread(ROWS, cells, 9)).all()
    assert [sorted(cells.nearest(7 * row, 3)) for row in ROWS[:50]] == [
        sorted(cells.nearest(row, 3)) for row in ROWS[:50]
    ]


@pytest.mark.parametrize("metric", ["euclidean", "ip"])
def test_the_nearest_cells_of_one_vector_are_those_of_all_distances(metric):
    cells = find_cells(ROWS, 12, metric)
    order = np.argsort(cells.distances(ROWS), axis=1)
    for count in (1, 5, 12, 13):
        found = [sorted(cells.nearest(row, count)) for row in ROWS[:50]]
        assert found == np.sort(order[:50, :count], axis=1).tolist()


def test_a_row_that_is_nowhere_is_named():
    rows = ROWS.copy()
    rows[700, 2] = np.nan
    cells = Cells(ROWS[:3], False)
    with pytest.raises(ClusteringError, match=r"^row 700 \(from 0\) holds NaN"):
        spread(rows, cells)
    assert np.isnan(rows[700, 2])  # what is read is not changed


def test_many_cells_take_two_bytes():
    assert spread(ROWS, Cells(ROWS[:300], False), 300).dtype == np.uint16


def test_a_metric_without_cells_is_refused():
    with pytest.raises(ClusteringError, match="must be one of euclidean, angular, ip, and not hamming"):
        find_cells(ROWS, 4, "hamming")


def test_cells_far_from_the_origin_are_those_of_exact_distances():
    far = np.random.default_rng(5).normal(10_000, 1, (600, 24)).astype(np.float32)
    cells = Cells(far[:8], False)
    exact = far.astype(np.float64)
    true = ((exact[:, None] - exact[None, :8]) ** 2).sum(-1).argmin(axis=1)
    assert (cells.distances(far).argmin(axis=1) == true).all()
    assert [cells.nearest(row, 1) for row in far] == [[cell] for cell in true]


def test_less_room_than_rows_is_refused():
    with pytest.raises(ClusteringError, match=r"room must be at least 1, .* and not 0\.9"):
        spread(ROWS, Cells(ROWS[:3], False), 0.9)

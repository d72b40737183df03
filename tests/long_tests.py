"""Tests that are left out unless ANN_BENCHMARKS_LONG_TESTS is set, so that the rest takes minutes."""

import os

import pytest

takes_long = pytest.mark.skipif(
    "ANN_BENCHMARKS_LONG_TESTS" not in os.environ, reason="takes long (ANN_BENCHMARKS_LONG_TESTS=1)"
)

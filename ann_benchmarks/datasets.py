"""A name that ann-benchmarks' tests and scripts import from here; the datasets are in data/datasets."""

from ann_benchmarks.data.datasets import get_dataset as get_dataset

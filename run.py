"""Measure algorithms on a dataset: python run.py --local --dataset NAME --algorithm NAME."""

from ann_benchmarks.commands import start

if __name__ == "__main__":
    start("run")

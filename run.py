"""Measure algorithms on a dataset: python run.py --local --dataset NAME --algorithm NAME."""

from ann_benchmarks.common.cli import run_command
from tiers.main import main

if __name__ == "__main__":
    run_command(main)

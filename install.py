"""Install what an algorithm needs: python install.py --local --algorithm NAME."""

from ann_benchmarks.common.cli import run_command
from ann_benchmarks.installing.main import main

if __name__ == "__main__":
    run_command(main)

"""Install what an algorithm needs: python install.py --local --algorithm NAME."""

if __name__ == "__main__":  # before the imports, which take seconds on a busy machine
    from ann_benchmarks.common.beginning import begin

    begin()

from ann_benchmarks.common.cli import run_command
from ann_benchmarks.installing.main import main

if __name__ == "__main__":
    run_command(main)

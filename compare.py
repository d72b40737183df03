"""Compare two measurements: python compare.py A B."""

from ann_benchmarks.commands import start

if __name__ == "__main__":
    start("compare")

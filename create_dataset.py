"""Make, get, list or check datasets: python create_dataset.py --list."""

from ann_benchmarks.commands import start

if __name__ == "__main__":
    start("dataset")

"""Draw the results of a dataset: python plot.py --dataset NAME."""

from ann_benchmarks.commands import start

if __name__ == "__main__":
    start("plot")

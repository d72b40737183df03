"""Write a report on results: python report.py --dataset NAME."""

from ann_benchmarks.commands import start

if __name__ == "__main__":
    start("report")

"""Write all results into one file: python data_export.py --output results.csv."""

from ann_benchmarks.commands import start

if __name__ == "__main__":
    start("export")

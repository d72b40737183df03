"""Make interactive pages of all results: python create_website.py --outputdir site."""

from ann_benchmarks.commands import start

if __name__ == "__main__":
    start("website")

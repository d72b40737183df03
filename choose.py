"""Say which index fits a file of vectors: python choose.py FILE."""

from ann_benchmarks.commands import start

if __name__ == "__main__":
    start("choose")

"""Install what an algorithm needs: python install.py --local --algorithm NAME."""

from ann_benchmarks.commands import start

if __name__ == "__main__":
    start("install")

"""The commands without their program: python -m ann_benchmarks COMMAND."""

from ann_benchmarks.commands import main

if __name__ == "__main__":
    main()

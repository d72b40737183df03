"""What grows with the rows, a file a law: how the figure is read of a result, and what is known of its growth.

Exponents and deviations without another source are what `python -m benchmarks sizing` measured.
"""

"""What grows with the rows, a file a law: how a figure is read of results, and what is known of its growth.

Exponents and deviations without another source were measured by `python -m benchmarks sizing`.
"""

"""Simulated servers: a smaller machine than the one at hand, in memory, CPUs and disk."""

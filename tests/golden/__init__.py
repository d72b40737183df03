"""Stored results and the texts that today's commands make of them: python -m tests.golden [--check]."""

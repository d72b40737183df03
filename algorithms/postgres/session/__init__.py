"""Queries as every client sends them: one statement, prepared once in a session of its own."""

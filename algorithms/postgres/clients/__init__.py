"""Clients that send queries at the same time, each on a connection of its own."""

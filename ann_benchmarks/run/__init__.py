"""Supervising: worker processes, containers, and what the user sees meanwhile."""

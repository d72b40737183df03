"""Comparing measurements: what changed, and whether it is more than noise."""

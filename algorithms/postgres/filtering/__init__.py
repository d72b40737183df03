"""Queries with a WHERE: conditions, indexes that serve them, and the plans that they have."""

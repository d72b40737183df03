"""A table that is written to, and the processes that write."""

"""A table whose rows several servers hold: its rows, its servers, and the engines that ask all of them.

fdw and fdw-naive send a query to a coordinator, which asks the shards by postgres_fdw. client asks them
itself.
"""

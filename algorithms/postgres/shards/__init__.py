"""A table spread over several servers: its rows, these servers, and the engines that query them.

fdw and fdw-naive send a query to a coordinator, which asks the shards by postgres_fdw. client asks them
itself.
"""

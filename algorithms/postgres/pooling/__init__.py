"""Queries through a pooler: pgbouncer in front of a server of our own, and what settings queries have there.

session       a client has a server connection for itself, and sets its settings there
transaction   clients share server connections, which have the settings from when they were opened
transaction-local   the same, and each query sets its own by SET LOCAL, in a transaction
"""

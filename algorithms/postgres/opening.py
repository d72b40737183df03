"""What opens the session of a statement, whatever kind of statement it is."""

from .pooling.session import PooledSession
from .pooling.statement import PooledStatement
from .scattered import ScatteredSession, ScatteredStatement
from .session import QuerySession
from .statement import QueryStatement


def open_session(statement: QueryStatement) -> QuerySession:
    """Open what sends a statement: one session, one of each shard, or one through a pooler."""
    if isinstance(statement, ScatteredStatement):
        return ScatteredSession(statement)
    return PooledSession(statement) if isinstance(statement, PooledStatement) else QuerySession(statement)

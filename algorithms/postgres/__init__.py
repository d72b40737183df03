"""What the PostgreSQL plug-ins share: servers, loading, building, sessions. Not an algorithm."""

"""Results on tiers, with clients and versions, for tests of pages."""

SIZES = {"256MB": 1 << 28, "1GB": 1 << 30, "4GB": 4 << 30}


def tier_attrs(clients, ram, **more):
    """Return the attributes of a result of this project that a tier and clients make."""
    memory = f"-sb256MB-ram{ram}"
    return {
        "clients": clients,
        "tier": f"256MB:{ram}",
        "tier_ram": SIZES[ram],
        "tier_available": SIZES[ram],
        "tier_shared_buffers": SIZES["256MB"],
        "tier_method": "cgroup",
        "tier_memory_series": memory,
        "postgres_version": "18.1",
        "vector_version": "0.8.1",
        "cpu": "Some CPU",
        "cores": 8,
        "memory_bytes": 64 << 30,
        "load_time": 2.5,
        "index_build_time": 10.0,
        "wait_events": '{"IO:DataFileRead": 0.6, "CPU": 0.4}',
        **more,
    }

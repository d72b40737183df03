"""The kinds of plot on the website: name to (x metric, y metric), by ann-benchmarks' names."""

_AGAINST_RECALL = {
    "time": "qps",
    "p50": "p50",
    "p95": "p95",
    "p99": "p99",
    "p999": "p999",
    "buildtime": "build",
    "indexsize": "indexsize",
    "qpssize": "queriessize",
    "candidates": "candidates",
    "distcomps": "distcomps",
}
_QPS_AGAINST = {"eps": "epsilon", "largeeps": "largeepsilon", "rel": "rel"}

all_plot_variants = {f"recall/{name}": ("k-nn", metric) for name, metric in _AGAINST_RECALL.items()} | {
    f"{name}/time": (metric, "qps") for name, metric in _QPS_AGAINST.items()
}

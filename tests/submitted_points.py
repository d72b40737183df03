"""Bundles without files, for pages of many points."""

import json
import random
from pathlib import Path

from ann_benchmarks.fields.series import Series
from ann_benchmarks.pricing.prices import Instance, PriceList
from ann_benchmarks.results.metrics import standard_metrics
from ann_benchmarks.results.runs import Run
from ann_benchmarks.submission.manifest import Manifest
from ann_benchmarks.website.build import FOLDER, script, template_environment
from ann_benchmarks.website.bundles import SubmittedBundle, SubmittedPoint, submitted_rows
from ann_benchmarks.website.submissions import submitted_pages, table_page

GB = 1 << 30


def made_up_bundle(number, points):
    """Return a bundle of this many points: 2 algorithms by 5 numbers of clients, on one machine."""
    draw = random.Random(number)
    size, price = 4 * 2 ** (number % 5), 100.0 * (1 + number % 5)
    instance = Instance(f"machine-{number % 5}", 8, size, price, local=100.0)
    prices = PriceList(Path("prices.yml"), "Some cloud", "a page", "2026-01-01", "USD", 730, (instance,))
    found = []
    for i in range(points):
        recall, qps, clients = draw.uniform(0.6, 0.999), draw.uniform(10, 5000), 4 ** (i % 5)
        metrics = {name: draw.uniform(1, 1000) for name in standard_metrics}
        metrics |= {"recall": recall, "qps": qps}
        attrs = {
            **{
                "cpu": f"CPU {number}",
                "cores": 8,
                "memory_bytes": size * GB,
                "disk": "a disk",
                "run_count": 5,
            },
            **{"postgres_version": f"18.{number % 3}", "vector_version": f"0.8.{i % 2}", "run_count": 5},
            **{"index_size": 4e5, "table_size": 8e5, "recall_low": recall - 0.01, "recall_high": recall},
            **{"qps_low": 0.9 * qps, "qps_high": 1.1 * qps},
            "build_arguments": json.dumps(["euclidean", {"M": 8 * (1 + i % 3)}]),
        }
        series = Series(("vchord", "pgvector_hnsw")[i // 5 % 2], clients=clients)
        run = Run(f"data-{number % 4}", 10, "euclidean", series, f"Index(ef={i})", metrics, attrs)
        found.append(SubmittedPoint(run, run if i % 7 == 0 else None, f"{number}-{i}", i % 10 == 0))
    manifest = Manifest(f"Bundle {number}", "2026-01-31T12:00:00+00:00", "published", 0.95)
    return SubmittedBundle(Path(f"bundle-{number}"), manifest, found, prices)


def made_up_table(bundles=20, points=50):
    """Return the HTML of the table of made-up bundles."""
    pages = submitted_pages([made_up_bundle(number, points) for number in range(bundles)])
    return table_page(template_environment(), pages, submitted_rows(pages))


def write_made_up_table(folder):
    """Write that table as a site without the pages of its bundles; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "website.js").write_text(script())
    (folder / "website.css").write_text((FOLDER / "website.css").read_text())
    (folder / "index.html").write_text(made_up_table())
    return folder / "index.html"

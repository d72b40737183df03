"""Files of prices, the instance that fits a server, and which of the measured servers is the cheapest."""

import datetime
import math
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.load.request import Objective
from ann_benchmarks.pricing.costs import CostRequest, ServiceTarget, cost_request, server_costs
from ann_benchmarks.pricing.prices import GB, Capacity, read_prices
from ann_benchmarks.pricing.servers import STORAGE_MARGIN, needed_capacity
from ann_benchmarks.statistics.judging import Judgement
from ann_benchmarks.views.costs import cost_answers, cost_data

from .report_data import make_run

PRICES = Path(__file__).parents[1] / "prices"
EXAMPLE = yaml.safe_load((PRICES / "example.yml").read_text())
P99 = Objective.parse("p99:50ms")
SIZES = {"index_size": 2 << 20, "index_kib": 2 << 20, "table_size": 3 << 20}  # KiB: 2 GB and 3 GB


@pytest.fixture(scope="module")
def prices():
    return read_prices(PRICES / "example.yml")


def result(family, qps, ram, p99=10.0, spread=0.1, **more):
    """Return a result with 8 clients whose QPS and p99 are known within a share, None: not known."""
    attrs = {**SIZES, "clients": 8, **more}
    if spread is not None:
        attrs |= {"qps_low": qps * (1 - spread), "qps_high": qps * (1 + spread), "latency_queries": 10_000}
        attrs |= {"latency_p99_low": p99 * (1 - spread) / 1e3, "latency_p99_high": p99 * (1 + spread) / 1e3}
    # An interval of the recall would widen that of the throughput by what other queries would change.
    attrs |= {"recall_low": 0.95, "recall_high": 0.95}
    run = make_run(family, (qps, qps, qps), ram=ram, **attrs)
    run.metrics["p99"] = p99
    return run


def said(runs, prices, about="Cheapest server", **objective):
    (answer,) = cost_answers(runs, 0.95, CostRequest(prices, **objective))
    return " ".join(one.text for one in answer.statements if one.about == about)


def file_of(tmp_path, **changes):
    """Write the example with other values; None takes a key away."""
    content = {key: value for key, value in (EXAMPLE | changes).items() if value is not None}
    path = tmp_path / "prices.yml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_the_shipped_prices_can_be_read():
    for path in PRICES.glob("*.yml"):
        found = read_prices(path)
        assert found.instances and found.date <= datetime.date.today().isoformat()


INSTANCE = EXAMPLE["instances"][0]
BAD = [
    ({"instances": []}, "'instances' must not be empty"),
    ({"instances": [INSTANCE, INSTANCE]}, "'example-2x8' stands in 'instances' a second time"),
    ({"instances": [INSTANCE | {"price": 0}]}, "'price' must be a number above 0"),
    ({"instances": [INSTANCE | {"price": math.nan}]}, "'price' must be a number, not nan"),
    ({"instances": [INSTANCE | {"price": 1e300}]}, "'price' must be a number above 0, and up to"),
    ({"instances": [INSTANCE | {"price": True}]}, "'price' must be a number, not True"),
    ({"instances": [INSTANCE | {"vcpus": 1.5}]}, "'vcpus' must be a whole number"),
    ({"instances": [INSTANCE | {"cpu": 2}]}, "unknown key 'cpu'"),
    ({"instances": [INSTANCE | {"name": "a\x07b"}]}, "'name' must be a text that can be printed"),
    ({"instances": "m5.large"}, "'instances' must be a list"),
    ({"storage": [{"name": "ssd", "price": 0.1, "iops_price": 0}]}, "'iops_price' must be a number above 0"),
    ({"currency": "DOLLARS"}, "'DOLLARS' must be a currency"),
    ({"per": "week"}, "unknown unit of time 'week'; known are: hour, month"),
    ({"date": None}, "the file of prices has no 'date'"),
    ({"date": "yesterday"}, "'yesterday' is not a date"),
    ({"date": (datetime.date.today() + datetime.timedelta(days=2)).isoformat()}, "is in the future"),
    ({"date": datetime.date(2026, 1, 1)}, "read as timestamp"),
    ({"source": " "}, "'source' must be a text that can be printed"),
    ({"hours_a_month": 24}, "a month has 600 to 744 hours"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_a_mistake_in_prices_is_named_with_its_line(tmp_path, changes, message):
    path = file_of(tmp_path, **changes)
    with pytest.raises(UserError, match=rf"{path}:\d+: .*") as raised:
        read_prices(path)
    assert message in str(raised.value)


def test_an_objective_without_prices_is_refused():
    for latency, rate, option in ((P99, None, "--slo"), (None, 5.0, "--target-rate")):
        with pytest.raises(UserError, match=f"{option} .*: add --prices FILE"):
            cost_request(None, latency, rate)
    assert cost_request(None, None, None) is None


def cheapest_by_hand(cpus, memory, size, iops=0, bandwidth=0):
    """Return the least price of a month of the example, by trying everything; sizes in GB, MB/s."""
    (ssd,) = EXAMPLE["storage"]
    found = {}
    for one in EXAMPLE["instances"]:
        if one["vcpus"] < cpus or one["memory"] < memory:
            continue
        disks = []
        if size <= ssd["most_size"] and iops <= ssd["most_iops"] and bandwidth <= ssd["most_throughput"]:
            more_iops, more_bandwidth = max(iops - 3000, 0), max(bandwidth - 125, 0)
            disks.append(max(math.ceil(size), 10) * 0.10 + more_iops * 0.005 + more_bandwidth * 0.05)
        local = one.get("local_storage", 0) >= size and one.get("local_iops", 0) >= iops
        if local and one.get("local_throughput", 0) >= bandwidth:
            disks.append(0.0)
        if disks:
            found[one["name"]] = one["price"] * 730 + min(disks)
    return min(found.items(), key=lambda item: item[1]) if found else None


NEEDS = [(2, 8, 7.5), (2, 8.1, 7.5), (3, 4, 1), (1, 1, 0.2), (8, 32, 900), (8, 33, 900), (8, 33, 1001),
         (2, 8, 50, 3000, 125), (2, 8, 50, 16_000, 1000), (2, 8, 50, 16_001), (2, 8, 50, 100, 1500),
         (16, 64, 20_000), (32, 8, 1), (8, 64, 10, 200_001)]  # fmt: skip


@pytest.mark.parametrize("need", NEEDS)
def test_the_quote_is_the_cheapest_that_suffices(prices, need):
    cpus, memory, size, iops, bandwidth = (*need, 0, 0)[:5]
    limits = (iops or None, bandwidth * 10**6 or None)
    needed = Capacity(cpus, round(memory * GB), round(size * GB), *limits)
    expected = cheapest_by_hand(*need)
    if expected is None:
        with pytest.raises(UserError, match="no instance has|no storage"):
            prices.quote(needed)
        return
    quote = prices.quote(needed)
    assert quote.instance.name == expected[0]
    assert quote.price == pytest.approx(expected[1])


def test_prices_of_months_are_not_multiplied(tmp_path):
    by_month = read_prices(file_of(tmp_path, per="month", hours_a_month=720, instances=[INSTANCE]))
    assert by_month.quote(Capacity(2, 8 * GB, GB)).price == pytest.approx(0.10 + 1.0)


def test_what_a_server_needs_is_its_tier_then_the_machine():
    tier = {"tier_cpus": 1, "tier_iops": 3000, "tier_bandwidth": 125_000_000}
    needed = needed_capacity(result("hnsw", 100, 4, **tier))
    storage = round(5 * GB * (1 + STORAGE_MARGIN))
    assert needed == Capacity(1, 4 * GB, storage, 3000, 125_000_000)
    assert needed_capacity(result("hnsw", 100, None)) == Capacity(2, 16 * GB, storage)
    assert needed_capacity(result("hnsw", 100, None, container_memory_bytes=2 * GB)).memory == 2 * GB


MISSING = [
    ({"table_size": None}, "the size of its table is not known"),
    ({"index_size": None}, "the size of its index is not known"),
    ({"index_size": 0}, "the size of its index is not known"),
    ({"cores": None}, "the number of its CPUs is not known"),
    ({"server": "external"}, "the number of its CPUs is not known"),
]


@pytest.mark.parametrize(("changes", "why"), MISSING)
def test_what_cannot_be_priced_is_said(prices, changes, why):
    run = result("hnsw", 100, None)
    run.attrs.update(changes)
    for name in [name for name, value in changes.items() if value is None]:
        del run.attrs[name]
    assert why in said([run], prices, "Without a price")
    assert "No server that keeps the objective" in said([run], prices)


def test_several_servers_have_no_price():
    run = result("hnsw", 100, None)
    parts = replace(run, series=run.series.replaced(shards=4, shard_engine="client"))
    with pytest.raises(UserError, match="several servers have answered"):
        needed_capacity(parts)


def test_an_exact_scan_has_no_index_to_store():
    assert needed_capacity(result("exact", 9, None, index_size=0, is_exact=True)).storage == round(4.5 * GB)


def test_the_cheapest_server_keeps_recall_latency_and_rate(prices):
    runs = [
        result("hnsw", 200, 8),  # too few queries/s
        result("hnsw", 900, 16, p99=90.0),  # too slow an answer
        result("hnsw", 1000, 32, p99=20.0),
        result("hnsw", 1500, 64, p99=20.0),
        result("vchord", 2000, 64, p99=20.0, recall=0.90, recall_low=0.89, recall_high=0.91),
    ]
    (answer,) = cost_answers(runs, 0.95, CostRequest(prices, P99, 500.0))
    kept = {cost.server.name: cost.kept for cost in answer.costs if cost.algorithm == "hnsw"}
    assert [str(kept[f"tier 1GB:{ram}GB"]) for ram in (8, 16, 32, 64)] == ["no", "no", "yes", "yes"]
    text = said(runs, prices, latency=P99, rate=500.0)
    # 32 GB: 8 vCPUs at 0.40 an hour, and 8 GB of storage, of which 10 is the least.
    assert "a recall of at least 0.95, p99 of at most 50 ms and at least 500 queries/s" in text
    assert "is tier 1GB:32GB (2 CPUs, 32 GB) with hnsw: $293.00 a month as example-8x32" in text
    assert "$292.00) and 10 GB of example-ssd, $1.00" in text
    assert "it answers 1,000 queries/s (900 to 1,100) with 8 clients" in text
    assert "run.py --slo p99:50ms measures" in text  # because the loop was closed
    about = said(runs, prices, "Prices")
    assert "2026-01-01" in about and "was not measured" in about and "Test CPU" in about


def test_noise_hides_whether_an_objective_is_kept(prices):
    near, far = result("hnsw", 520, 8), result("hnsw", 1500, 32)
    text = said([near, far], prices, rate=500.0)
    assert "is tier 1GB:32GB" in text
    assert "but perhaps not keeping it: hnsw on tier 1GB:8GB, $74.00 (520 queries/s, sure at 730)" in text
    text = said([near], prices, rate=500.0)
    assert "No priced server certainly keeps the objective" in text and "In doubt: 520 queries/s" in text
    single = result("hnsw", 900, 8, spread=None, run_count=1)
    (cost,) = server_costs([single], ServiceTarget(0.95, rate=500.0), prices)
    assert cost.kept == Judgement.UNSURE
    missed = said([result("hnsw", 100, 8)], prices, rate=500.0)
    assert "No server that was measured keeps the objective" in missed
    assert "hnsw on tier 1GB:8GB (100 queries/s)" in missed


def test_a_rate_that_was_given_counts_where_it_was_kept(prices):
    open_loop = {"loop": "open", "spread": 0.1}
    runs = [result("hnsw", rate, 8, p99, rate=rate, **open_loop) for rate, p99 in ((400.0, 9), (800.0, 80))]
    (cost,) = server_costs(runs, ServiceTarget(0.95, P99, 250.0), prices)
    assert (cost.rate, cost.kept, cost.rate_interval) == (400.0, Judgement.YES, None)
    runs.append(result("hnsw", 600.0, 8, 9.0, rate=600.0, queries_unanswered=3, **open_loop))
    (cost,) = server_costs(runs, ServiceTarget(0.95, P99, 900.0), prices)
    assert cost.kept == Judgement.NO
    text = said(runs, prices, latency=P99, rate=250.0)
    assert "answers 400 queries/s with 8 clients, at a given rate" in text
    assert "Queries that come at a rate" not in text


def test_the_figure_between_two_points_is_that_at_the_recall(prices):
    exact = {"recall_low": 0.94, "recall_high": 0.94}
    low, high = result("hnsw", 1000, 8, recall=0.94), result("hnsw", 600, 8, recall=0.97)
    low.attrs.update(exact)
    high.attrs.update(recall_low=0.97, recall_high=0.97)
    (cost,) = server_costs([low, high], ServiceTarget(0.95), prices)
    share = math.log(0.06 / 0.05) / math.log(0.06 / 0.03)
    assert cost.rate == pytest.approx(math.exp((1 - share) * math.log(1000) + share * math.log(600)))
    assert cost.kept == Judgement.YES
    # The points beside it have other recalls, and their latencies are not those of this throughput.
    (answer,) = cost_answers([low, high], 0.95, CostRequest(prices))
    (row,) = cost_data(answer)
    assert (row["recall"], row["p99_ms"], row["qps"]) == (0.95, None, cost.rate)
    text = said([low, high], prices)
    assert "recall 0.950, a figure between measured points" in text and "p99" not in text


def test_without_tiers_or_storage(prices, tmp_path):
    run = result("hnsw", 1000, None)
    text = said([run], prices)
    assert "The cheapest measured server that keeps" in text and "the machine as it is" in text
    assert "No simulated server was measured: python -m tiers sweep" in text
    bare = read_prices(file_of(tmp_path, storage=None, instances=[INSTANCE]))
    assert "because no storage has 8 GB" in said([result("hnsw", 1000, 8)], bare, "Without a price")
    odd = result("hnsw", 1000, 8, caches_dropped=True)
    assert "No result can be priced" in said([odd], prices)
    assert "1 result in batch mode, from cold caches" in said([odd, run], prices, "Without a price")

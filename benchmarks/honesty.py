"""What is measured of plug-ins of known behaviour, compared with what arithmetic says that it must be.

    python -m benchmarks.honesty [--seconds 5] [--kinds threads processes]

The plug-ins (benchmarks/known.py) sleep for each query, have one slot that all wait for, or stand still once
in a run. What is expected of one slot is computed for the very queries that came at random; where times are
computed too, which needs no machine, it is Erlang's formula. For figures as good as they can be, nothing else
should run.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ann_benchmarks.algorithms.base.module import BaseANN
from ann_benchmarks.load.request import Load, Objective
from ann_benchmarks.load.spans import Measured
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.measure.loaded_point import LEAST_PATIENCE, PATIENCE_SHARE, LoadedPoint
from ann_benchmarks.measure.timed import Subject
from ann_benchmarks.plugin import Plugin
from ann_benchmarks.results.intervals import Interval, mean_interval, share_interval
from ann_benchmarks.results.percentiles import PERCENTILES, is_shown, stored_percentiles
from benchmarks.harness import arguments
from benchmarks.known import (
    Computed,
    OneSlot,
    Sleeping,
    Stalling,
    StallSeen,
    backlog_latencies,
    drawn_hits,
    one_slot_percentile,
    one_slot_rate,
)
from benchmarks.known_latencies import PROCESSES

KINDS = ("threads", "processes")
SLEEP = 0.02  # s
SLOT = 0.01
QUERIES = np.arange(16, dtype=np.float32)[:, np.newaxis]
STALL, STALL_RUN, STALL_RUNS = 1.0, 4.0, 5
COMPUTED_SECONDS = 2000.0
SETS = 2000  # of queries
REPETITIONS = 1000  # of points, of whose latencies intervals are made


def main() -> None:
    kinds = {"choices": KINDS, "default": KINDS}
    args = arguments(__doc__, seconds={"default": 5.0, "help": "of one run"}, kinds=kinds)
    print(f"{'expected / measured':45} {'clients':>7} {'QPS':>15} {'p50 ms':>15} {'p99 ms':>15}")
    for kind in args.kinds:
        throughput(kind, args.seconds)
    steady_state()
    for kind in args.kinds:
        stall(kind)
    objective(2 * args.seconds)
    coverage()
    percentiles()


def throughput(kind: str, seconds: float) -> None:
    """Clients that do not disturb each other, and that do, in closed and in open loops."""
    for clients in (1, 2, 8):
        (run,) = measured(Sleeping(SLEEP, kind), Load(clients, seconds=seconds))
        row(f"closed loop, sleeps 20 ms, {kind}", clients, run, clients / SLEEP, (SLEEP, SLEEP))
    (run,) = measured(OneSlot(SLEEP, kind), Load(8, seconds=seconds))
    row(f"closed loop, one slot of 20 ms, {kind}", 8, run, 1 / SLEEP, (8 * SLEEP, 8 * SLEEP))

    for rate, service in ((100, SLEEP), (60, SLOT), (150, SLOT)):
        load = Load(8, seconds=seconds, rate=rate)
        due, _ = load.arrivals(len(QUERIES), rate, run=0)
        expected = len(due) / float(due[-1])
        if service == SLEEP:
            algo: BaseANN = Sleeping(SLEEP, kind)
            what, times = "sleeps 20 ms", np.array([SLEEP])
        else:
            algo, what = OneSlot(SLOT, kind), "one slot of 10 ms"
            if rate < 1 / SLOT:
                times = measured(Computed(SLOT), replace(load, clients=1))[0].times
            else:
                expected = 1 / SLOT
                times = backlog_latencies(due, SLOT, 8, max(PATIENCE_SHARE * due[-1], LEAST_PATIENCE))
        (run,) = measured(algo, load)
        row(f"open loop, {rate}/s, {what}, {kind}", 8, run, expected, np.percentile(times, (50, 99)))


def steady_state() -> None:
    """One slot, with times that are computed instead of measured, compared with Erlang's formula."""
    for rate in (60, 80):
        (run,) = measured(Computed(SLOT), Load(1, seconds=COMPUTED_SECONDS, rate=rate))
        percentiles = [one_slot_percentile(of, rate, SLOT) for of in (50, 99)]
        row(f"open loop, {rate}/s, one slot of 10 ms, computed", 1, run, rate, percentiles)


def stall(kind: str) -> None:
    """What the two loops see of a stall of 1 s in a run of 4 s."""
    closed_clients, open_clients, rate = 8, 32, 100
    algo = Stalling(SLEEP, 1.0, STALL, kind)
    loads = (Load(closed_clients, seconds=STALL_RUN), Load(open_clients, seconds=STALL_RUN, rate=rate))
    of_closed, of_open = (
        np.concatenate([run.times for run in measured(algo, load, STALL_RUNS)]) for load in loads
    )
    seen = StallSeen(SLEEP, STALL, STALL_RUN, utilisation=rate * SLEEP / open_clients)
    share = 1 / (seen.closed_queries() + 1)
    print(
        f"\nstall of {STALL:g} s in runs of {STALL_RUN:g} s, {STALL_RUNS} runs, {kind}: expected / measured"
    )
    print(f"{'':25} {f'closed, {closed_clients} clients':>20} {f'open, {rate}/s':>20}")
    for over in (0.1, 0.25, 0.5, 0.75):
        closed, open_one = (float(np.mean(times > over)) for times in (of_closed, of_open))
        expected = share * (STALL + SLEEP - over > 0)
        pairs = f"{expected:9.1%} / {closed:8.1%} {seen.open_share_over(over):9.1%} / {open_one:8.1%}"
        print(f"  {f'queries over {over * 1000:.0f} ms':23} {pairs}")
    for of in (50, 90, 95, 99, 100):
        closed, open_one = (1000 * float(np.percentile(times, of)) for times in (of_closed, of_open))
        expected = 1000 * (SLEEP if of < 100 else SLEEP + STALL)
        pairs = f"{expected:9.0f} / {closed:8.0f} {1000 * seen.open_percentile(of):9.0f} / {open_one:8.0f}"
        print(f"  {f'p{of} ms' if of < 100 else 'longest ms':23} {pairs}")


def objective(seconds: float) -> None:
    """The highest rate that one slot of 10 ms serves within a bound: measured, and with computed times."""
    print(
        f"\nhighest rate within an objective, one slot of 10 ms {'':8} {'expected':>9} {'found':>7}  trials"
    )
    for text, percentile, bound in (("p50:12ms", 50, 0.012), ("p95:50ms", 95, 0.05), ("p99:50ms", 99, 0.05)):
        expected = one_slot_rate(percentile, bound, SLOT)
        for algo, how, long in (
            (OneSlot(SLOT), f"measured, {seconds:g} s a trial", seconds),
            (Computed(SLOT), f"computed, {COMPUTED_SECONDS:,.0f} s a trial", COMPUTED_SECONDS),
        ):
            load = Load(8 if isinstance(algo, OneSlot) else 1, seconds=long, objective=Objective.parse(text))
            (run,) = measured(algo, load, warmup=Warmup("queries", 8))
            found, trials = run.facts["rate"], run.facts["objective_trials"]
            print(f"  {text:12} {how:45} {expected:9.1f} {found:7.1f} {trials:7}", flush=True)


def coverage() -> None:
    """How often 95% intervals hold what they are of, how wide they are, and how far off the mean is.

    A width of 1 is what the true standard error would give; with that of 5 runs, it is 1.33 (Student).
    """
    print(f"\n95% intervals {'':46} hold it   width   off by")
    for kind in ("alone", "uneven", "together"):
        for recall in (0.5, 0.95, 0.99):
            hits = drawn_hits(np.random.default_rng(1), recall, kind, SETS, 500, 10)
            intervals = [share_interval(shares) for shares in hits.mean(axis=2)]
            name = f"recall {recall}, 500 queries x 10, answers {kind}"
            hold(name, intervals, hits.mean(axis=(1, 2)), recall)
    for clients, queries in ((1, 1000), (8, 1000), (32, 1000), (32, 100)):
        for shape, name in ((1, "exponential"), (10, "nearly constant")):
            algo = Computed(SLOT, gamma_services(shape))
            load = Load(clients, max_queries=queries * clients)
            points = [measured(algo, load, runs=5) for _ in range(SETS // 10)]
            rates = [[1 / run.seconds_per_query for run in runs] for runs in points]
            intervals = [mean_interval(some) for some in rates]
            name = f"QPS, 5 runs, {clients} clients x {queries} queries, {name}"
            hold(name, intervals, np.mean(rates, axis=1), clients / SLOT)


def percentiles() -> None:
    """How often the intervals of percentiles hold those of the process, and contain the stored figure.

    Before, an interval was Student's of the percentiles of single runs. "beyond" is how many queries of a
    point are expected beyond the percentile. Points whose queries are too much alike have none.
    """
    print(f"\n95% intervals of percentiles, 5 runs {'':12} queries beyond   before: holds, contains   now")
    for name, process in PROCESSES.items():
        for queries in (500, 1000, 2000, 10_000):
            rng = np.random.default_rng(3)
            points = [process.draw(rng, queries, 5) for _ in range(REPETITIONS)]
            earlier, now = (np.array([stored(runs) for runs in points]) for stored in (before, after))
            for place, (figure, percent) in enumerate(PERCENTILES.items()):
                truth = process.percentile(percent)
                texts = []
                for found in (earlier[:, place], now[:, place]):
                    low, value, high = found[np.isfinite(found).all(axis=1)].T
                    shares = (
                        [np.mean((low <= of) & (of <= high)) for of in (truth, value)] if len(low) else []
                    )
                    texts.append(" ".join(f"{share:6.1%}" for share in shares) or f"{'none':>13}")
                beyond = 5 * queries * (100 - percent) / 100
                mark = "" if is_shown(figure, 5 * queries) else "  not shown"
                print(f"  {name:38} {figure:5} {queries:6} {beyond:7.1f}   {'   '.join(texts)}{mark}")
            sys.stdout.flush()


def before(runs: Sequence[np.ndarray]) -> np.ndarray:
    """Return each percentile of all queries between the ends of Student's interval over the runs, (4, 3)."""
    percents = list(PERCENTILES.values())
    of_each = np.array([np.percentile(run, percents) for run in runs])
    ends = np.array([mean_interval(values.tolist()) for values in of_each.T])
    return np.column_stack([ends[:, 0], np.percentile(np.concatenate(runs), percents), ends[:, 1]])


def after(runs: Sequence[np.ndarray]) -> np.ndarray:
    """Return each percentile between the ends of its interval as they are stored, (4, 3)."""
    facts = stored_percentiles(runs)
    return np.array(
        [[facts[f"latency_{name}{end}"] for end in ("_low", "", "_high")] for name in PERCENTILES]
    )


def gamma_services(shape: int) -> Callable[[int], np.ndarray]:
    """Draw services of SLOT on average, with a standard deviation of 1 / sqrt(shape) of it."""
    rng = np.random.default_rng(2)
    return lambda n: rng.gamma(shape, SLOT / shape, n)


def hold(name: str, intervals: Sequence[Interval], means: np.ndarray, truth: float) -> None:
    """Print one line; the width is over that of 1.96 true standard errors to both sides."""
    low, high = np.array(intervals).T
    held, width = np.mean((low <= truth) & (truth <= high)), np.median(high - low) / (2 * 1.96 * means.std())
    print(f"  {name:58} {held:7.1%} {width:7.2f} {means.mean() / truth - 1:+8.2%}", flush=True)


def measured(
    algo: BaseANN,
    load: Load,
    runs: int = 1,
    warmup: Warmup = Warmup("off"),  # noqa: B008
) -> list[Measured]:
    """Measure as run.py does."""
    return LoadedPoint(Subject(Plugin(algo), QUERIES, 1, len(QUERIES)), load).measure(warmup, range(runs))


def row(name: str, clients: int, run: Measured, qps: float, tails: Sequence[float] | np.ndarray) -> None:
    """Print what was expected and measured of one run; `tails` are the expected p50 and p99, in s."""
    pairs = [f"{qps:7.1f} /{1 / run.seconds_per_query:6.1f}"]
    for expected, found in zip(tails, np.percentile(run.times, (50, 99)), strict=True):
        pairs.append(f"{1000 * expected:7.1f} /{1000 * found:6.1f}")
    print(f"{name:45} {clients:7} " + " ".join(f"{pair:>15}" for pair in pairs), flush=True)


if __name__ == "__main__":
    main()

"""run.py's command line: what its options request, and which of them cannot go together."""

import dataclasses
import re
import shlex
import sys
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from ann_benchmarks.commands import choose
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.definitions.servers import ONE_SERVER, POOLERS, Pooled, Replicas, Shards
from ann_benchmarks.fields.series import Series
from ann_benchmarks.run import checks
from ann_benchmarks.run.checks import EXCLUSIONS, NEEDS, check_request, is_given
from ann_benchmarks.run.command_line import make_parser
from ann_benchmarks.run.request import Request, read_request, take_url, variables_of

(POOLER,) = POOLERS


def requested(words: str = "") -> Request:
    request = read_request(shlex.split(f"--local {words}"))
    check_request(request)
    return request


@pytest.mark.parametrize(
    ("words", "servers"),
    [
        ("", [ONE_SERVER]),
        ("--pooler none", [ONE_SERVER]),
        ("--shards none,none --payload text", [ONE_SERVER]),
        ("--replicas none", [ONE_SERVER]),
        ("--shards 4 --shard-engine citus,client,citus", [Shards(4, "citus"), Shards(4, "client")]),
        ("--shards none,1,1", [ONE_SERVER, Shards(1, "client")]),
        (
            f"--pooler none,{POOLER} --pool-size 2,8",
            [ONE_SERVER, Pooled(POOLER, 2), Pooled(POOLER, 8)],
        ),
        (f"--pooler {POOLER} --tiers 1:2", [Pooled(POOLER)]),
        ("--replicas none,0,1,2 --clients 4,8", [Replicas(0), Replicas(1), Replicas(2)]),
    ],
)
def test_servers(words: str, servers: list[Any]) -> None:
    assert requested(words).servers == servers


def test_workloads_of_every_combination_make_a_curve_of_their_own() -> None:
    def labels(words: str) -> list[str]:
        return [Series("x", **load.series).label for load in requested(words).loads]

    assert labels("--workload inserts --writers 1,8 --duration 20") == ["x-inserts-w1", "x-inserts-w8"]
    mixed = "--write-mix insert:2,delete:1 --query-order zipf:1 --loaded 0.5"
    assert labels(f"--workload writes --clients 1,32 --write-rate 50,200 {mixed}") == [
        f"x-writes-c{clients}-zipf1-w4-r{rate}-mix66.67-0-33.33-l0.5"
        for clients in (1, 32)
        for rate in (50, 200)
    ]
    assert labels("") == []


@pytest.mark.parametrize(("words", "payload"), [("", ""), ("--payload ids", ""), ("--payload text", "text")])
def test_payloads(words: str, payload: str) -> None:
    request = requested(words)
    assert [one.payload for one in request.procedures()] == [payload]
    assert request.execution().payload == payload


def test_cpus_are_written_as_docker_has_them() -> None:
    assert read_request(["--cpuset", "0-2,5, 1"]).cpuset == (0, 1, 2, 5)


@pytest.mark.parametrize("words", ["", "--no-monitoring"])
def test_monitoring_can_be_left_out(words: str) -> None:
    assert requested(words).execution().monitoring == (not words)


def test_a_request_does_not_change_and_every_row_names_options() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        requested().count = 3  # type: ignore[misc]
    for row in EXCLUSIONS:
        names = [*row.options, *row.others, *filter(None, [row.unless])]
        assert not any(is_given(Request(), name) for name in names)
    for need in NEEDS:
        assert not any(is_given(Request(), name) for name in [*need.options, need.needed])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        # One excludes another.
        ("--clients 2 --batch", "--clients cannot be combined with --batch: "),
        ("--clients 2 --parallelism 2", "--clients cannot be combined with --parallelism: it needs all"),
        ("--warmup 5 --batch", "--warmup cannot be combined with --batch"),
        ("--target-recall 0.9 --batch", "--target-recall cannot be combined with --batch"),
        ("--target-recall 0.9 --build-only", "--build-only: nothing is measured; leave one of them out"),
        ("--clients 2 --build-only", "--clients cannot be combined with --build-only"),
        ("--tiers 1:all --build-only", "--tiers cannot be combined with --build-only: nothing is measured"),
        ("--tiers 1:all --parallelism 2", "tiers are measured one after the other"),
        ("--tiers 1:all --setting jit=on", "--setting cannot be combined with --tiers: tiers choose the"),
        ("--memory 2g", "--memory cannot be combined with --local: it is for containers"),
        ("--cpuset 0", "--cpuset cannot be combined with --local: it is for containers"),
        ("--clients 2 --duration 3 --max-queries 9", "--duration: each ends a run"),
        ("--clients 2 --rate 5 --slo p99:3ms", "--slo cannot be combined with --rate"),
        ("--clients 2 --slo p99:50ms --warmup off", "--slo cannot be combined with --warmup off"),
        ("--clients 2 --slo p99:50ms --max-queries 9", "--max-queries: it is kept for a time"),
        ("--rounds 3 --workload inserts", "--rounds cannot be combined with --workload"),
        ("--until 5% --clients 2 --rate 3", "--until cannot be combined with --rate"),
        ("--rounds 3 --build-only", "--rounds cannot be combined with --build-only"),
        ("--rounds 3 --clients 1 --slo p99:5ms", "--rounds cannot be combined with --slo"),
        ("--payload text --workload inserts", "--payload cannot be combined with --workload"),
        ("--filter uniform:0.5 --workload inserts", "--filter cannot be combined with --workload"),
        ("--workload writes --clients 5 --write-rate 5 --rate 7", "--rate cannot be combined with --wo"),
        ("--workload inserts --warmup off", "--warmup cannot be combined with --workload"),
        ("--workload inserts --clients 4", "--workload inserts: it is for --workload writes"),
        ("--shards 4 --workload inserts", "--shards cannot be combined with --workload: a table"),
        ("--shards 4 --filter uniform:0.1", "--shards cannot be combined with --filter: rows are dealt"),
        ("--shards 4 --payload text", "--shards cannot be combined with --payload: answers"),
        (f"--pooler {POOLER} --shards 2", "--pooler cannot be combined with --shards"),
        (f"--pooler {POOLER} --workload inserts", "--pooler cannot be combined with --workload"),
        (f"--pooler {POOLER} --filter uniform:0.1", "--pooler cannot be combined with --filter"),
        ("--replicas 2 --clients 4 --shards 2", "--replicas cannot be combined with --shards"),
        (f"--replicas 2 --clients 4 --pooler none,{POOLER}", "--replicas cannot be combined with --pooler"),
        ("--replicas 2 --build-only", "--replicas cannot be combined with --build-only"),
        ("--replicas 2 --workload inserts", "--replicas .* with --workload: a table that is written to"),
        # One needs another.
        *(
            (words, f"{words.split()[0]} says what clients ask: add --clients$")
            for words in ("--duration 3", "--max-queries 3", "--query-order same", "--distinct-queries 3",
                          "--rate 3", "--slo p99:3ms")
        ),
        ("--tier-method cgroup", "--tier-method is for simulated servers: add --tiers$"),
        ("--shard-engine client", "--shard-engine says what asks the shards: add --shards N"),
        ("--shards none --shard-engine client", "says what asks the shards: add --shards N"),
        ("--pool-size 2", "counts the connections that clients share: add --pooler NAME"),
        ("--replicas 2", "--replicas needs clients for several servers: add --clients 32"),
        ("--writers 2", "--writers says how a workload writes: add --workload"),
        ("--workload writes --write-rate 5", "needs clients that query: add --clients 32"),
        ("--workload writes --clients 5", "needs a rate of writes: add --write-rate 200"),
        # Numbers.
        ("--clients 2 --slo p99:200ms --duration 1", "in 1 s, --slo p99:200ms .*--duration of 4.05 s or"),
        ("--workload inserts --loaded 1", "leaves no row to insert"),
        ("--workload writes --clients 5 --write-rate 5 --loaded 0", "needs rows to begin with"),
        ("--replicas 2 --clients 1,4", "--replicas 2 needs a client for each: 1 client cannot"),
        ("--docker-tag a:1", "--docker-tag names images"),
        ("--tiers 1:2 --algorithm a:1", "leave out the tag"),
        ("--max-n-algorithms 0", "nothing to run: --max-n-algorithms is 0"),
        ("--timeout 0", "--timeout 0 must be at least 1 second, or -1 for no limit"),
    ],
)  # fmt: skip
def test_options_that_make_no_sense(words: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        requested(words)


@pytest.mark.parametrize("servers", ["--shards 4", f"--pooler {POOLER}", "--replicas 2 --clients 4"])
def test_what_starts_on_this_machine_needs_local(servers: str) -> None:
    with pytest.raises(UserError, match="starts servers or programs on this machine: add --local$"):
        check_request(read_request(servers.split()))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--tiers 1:all --tier-method cgroup", "--tier-method is for servers outside of containers"),
        ("--tiers 1:all --memory 2g", "--memory cannot be combined with --tiers: tiers choose it"),
    ],
)
def test_options_of_containers(words: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_request(read_request(words.split()))


@pytest.mark.parametrize(
    ("cores", "number", "refusal"),
    [
        (4, 3, ""),
        (4, 4, "with 4 cores, 3 is the most"),
        (2, 2, "--parallelism 2 leaves no core free; with 2 cores, 1 is the most"),
        (1, 1, ""),
    ],
)
def test_one_core_is_left_free(monkeypatch: Any, cores: int, number: int, refusal: str) -> None:
    monkeypatch.setattr(checks, "usable_cores", lambda: cores)
    if not refusal:
        requested(f"--parallelism {number}")
        return
    with pytest.raises(UserError, match=refusal):
        requested(f"--parallelism {number}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--clients 0", "'0' is not a whole number of at least 1"),
        *((f"--cpuset={text}", "names no CPUs: give such as 0-3,6") for text in ("a", "1-", "3-1", "0,,1")),
        ("--duration 0", "'0' is not a number above 0"),
        ("--max-queries -1", "'-1' is not a whole number of at least 1"),
        ("--rate 5,0", "'0' is not a number above 0"),
        ("--slo fast", "'fast' is not an objective: give a percentile and a time, such as"),
        ("--query-order zipf:x", "'zipf:x' is not an order of queries: give same, shuffled"),
        ("--warmup on", "'on' is not a warm-up: give auto, off, or a number of queries"),
        ("--target-recall 95", "'95' must be a recall: give a number above 0 and up to 1"),
        ("--target-recall 0", "'0' must be a recall"),
        ("--filter uniform:0.5,", "names no filters"),
        ("--rounds 0", "not a whole number of at least 1"),
        *((f"--until {text}", "must be a percentage") for text in ("5", "0%", "1000%", "nan%")),
        ("--budget 0s", "must be a time"),
        ("--budget 20", "give such as 90s"),
        ("--shards 0", "not a whole number of at least 1"),
        ("--shards 65", "from 1 to 64"),
        ("--shard-engine cituss", "did you mean 'citus'"),
        ("--pooler pgbouncer", "did you mean 'pgbouncer:transaction'"),
        ("--pooler pgpool", "unknown pooler 'pgpool'"),
        ("--pool-size 0", "not a whole number of at least 1"),
        ("--pool-size 401", "from 1 to 400"),
        ("--replicas x", "not a whole number of at least 1"),
        ("--replicas 17", "from 1 to 16"),
    ],
)
def test_values_that_mean_nothing(words: str, message: str, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        read_request(words.split())
    assert message in capsys.readouterr().err


P = "ANN_BENCHMARKS_PG_"


@pytest.mark.parametrize(
    ("url", "variables"),
    [
        (
            "postgresql://me:a%3Ab@db.example.org:5433/shop?sslmode=require",
            {f"{P}USER": "me", f"{P}PASSWORD": "a:b", f"{P}HOST": "db.example.org", f"{P}PORT": "5433",
             f"{P}DBNAME": "shop", "PGSSLMODE": "require"},
        ),
        ("postgres:///?host=/run/postgresql", {f"{P}HOST": "/run/postgresql", f"{P}PASSWORD": "kept"}),
        ("postgresql://[::1]/d", {f"{P}HOST": "::1", f"{P}DBNAME": "d", f"{P}PASSWORD": "kept"}),
        ("db.example.org", "must be of the form"),
        ("mysql://me:hush@db/d", "must be of the form"),
        ("postgresql://me:hush@db:port/d", "must be of the form"),
        ("postgresql://me:hush@db/a/b", "must be of the form"),
        ("postgresql://me:hush@db/d?sslmod=x", "unknown parameter 'sslmod'; did you mean 'sslmode'"),
    ],
)  # fmt: skip
def test_a_url_stands_for_variables(url: str, variables: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "kept")
    if isinstance(variables, dict):
        assert variables_of(url) == variables
        return
    with pytest.raises(UserError, match=re.escape(variables)) as refused:
        variables_of(url)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "stored"),
    [
        ("run.py --local --url postgresql://me:hush@db/d -k 5", "--local -k 5"),
        ("choose.py --from-postgres postgresql://me:hu@hush/h@db/d --mini",
         "--from-postgres postgresql://me@db/d --mini"),
        ("choose.py --from=postgres://me@db/d?password=hush&port=1",
         "--from=postgres://me@db/d?password=&port=1"),
        ("choose.py --from-postgres 'host=db password=hush user=me'",
         "--from-postgres 'host=db password= user=me'"),
        ("choose.py mine --storage a:b@c", "mine --storage a:b@c"),
    ],
)  # fmt: skip
def test_stored_command_lines_have_no_password(
    words: str, stored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", shlex.split(words))
    monkeypatch.setattr("ann_benchmarks.run.request.variables_of", lambda url: {})
    kept = take_url(sys.argv[1:], "--local")
    assert sys.argv[1:] == shlex.split(stored)
    assert ("hush" in str(kept)) == ("hush" in words and "--url" not in words)


@pytest.mark.parametrize(
    ("words", "file", "left"),
    [
        ("my.npy --clients 1,32", "my.npy", "--clients 1,32"),
        ("--clients 1,32 my.npy --dry-run", "my.npy", "--clients 1,32 --dry-run"),
        ("--budget 10m -k 5", None, "--budget 10m -k 5"),
    ],
)
def test_choose_tells_its_file_from_values_of_options(words: str, file: str | None, left: str) -> None:
    given = words.split()
    assert choose.take_file(given) == file
    assert given == left.split()


def test_choose_copies_a_table_again_where_that_is_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(choose, "is_present", lambda name: True)
    monkeypatch.setattr(choose, "copied_vectors", lambda args, name: nullcontext())
    monkeypatch.setattr(choose, "create_from_file", lambda name, file, args: made.append(name))
    args = {"file": None, "from_postgres": "a URL", "table": "own.items", "column": "embedding"}
    args |= {"name": None, "force": True, "train": "a file", "distance": None}
    assert choose.dataset_of(Namespace(**args)) == "own-items-embedding"
    assert made == ["own-items-embedding"]


def test_help_says_no_default_where_there_is_none() -> None:
    said = " ".join(make_parser().format_help().split())
    assert "(default: None)" not in said and "(default: False)" not in said and "(default: [])" not in said
    assert "==SUPPRESS==" not in said
    assert "nearest neighbours to search for (default: 10)" in said
    assert not re.search(r"\(default: [^)]*\) \(default", said)

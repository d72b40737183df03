"""What --tiers says, the ladders that have a name, and what a machine cannot hold."""

from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import GB, MB
from tiers import parse
from tiers.parse import check_capacity, memory_note, parse_tiers
from tiers.tier import Disk, Tier

from .programs import one_line

ROWS, DIMENSION = 2_000_000, 96
GP3 = Disk("gp3", 3_000, 125_000_000)


def parsed(text: str, rows: int = ROWS, dimension: int = DIMENSION, memory: int = 24 * GB) -> list[Tier]:
    return parse_tiers(text, rows, dimension, memory)


@pytest.mark.parametrize(
    ("text", "tier"),
    [
        ("2:8", Tier(2 * GB, 8 * GB)),
        ("256MB:1GB", Tier(256 * MB, GB)),
        ("0.5:2", Tier(512 * MB, 2 * GB)),
        ("1.5gb:2048mb", Tier(1536 * MB, 2 * GB)),
        ("512:all", Tier(512 * GB)),
        ("all:all", Tier()),
        ("1cpu", Tier(cpus=1)),
        ("4cpus", Tier(cpus=4)),
        ("gp3", Tier(disk=GP3)),
        ("gp3-16k", Tier(disk=Disk("gp3-16k", 16_000, 1_000_000_000))),
        ("nvme", Tier(disk=Disk("nvme"))),
        ("3000iops", Tier(disk=Disk("3000iops", 3000))),
        ("125MBps", Tier(disk=Disk("125MBps", None, 125_000_000))),
        ("125MBps+3000iops", Tier(disk=Disk("3000iops-125MBps", 3000, 125_000_000))),
        ("4:16+4cpus+gp3", Tier(4 * GB, 16 * GB, 4, GP3)),
        (" gp3 + 4cpus + 4 : 16 ", Tier(4 * GB, 16 * GB, 4, GP3)),
    ],
)
def test_one_element(text: str, tier: Tier):
    assert parsed(text) == [tier]
    assert parsed(str(tier)) == [tier]  # as it is written, so it is read
    assert not set(tier.series) & set("/ :+%")


@pytest.mark.parametrize(
    ("name", "ladder"),
    [
        ("5m", "64:256 32:128 16:64 8:32 4:16 2:8"),
        ("100m", "512:all 256:1024 128:512 64:256 32:128 16:64"),
        ("1b", "750:all 512:1200 256:1024 128:512 64:256 32:128"),
    ],
)
def test_ladders_from_the_most_memory_down(name: str, ladder: str):
    assert parsed(name) == [parsed(rung)[0] for rung in ladder.split()]


def test_parts_behind_a_ladder_hold_for_its_rungs():
    assert parsed("5m+4cpus+gp3") == [Tier(t.shared_buffers, t.ram, 4, GP3) for t in parsed("5m")]
    assert [tier.disk for tier in parsed("mini+3000iops+125MBps")] == [
        Disk("3000iops-125MBps", 3000, 125_000_000)
    ] * len(parsed("mini"))


def test_the_order_is_by_memory_and_then_as_written():
    assert [str(tier) for tier in parsed("2:8,gp3,1:8,4:16,nvme,2:8+1cpu")] == [
        *("gp3", "nvme", "4GB:16GB", "2GB:8GB", "1GB:8GB", "2GB:8GB+1cpus")
    ]


def test_the_same_tier_twice_is_one():
    assert parsed("2:8,2GB:8192MB,2:8+1cpu,1cpus+2:8") == [Tier(2 * GB, 8 * GB), Tier(2 * GB, 8 * GB, 1)]
    assert len(parsed("5m,2:8,1b")) == 6 + 6 - 2  # 32:128 and 64:256 are in both


@pytest.mark.parametrize(
    ("text", "element", "what"),
    [
        ("", "", "something is missing: write 2:8"),
        ("5m,,mini", "", "something is missing"),
        ("2:8,1b+", "1b\\+", "something is missing"),
        (
            "mimi",
            "mimi",
            "'mimi' is not known: write 2:8 .*5m, 100m, 1b, mini, short, auto, gp3, gp3-16k, nvme, or 4cpus",
        ),
        ("2", "2", "'2' is not known: write 2:8"),
        ("125Mbps", "125Mbps", "'125Mbps' is not known: .*125MBps"),
        ("2:x", "2:x", "'x' is not a size: write 2:8"),
        ("2:8:9", "2:8:9", "'8:9' is not a size"),
        ("-1:2", "-1:2", "'-1' is not a size"),
        ("1e3:2", "1e3:2", "'1e3' is not a size"),
        ("1:" + "9" * 5000, r"1:9+ \.\.\. 9+", r"'9+ \.\.\. 9+' is not a size"),
        ("9" * 5000 + "iops", r"9+ \.\.\. 9+iops", "not known"),
        ("2:" + "8." + "1" * 60, r"2:8.1+ \.\.\. 1+", "not a size"),
        ("0.3:2", "0.3:2", "'0.3' is not a whole number of MB: write 307MB"),
        ("8:2", "8:2", "shared_buffers must be smaller than RAM: write 2:8"),
        ("2:2048MB", "2:2048MB", "shared_buffers must be smaller"),
        ("all:8", "all:8", "shared_buffers must be smaller"),
        ("8MB:1GB", "8MB:1GB", "shared_buffers is too small: write 16MB:1GB or more"),
        ("0:0", "0:0", "shared_buffers is too small"),
        ("16MB:32MB", "16MB:32MB", "RAM is too small: write 16MB:64MB or more"),
        ("0cpus", "0cpus", "0cpus is too few: write 1cpus or more"),
        ("9iops", "9iops", "9iops is too few: write 10iops or more"),
        ("0MBps", "0MBps", "0MBps is too few"),
        ("5m+2:8", "5m\\+2:8", "two of memory: write 2:8\\+4cpus\\+gp3"),
        ("1cpu+2cpus", "1cpu\\+2cpus", "two of cpus"),
        ("gp3+nvme", "gp3\\+nvme", "two of disk"),
        ("100iops+200iops", "100iops\\+200iops", "two of iops"),
        ("2:8+gp3+125MBps", "2:8\\+gp3\\+125MBps", "two disks: write gp3, or the limits of another"),
    ],
)
def test_mistakes_are_one_line_that_names_the_element(text: str, element: str, what: str):
    with one_line(f"^--tiers: '{element}': .*{what}"):
        parsed(text)


def memory_of(tiers: list[Tier]) -> list[tuple[Any, Any]]:
    return [
        (tier.shared_buffers and tier.shared_buffers // MB, tier.ram and tier.ram // MB) for tier in tiers
    ]


def test_mini_goes_from_everything_to_about_half_the_index():
    assert memory_of(parsed("mini")) == [
        *((4640, None), (2304, 9248), (1152, 4640), (576, 2304), (288, 1152), (160, 576))
    ]  # the index has 1,300 MB


def test_short_leaves_out_the_rung_that_is_as_good_as_all_memory():
    assert memory_of(parsed("short")) == [memory_of(parsed("mini"))[place] for place in (0, -4, -3, -2, -1)]
    assert parsed("short+gp3", memory=1 * GB)[-1].disk == parsed("gp3")[0].disk


def test_auto_has_the_two_largest_rungs_below_the_data_and_none_where_nothing_is_smaller():
    assert memory_of(parsed("auto")) == memory_of(parsed("mini"))[-2:]
    assert parsed("auto", 13_000, 384) == [] and memory_of(parsed("auto", 31_000, 384)) == [(32, 96)]
    assert memory_note(13_000, 384).startswith("memory does not decide below about 31,000 rows: ")


def test_mini_of_the_report_is_its_ladder():
    assert parsed("mini", 5_000_000, 768, 1511 * GB) == [Tier(64 * GB), *parsed("5m")[1:]]


@pytest.mark.parametrize("rows", [1, 1000, 50_000, 300_000])
def test_mini_of_small_data_still_has_a_ladder(rows: int):
    tiers = parsed("mini", rows)
    assert memory_of(tiers)[-1] == (32, 96)
    assert len(tiers) == len({tier.ram for tier in tiers}) == 6


@pytest.mark.parametrize("gigabytes", [2, 8, 24, 1511])
@pytest.mark.parametrize(("rows", "dimension"), [(1000, 8), (2_000_000, 96), (10**9, 96), (10**8, 768)])
def test_mini_fits_the_machine(rows: int, dimension: int, gigabytes: int):
    tiers = parsed("mini", rows, dimension, gigabytes * GB)
    assert len(set(tiers)) == len(tiers) >= 3
    assert tiers[0].ram is None
    for tier in tiers:
        assert tier.shared_buffers and tier.shared_buffers % (32 * MB) == 0
        assert tier.shared_buffers < (tier.ram or gigabytes * GB)
        assert (tier.ram or 0) <= 0.75 * gigabytes * GB
        assert parsed(str(tier)) == [tier]


def test_the_machine_at_hand_is_what_mini_is_made_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parse, "memory_bytes", lambda: 8 * GB)
    assert parse_tiers("mini", ROWS, DIMENSION) == parsed("mini", memory=8 * GB)
    assert len(parsed("mini", memory=8 * GB)) < len(parsed("mini"))


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """22.1 GB are available, on 2 CPUs."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=int(22.1 * GB)))
    monkeypatch.setattr(parse, "memory_bytes", lambda: 24 * GB)
    monkeypatch.setattr(parse, "usable_cores", lambda: 2)


@pytest.mark.usefixtures("small_machine")
def test_what_the_machine_holds():
    check_capacity(parsed("2:8,4:22,8:all,2cpus,gp3,nvme"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "5m",
            "22.1 GB of memory available: leave out 64GB:256GB, 32GB:128GB, 16GB:64GB, 8GB:32GB, or use mini",
        ),
        ("2:8,64:all", "22.1 GB of memory available: leave out 64GB:all, or use mini"),
        ("4cpus,2:8+3cpus", "2 CPUs: leave out 4cpus, 2GB:8GB+3cpus"),
        (
            "2:23+8cpus",
            "22.1 GB of memory available: leave out 2GB:23GB+8cpus, or use mini; "
            "and 2 CPUs: leave out 2GB:23GB+8cpus",
        ),
    ],
)
@pytest.mark.usefixtures("small_machine")
def test_all_that_it_cannot_hold_is_said_at_once(text: str, said: str):
    with pytest.raises(UserError) as error:
        check_capacity(parsed(text))
    assert str(error.value) == f"--tiers: this machine has {said}"


@pytest.mark.usefixtures("small_machine")
def test_huge_pages_leave_the_system_what_it_needs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parse, "system_reserve", lambda: 512 * MB)
    tiers = parsed("64MB:256MB,256MB:512MB,128MB:480MB")
    check_capacity(tiers, "cgroup")
    with pytest.raises(UserError, match="512 MB .*: leave out 128MB:480MB, 64MB:256MB, or .*-method cgroup"):
        check_capacity(tiers, "hugepages")


@pytest.mark.usefixtures("small_machine")
def test_a_container_with_less_memory_than_its_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parse, "memory_bytes", lambda: 6 * GB)
    with pytest.raises(UserError, match="has 6.0 GB of memory available: leave out 2GB:8GB, or use mini"):
        check_capacity(parsed("2:8,1:4"))

"""What is sampled while a job goes on, how it is stored, and that nothing of it can harm a run."""

import json
import os
import threading
import time

import h5py
import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.monitoring import Monitor, machine, read_monitoring
from ann_benchmarks.monitoring.monitor import MOST_SAMPLES, Recording, Sample, Stretch
from ann_benchmarks.monitoring.stored import Monitored, group_writer, monitored
from ann_benchmarks.results.file import write_result
from ann_benchmarks.views.monitoring import activity_table, curve_points

from .programs import until


class Clock:
    """A server whose one counter is its clock."""

    levels = frozenset({"server.level"})
    is_local = True

    def __init__(self):
        self.closed = False

    def sample(self):
        return {"server.ticks": 1000 * time.perf_counter(), "server.level": 7}

    def close(self):
        self.closed = True


def stretch(phase, *samples):
    made = Stretch(phase, 1)
    made.samples = [Sample(*sample) for sample in samples]
    return made


def stored(path, what):
    write_result(path, {"best_search_time": 1, "count": 1, "name": "x"}, np.ones(1), np.ones((1, 1)),
                 np.ones((1, 1)), {"monitoring": group_writer(what)})  # fmt: skip
    return read_monitoring(path)


def test_a_rate_of_two_samples_is_a_line():
    points = curve_points(np.array([1.0, 2.0, 5.0, 6.0]), np.array([np.nan, 7.0, np.nan, 9.0]))
    drawn = [(one.x, one.y) for one in points if not np.isnan(one.y)]
    assert drawn == [(1.0, 7.0), (2.0, 7.0), (5.0, 9.0), (6.0, 9.0)]
    assert np.isnan([one.y for one in points]).sum() == 2  # gaps stay


def test_phases_are_told_apart_and_their_rates_are_their_own():
    server, began = Clock(), time.perf_counter()
    monitor = Monitor(server, interval=0.05)
    monitor.enter("load")
    time.sleep(0.3)
    with monitor.phase("build"):
        time.sleep(0.15)
        with monitor.phase("prewarm"):
            time.sleep(0.12)
    time.sleep(0.15)
    monitor.enter("end")
    recording = monitor.cut()
    monitor.close()
    seen = monitored(recording)
    assert [phase for phase, _ in seen.stretches()] == ["load", "build", "prewarm", "load"]
    took = 0.0
    for (_, place), seconds in zip(seen.stretches(), (0.3, 0.15, 0.12, 0.15), strict=True):
        rates, times = seen.columns["server.ticks"][place], seen.seconds[place]
        took += times[-1] - times[0]
        assert times[-1] - times[0] > 0.9 * seconds
        assert np.isnan(rates[0])
        assert np.average(rates[1:], weights=np.diff(times)) == pytest.approx(1000, rel=0.5)
        assert (seen.columns["server.level"][place] == 7).all()
    assert took < time.perf_counter() - began
    assert server.closed
    assert 0 < recording.cpu_seconds < 0.7
    assert seen.units["server.ticks"] == "1/s"
    assert seen.units["server.level"] == ""


def test_nothing_of_this_machine_is_told_of_a_remote_server():
    server = Clock()
    server.is_local = False
    monitor = Monitor(server, interval=0.05)
    with monitor.phase("measure"):
        time.sleep(0.2)
    seen = monitored(monitor.cut())
    monitor.close()
    assert set(seen.columns) == {"server.ticks", "server.level"}
    assert seen.attrs["is_local"] is False


def test_a_server_that_does_not_answer_holds_up_no_phase_for_long():
    class Stuck(Clock):
        answers = threading.Event()

        def sample(self):
            self.answers.wait(300)
            return super().sample()

    server = Stuck()
    monitor = Monitor(server)
    began = time.perf_counter()
    monitor.enter("measure")
    assert time.perf_counter() - began < 60
    assert monitor.cut().stretches == []
    if hasattr(os, "fork"):  # nor a fork, in which nothing of the sample is held
        began = time.perf_counter()
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert time.perf_counter() - began < 60
    server.answers.set()

    def is_sampled_again():
        with monitor.phase("again"):
            time.sleep(0.15)
        return "again" in [stretch.phase for stretch in monitor.cut().stretches]

    until(is_sampled_again)
    monitor.close()


def test_a_server_that_raises_costs_only_what_it_would_have_told():
    class Broken(Clock):
        def sample(self):
            raise ZeroDivisionError

    monitor = Monitor(Broken(), interval=0.05)
    with monitor.phase("measure"):
        time.sleep(0.15)
    assert "machine.memory_used_bytes" in monitored(monitor.cut()).columns
    monitor.close()


def test_a_long_phase_keeps_few_samples_from_its_begin_to_its_end():
    long = Stretch("build", 1.0, Sample(0.0, {"c": 0.0}))
    second = 0.0
    while second < 100_000:
        second += long.interval
        long.add(Sample(second, {"c": 3 * second}))
    assert MOST_SAMPLES / 2 <= len(long.samples) <= MOST_SAMPLES
    assert (long.samples[0].seconds, long.samples[-1].seconds) == (0, second)
    seen = monitored(Recording([long]))
    assert seen.columns["c"][1:] == pytest.approx(3)
    assert np.diff(seen.seconds).max() <= 2 * np.diff(seen.seconds)[:-1].min()
    assert Recording([long, stretch("other", (0, {}), (1, {}))]).named.stretches == [long]


def test_what_is_counted_anew_and_what_is_unknown_is_no_number():
    samples = [
        (0, {"c": 5.0}),
        (2, {"c": 9.0}),
        (3, {"c": 1.0, "new": 1.0}),
        (4, {"c": 2.0, "new": 4.0}),
        (5,),
    ]
    seen = monitored(Recording([stretch("measure", *samples)]))
    assert seen.columns["c"] == pytest.approx([np.nan, 2, np.nan, 1, np.nan], nan_ok=True)
    assert seen.columns["new"] == pytest.approx([np.nan, np.nan, np.nan, 3, np.nan], nan_ok=True)


def test_cores_become_shares():
    before, now = np.array([[1.0, 0, 0, 10], [5, 0, 0, 10]]), np.array([[1.5, 0.5, 0, 12], [7, 0, 0, 12]])
    seen = monitored(Recording([stretch("a", (0, {}, {}, before), (2, {}, {}, now))]))
    shares = {name.split(".")[1]: column[1] for name, column in seen.columns.items()}
    assert shares == {"cpu_percent": 62.5, "iowait_percent": 12.5, "busiest_core_percent": 100}


def test_it_is_stored_and_read_and_old_files_have_none(tmp_path):
    samples = [(i, {"disk.sda.read_bytes": 1e6 * i, "swap": 0.0}, {"a.cpu_sessions": 2}) for i in range(300)]
    what = monitored(Recording([stretch("build", *samples), stretch("measure", (400,), (402,))], 0.25))
    path = tmp_path / "point.hdf5"
    read = stored(path, what)
    assert read.phases == ["build", "measure"]
    assert read.stretches() == [("build", slice(0, 300)), ("measure", slice(300, 302))]
    assert set(read.columns) == {"disk.sda.read_bytes", "a.cpu_sessions"}  # what stayed 0 is left out
    assert read.columns["disk.sda.read_bytes"][1:300] == pytest.approx(1e6)
    assert read.units == {"disk.sda.read_bytes": "bytes/s", "a.cpu_sessions": "sessions"}
    assert read.attrs == {"monitoring_cpu_seconds": 0.25}
    with h5py.File(path) as file:
        group = file["monitoring"]
        assert json.loads(group.attrs["phases"]) == ["build", "measure"]
        assert (group["seconds"].dtype, group["phase"].dtype) == (np.float64, np.int8)
        assert group["a.cpu_sessions"].dtype == np.float32
    with h5py.File(path, "a") as file:
        del file["monitoring"]
    assert read_monitoring(path) is None
    path.write_bytes(b"no result")
    with pytest.raises(UserError, match=r"point.hdf5 cannot be read"):
        read_monitoring(path)


def test_disks_are_counted_once(tmp_path, monkeypatch):
    for name in ("sda", "sda/sda1", "dm-0/slaves/sda", "md0/slaves", "loop0", "zram0"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(machine, "_BLOCK_DEVICES", tmp_path)
    machine.is_disk.cache_clear()
    names = ("sda", "sda1", "dm-0", "md0", "loop0", "zram0")
    try:
        assert [name for name in names if machine.is_disk(name)] == ["sda", "md0"]
    finally:
        machine.is_disk.cache_clear()


def test_the_network_is_that_of_devices(tmp_path, monkeypatch):
    (tmp_path / "eth0" / "device").mkdir(parents=True)
    monkeypatch.setattr(machine, "_INTERFACES", tmp_path)
    machine.network_interfaces.cache_clear()
    try:
        assert machine.network_interfaces(("lo", "eth0", "docker0")) == ("eth0",)
        assert machine.network_interfaces(("lo", "veth1")) == ("veth1",)
    finally:
        machine.network_interfaces.cache_clear()


def test_pages_of_numa_nodes_are_counted_where_there_are_several(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_NODES", tmp_path)
    for number in range(2):
        assert machine.numa_pages() == {}
        (tmp_path / f"node{number}").mkdir()
        (tmp_path / f"node{number}" / "numastat").write_text(
            f"numa_hit 9\nnuma_miss {number}\nother_node 3\n"
        )
    assert machine.numa_pages() == {"machine.numa_misplaced_pages": 1, "machine.numa_remote_pages": 6}
    assert machine.totals().items() >= machine.numa_pages().items()


def test_activity_is_the_mean_over_the_time_of_each_phase():
    nan = np.nan
    sampled = Monitored(
        np.array([0.0, 1, 4, 4, 6, 6, 8]), np.array([0, 0, 0, 1, 1, 0, 0]), ["load", "build"], [0, 3, 5],
        {
            "machine.cpu_percent": np.array([nan, 90, 10, nan, 50, nan, 60]),  # (90 + 3 * 10 + 2 * 60) / 6
            "disk.sda.read_bytes": np.array([nan, 2**20, 2**20, nan, 0, nan, 2**20]),
            "disk.sdb.read_bytes": np.array([nan, 0, 0, nan, 2**21, nan, 0]),
            "postgresql.lock_sessions": np.array([1, 1, 1, nan, nan, 1, 1]),
            "postgresql.lwlock_sessions": np.array([0, 0, 2, nan, nan, 0, 0]),
        },
        {},
    )  # fmt: skip
    table = activity_table(sampled, "")
    assert table.columns == ("Phase", "Seconds", "CPU (%)", "Read (MB/s)", "For locks")
    assert table.rows == [
        ("load", "6.000", "40.00", "1.000", "2.000"), ("build", "2.000", "50.00", "2.000", "-")
    ]  # fmt: skip

"""Prices of one provider at one date, and the cheapest of its instances that has what a server needs.

docs/prices.md has the format of their files; a mistake is named with its line. Sizes are in GB of 2^30 bytes,
bandwidths in MB/s of 10^6 bytes a second, prices in the currency of the list.
"""

import datetime
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.layout import find_file
from ann_benchmarks.common.numbers import GB, plain_number, size_text
from ann_benchmarks.common.yaml_file import Where, YamlFile

LOCAL = "local disk"
# By ISO 4217; those without a symbol of their own are written by their code.
_BY_CODE = """AUD BRL CAD CHF CNY CZK DKK HKD HUF IDR ILS INR JPY KRW MXN MYR NOK NZD PHP PLN RON SEK SGD THB
    TRY TWD UAH VND ZAR"""
CURRENCIES = {"USD": "$", "EUR": "€", "GBP": "£"} | dict.fromkeys(_BY_CODE.split(), "")
HOURS = 730.0  # of a month: 365 days in 12 parts
_KEYS = ("label", "source", "date", "currency", "per", "hours_a_month", "instances", "storage", "notes")
_OPTIONAL = ("hours_a_month", "storage", "notes")
_INSTANCE_KEYS = ("name", "vcpus", "memory", "price", "local_storage", "local_iops", "local_throughput")
_STORAGE_KEYS = ("name", "price", "included_iops", "included_throughput", "most_iops", "most_throughput",
                 "iops_price", "throughput_price", "least_size", "most_size")  # fmt: skip
_LONGEST, _LARGEST, _SMALLEST = 300, 1e9, 1e-9  # characters of a text; numbers


@dataclass(frozen=True)
class Capacity:
    """What a server must have: CPUs, bytes of memory, bytes on disk, and the speed of the disk.

    `iops` are operations a second and `bandwidth` is in bytes a second; None: nothing is known of it.
    """

    cpus: int
    memory: int
    storage: int
    iops: int | None = None
    bandwidth: int | None = None

    @property
    def gigabytes(self) -> int:
        """The whole GB that are to be bought."""
        return math.ceil(self.storage / GB)

    @property
    def megabytes_a_second(self) -> float | None:
        """The bandwidth in MB/s."""
        return None if self.bandwidth is None else self.bandwidth / 1e6


@dataclass(frozen=True)
class Performance:
    """Operations a second and MB/s of a disk; None: not stated."""

    iops: float | None = None
    throughput: float | None = None


@dataclass(frozen=True)
class Volume:
    """An amount of storage, with the operations and MB/s that are paid for beyond those included."""

    name: str
    gigabytes: float
    price: float  # a month
    more: Performance = Performance()


@dataclass(frozen=True)
class Instance:
    """A machine to rent. `local` is the size of a disk that its price includes, 0: none."""

    name: str
    vcpus: int
    memory: float
    price: float  # a month
    local: float = 0.0
    local_speed: Performance = Performance()

    def has(self, needed: Capacity) -> bool:
        """Whether its CPUs and memory suffice."""
        return self.vcpus >= needed.cpus and self.memory * GB >= needed.memory


@dataclass(frozen=True)
class Storage:
    """Storage to rent: the price of a GB, what it includes, the most there is, and prices of more."""

    name: str
    price: float  # a GB and month
    included: Performance = Performance()
    most: Performance = Performance()
    prices: Performance = Performance()  # of an operation a second, and of one MB/s, a month
    least_size: float = 0.0
    most_size: float = math.inf

    def volume(self, needed: Capacity) -> Volume | None:
        """Return what has to be rented of it, None where it does not suffice."""
        size = max(needed.gigabytes, self.least_size)
        iops = _more(needed.iops, self.included.iops, self.most.iops, self.prices.iops)
        throughput = _more(
            needed.megabytes_a_second, self.included.throughput, self.most.throughput, self.prices.throughput
        )
        if size > self.most_size or iops is None or throughput is None:
            return None
        paid = iops * (self.prices.iops or 0) + throughput * (self.prices.throughput or 0)
        return Volume(self.name, size, size * self.price + paid, Performance(iops, throughput))


@dataclass(frozen=True)
class Quote:
    """What a server costs: an instance and its storage."""

    instance: Instance
    volume: Volume

    @property
    def price(self) -> float:
        """The price of a month."""
        return self.instance.price + self.volume.price


@dataclass(frozen=True)
class PriceList:
    """Prices of one provider, as stated by a source at a date. A month has `hours`."""

    path: Path
    label: str
    source: str
    date: str  # YYYY-MM-DD
    currency: str
    hours: float
    instances: Sequence[Instance]
    storage: Sequence[Storage] = ()
    notes: Sequence[str] = ()

    def quote(self, needed: Capacity) -> Quote:
        """Return the cheapest instance with storage that suffices; UserError says what is lacking."""
        fitting = [instance for instance in self.instances if instance.has(needed)]
        if not fitting:
            cpus = f"{needed.cpus} CPU{'s' * (needed.cpus > 1)}"
            raise UserError(f"no instance has {cpus} and {size_text(needed.memory)}")
        quotes = [Quote(one, volume) for one in fitting for volume in self._volumes(one, needed)]
        if not quotes:
            raise UserError(self._lacking(needed, fitting))
        return min(quotes, key=lambda quote: quote.price)

    def money(self, amount: float) -> str:
        """Write an amount of money."""
        symbol = CURRENCIES[self.currency] or f"{self.currency} "
        return f"{symbol}{amount:,.2f}"

    def _volumes(self, instance: Instance, needed: Capacity) -> Iterator[Volume]:
        speed = instance.local_speed
        limits = (needed.iops, speed.iops), (needed.megabytes_a_second, speed.throughput)
        if instance.local >= needed.gigabytes and all(_more(*limit) == 0 for limit in limits):
            yield Volume(LOCAL, instance.local, 0.0)
        for storage in self.storage:
            if volume := storage.volume(needed):
                yield volume

    def _lacking(self, needed: Capacity, fitting: Sequence[Instance]) -> str:
        if not self.storage and not any(instance.local for instance in fitting):
            return "the prices have no storage"
        sizes = [*(one.most_size for one in self.storage), *(one.local for one in fitting)]
        if max(sizes) < needed.gigabytes:
            return f"no storage has {needed.gigabytes:,} GB"
        speeds = [] if needed.iops is None else [f"{needed.iops:,} I/O operations/s"]
        if needed.megabytes_a_second is not None:
            speeds.append(f"{plain_number(needed.megabytes_a_second)} MB/s")
        return f"no storage of {needed.gigabytes:,} GB is stated to have {' and '.join(speeds)}"


def _more(
    needed: float | None, included: float | None, most: float | None = None, price: float | None = None
) -> float | None:
    """Return how much is to be paid for beyond what is included, None where that is not to be had."""
    if needed is None or (included is not None and needed <= included):
        return 0.0
    if included is None or price is None or (most is not None and needed > most):
        return None
    return needed - included


def read_prices(path: Path) -> PriceList:
    """Read a file of prices; UserError names the line of a mistake."""
    return PriceFile(find_file(path), ", ".join(_KEYS)).price_list()


class PriceFile(YamlFile):
    """Turns what one file holds into a list of prices."""

    def price_list(self) -> PriceList:
        """Read the whole file."""
        root = self.content
        self.mapping((), root, "the file of prices", _KEYS, [key for key in _KEYS if key not in _OPTIONAL])
        self.member(("currency",), root["currency"], "currency", CURRENCIES)
        self.member(("per",), root["per"], "unit of time", ("hour", "month"))
        hours = self.number(("hours_a_month",), root.get("hours_a_month", HOURS))
        if not 600 <= hours <= 744:
            self.fail(("hours_a_month",), f"a month has 600 to 744 hours, not {hours:g}")
        instances = [self.instance(*entry) for entry in self.entries("instances", _INSTANCE_KEYS, 4)]
        if not instances:
            self.fail(("instances",), "'instances' must not be empty: name one at least")
        if root["per"] == "hour":
            instances = [replace(instance, price=instance.price * hours) for instance in instances]
        notes = self.checked(("notes",), root.get("notes", []), list)
        return PriceList(
            path=self.path,
            label=self.text(("label",), root["label"]),
            source=self.text(("source",), root["source"]),
            date=self.date(("date",), root["date"]),
            currency=root["currency"],
            hours=hours,
            instances=instances,
            storage=[self.storage(*entry) for entry in self.entries("storage", _STORAGE_KEYS, 2)],
            notes=[self.text(("notes", place), note) for place, note in enumerate(notes)],
        )

    def entries(
        self, key: str, known: Sequence[str], required: int
    ) -> Iterator[tuple[Where, str, dict[str, float]]]:
        """Yield the entries of a list: place, name and numbers; refuse a name that stands there twice."""
        names = set()
        for place, entry in enumerate(self.checked((key,), self.content.get(key, []), list)):
            where: Where = (key, place)
            self.mapping(where, entry, f"an entry of '{key}'", known, known[:required])
            name = self.text((*where, "name"), entry["name"])
            if name in names:
                self.fail((*where, "name"), f"'{name:.60}' stands in '{key}' a second time")
            names.add(name)
            yield (
                where,
                name,
                {one: self.number((*where, one), entry[one]) for one in known[1:] if one in entry},
            )

    def instance(self, where: Where, name: str, has: dict[str, float]) -> Instance:
        """Return an instance, with its price as it stands there."""
        if not has["vcpus"].is_integer():
            self.fail((*where, "vcpus"), f"'vcpus' must be a whole number, not {has['vcpus']:g}")
        speed = Performance(has.get("local_iops"), has.get("local_throughput"))
        local = has.get("local_storage", 0.0)
        if not local and speed != Performance():
            self.fail(where, "'local_iops' and 'local_throughput' are of a local disk: add 'local_storage'")
        return Instance(name, int(has["vcpus"]), has["memory"], has["price"], local, speed)

    def storage(self, where: Where, name: str, has: dict[str, float]) -> Storage:
        """Return storage, whose prices are for a month."""
        included, most, prices = (
            Performance(has.get(iops), has.get(throughput))
            for iops, throughput in zip(_STORAGE_KEYS[2:8:2], _STORAGE_KEYS[3:8:2], strict=True)
        )
        sizes = has.get("least_size", 0.0), has.get("most_size", math.inf)
        if sizes[0] > sizes[1]:
            self.fail((*where, "least_size"), "'least_size' is larger than 'most_size'")
        return Storage(name, has["price"], included, most, prices, *sizes)

    def number(self, where: Where, value: Any) -> float:
        """Return a number above 0, or 0 where nothing may be included."""
        key, value = where[-1], float(self.checked(where, value, float))
        with_zero = str(key).startswith("included")
        if not (_SMALLEST <= value <= _LARGEST or (with_zero and value == 0)):
            least = "a number from 0 on" if with_zero else "a number above 0"
            self.fail(where, f"'{key}' must be {least}, and up to {_LARGEST:,.0f}, not {value:g}")
        return value

    def date(self, where: Where, value: Any) -> str:
        """Return a day that is not in the future."""
        text = self.text(where, value)
        try:
            day = datetime.datetime.strptime(text, "%Y-%m-%d").date()
        except ValueError:
            self.fail(where, f"'{text:.40}' is not a date: write the day of these prices, as \"2026-08-07\"")
        if day > datetime.date.today():
            self.fail(where, f"{day} is in the future: write the day of these prices")
        return day.isoformat()

    def text(self, where: Where, value: Any) -> str:
        """Return a text on one line; refuse an empty, a long or an unprintable one."""
        text = " ".join(self.checked(where, value, str).split())
        for is_so, problem in (
            (not text, "must not be empty"),
            (len(text) > _LONGEST, f"has more than {_LONGEST} characters"),
            (not text.isprintable(), "holds characters that cannot be printed"),
        ):
            if is_so:
                self.fail(where, f"'{where[-1]}' {problem}")
        return text

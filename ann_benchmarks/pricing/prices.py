"""Prices of one provider at one date, and the cheapest of its instances that has what a server needs.

docs/prices.md has the format of their files; a mistake is named with its line. Sizes are in GB of 2^30 bytes,
bandwidths in MB/s of 10^6 bytes a second, prices in the currency of the list.
"""

import datetime
import math
import re
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.layout import find_file
from ann_benchmarks.common.numbers import GB, plain_number, size_text
from ann_benchmarks.common.yaml_file import Where, YamlFile

LOCAL = "local disk"
SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£"}  # others are written by their code
HOURS = 730.0  # of a month: 365 days in 12 parts
_KEYS = ("label", "source", "date", "currency", "per", "hours_a_month", "instances", "storage", "notes")
_OPTIONAL = ("hours_a_month", "storage", "notes")
_LARGEST, _SMALLEST = 1e9, 1e-9  # numbers


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
class Volume:
    """An amount of storage, with the operations and MB/s that are paid for beyond those included."""

    name: str
    gigabytes: float
    price: float  # a month
    more_iops: float = 0.0
    more_throughput: float = 0.0


@dataclass(frozen=True)
class Instance:
    """A machine to rent, by the keys of its entry; the size of a local disk is 0 where it has none."""

    name: str
    vcpus: int
    memory: float
    price: float  # a month
    local_storage: float = 0.0
    local_iops: float | None = None
    local_throughput: float | None = None

    def volume(self, needed: Capacity) -> Volume | None:
        """Return its local disk, None where that does not suffice."""
        limits = (needed.iops, self.local_iops), (needed.megabytes_a_second, self.local_throughput)
        suffices = self.local_storage >= needed.gigabytes and all(_more(*limit) == 0 for limit in limits)
        return Volume(LOCAL, self.local_storage, 0.0) if suffices else None


@dataclass(frozen=True)
class Storage:
    """Storage to rent, by the keys of its entry: the price of a GB, what it includes, and prices of more."""

    name: str
    price: float  # a GB and month
    included_iops: float | None = None
    included_throughput: float | None = None
    most_iops: float | None = None
    most_throughput: float | None = None
    iops_price: float | None = None  # of one operation a second, a month
    throughput_price: float | None = None  # of one MB/s, a month
    least_size: float = 0.0
    most_size: float = math.inf

    def volume(self, needed: Capacity) -> Volume | None:
        """Return what has to be rented of it, None where it does not suffice."""
        size = max(needed.gigabytes, self.least_size)
        iops = _more(needed.iops, self.included_iops, self.most_iops, self.iops_price)
        throughput = _more(
            needed.megabytes_a_second, self.included_throughput, self.most_throughput, self.throughput_price
        )
        if size > self.most_size or iops is None or throughput is None:
            return None
        paid = iops * (self.iops_price or 0) + throughput * (self.throughput_price or 0)
        return Volume(self.name, size, size * self.price + paid, iops, throughput)


Entry = TypeVar("Entry", Instance, Storage)


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
    """Prices of one provider, as stated by a source at a date."""

    path: Path
    label: str
    source: str
    date: str  # YYYY-MM-DD
    currency: str
    instances: Sequence[Instance]
    storage: Sequence[Storage] = ()
    notes: Sequence[str] = ()

    def quote(self, needed: Capacity) -> Quote:
        """Return the cheapest instance with storage that suffices; UserError says what is lacking."""
        fitting = [
            one for one in self.instances if one.vcpus >= needed.cpus and one.memory * GB >= needed.memory
        ]
        if not fitting:
            cpus = f"{needed.cpus} CPU{'s' * (needed.cpus > 1)}"
            raise UserError(f"no instance has {cpus} and {size_text(needed.memory)}")
        disks = (
            (one, [one.volume(needed), *(each.volume(needed) for each in self.storage)]) for one in fitting
        )
        quotes = [Quote(one, volume) for one, volumes in disks for volume in volumes if volume is not None]
        if not quotes:
            speeds = [] if needed.iops is None else [f"{needed.iops:,} I/O operations/s"]
            if needed.megabytes_a_second is not None:
                speeds.append(f"{plain_number(needed.megabytes_a_second)} MB/s")
            raise UserError(f"no storage has {', '.join([f'{needed.gigabytes:,} GB', *speeds])}")
        return min(quotes, key=lambda quote: quote.price)

    def money(self, amount: float) -> str:
        """Write an amount of money."""
        return f"{SYMBOLS.get(self.currency, f'{self.currency} ')}{amount:,.2f}"


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
        if not re.fullmatch("[A-Z]{3}", currency := self.line(("currency",), root["currency"])):
            self.fail(("currency",), f"'{shown(currency)}' must be a currency by ISO 4217, such as USD")
        self.member(("per",), root["per"], "unit of time", ("hour", "month"))
        hours = self.number(("hours_a_month",), root.get("hours_a_month", HOURS))
        if not 600 <= hours <= 744:
            self.fail(("hours_a_month",), f"a month has 600 to 744 hours, not {hours:g}")
        instances, storage = self.entries("instances", Instance), self.entries("storage", Storage)
        if not instances:
            self.fail(("instances",), "'instances' must not be empty: name one at least")
        times = hours if root["per"] == "hour" else 1.0
        notes = self.checked(("notes",), root.get("notes", []), list)
        return PriceList(
            path=self.path,
            label=self.line(("label",), root["label"]),
            source=self.line(("source",), root["source"]),
            date=self.date(("date",), root["date"]),
            currency=currency,
            instances=[replace(one, vcpus=int(one.vcpus), price=one.price * times) for one in instances],
            storage=storage,
            notes=[self.line(("notes", place), note) for place, note in enumerate(notes)],
        )

    def entries(self, key: str, kind: type[Entry]) -> list[Entry]:
        """Read the entries of a list: a name that stands there once, and numbers."""
        known = fields(kind)
        found: dict[str, Entry] = {}
        for place, entry in enumerate(self.checked((key,), self.content.get(key, []), list)):
            where: Where = (key, place)
            required = [one.name for one in known if one.default is MISSING]
            self.mapping(where, entry, f"an entry of '{key}'", [one.name for one in known], required)
            name = self.line((*where, "name"), entry["name"])
            if name in found:
                self.fail((*where, "name"), f"'{name:.60}' stands in '{key}' a second time")
            values: dict[str, Any] = {
                one: self.number((*where, one), value) for one, value in entry.items() if one != "name"
            }
            found[name] = kind(name=name, **values)
        return list(found.values())

    def number(self, where: Where, value: Any) -> float:
        """Return a number above 0, or 0 where nothing may be included."""
        key, value = where[-1], float(self.checked(where, value, float))
        if key == "vcpus" and not value.is_integer():
            self.fail(where, f"'vcpus' must be a whole number, not {value:g}")
        with_zero = str(key).startswith("included")
        if not (_SMALLEST <= value <= _LARGEST or (with_zero and value == 0)):
            least = "a number from 0 on" if with_zero else "a number above 0"
            self.fail(where, f"'{key}' must be {least}, and up to {_LARGEST:,.0f}, not {value:g}")
        return value

    def date(self, where: Where, value: Any) -> str:
        """Return a day that is not in the future."""
        text = self.line(where, value)
        try:
            day = datetime.datetime.strptime(text, "%Y-%m-%d").date()
        except ValueError:
            self.fail(where, f"'{text:.40}' is not a date: write the day of these prices, as \"2026-08-07\"")
        if day > datetime.date.today():
            self.fail(where, f"{day} is in the future: write the day of these prices")
        return day.isoformat()

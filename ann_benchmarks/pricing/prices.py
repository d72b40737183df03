"""Prices of one provider at one date, and the cheapest of its instances that has what a server needs.

Sizes are in GB of 2^30 bytes, bandwidths in MB/s of 10^6 bytes a second, prices in the currency of the list.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import GB, plain_number, size_text

LOCAL = "local disk"
# By ISO 4217; those without a symbol of their own are written by their code.
_BY_CODE = ("AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "HKD", "HUF", "IDR", "ILS", "INR", "JPY", "KRW",
            "MXN", "MYR", "NOK", "NZD", "PHP", "PLN", "RON", "SEK", "SGD", "THB", "TRY", "TWD", "UAH", "VND",
            "ZAR")  # fmt: skip
CURRENCIES = {"USD": "$", "EUR": "€", "GBP": "£"} | dict.fromkeys(_BY_CODE, "")


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
        """Return the cheapest instance with storage that suffices; UserError says why there is none."""
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

    @property
    def seconds(self) -> float:
        """The seconds of a month."""
        return 3600 * self.hours

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

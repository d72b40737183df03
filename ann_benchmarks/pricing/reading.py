"""Files of prices, read and checked; a mistake is named with its file and line.

docs/prices.md has the format.
"""

import datetime
import math
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.yaml_file import Where, YamlFile
from ann_benchmarks.load.request import Objective

from .prices import CURRENCIES, Instance, Performance, PriceList, Storage
from .target import CostRequest

HOURS = 730.0  # of a month: 365 days in 12 parts
_KEYS = ("label", "source", "date", "currency", "per", "hours_a_month", "instances", "storage", "notes")
_OPTIONAL = ("hours_a_month", "storage", "notes")
_PER = ("hour", "month")
_OF_INSTANCES = ("name", "vcpus", "memory", "price", "local_storage", "local_iops", "local_throughput")
_OF_STORAGE = ("name", "price", "included_iops", "included_throughput", "iops_price", "throughput_price",
               "most_iops", "most_throughput", "least_size", "most_size")  # fmt: skip
_LONGEST = 300  # characters of a text
_LARGEST = 1e9
_SMALLEST = 1e-9


def read_prices(path: Path) -> PriceList:
    """Read a file of prices; UserError names the line of a mistake."""
    return PriceFile(path, ", ".join(_KEYS)).price_list()


def cost_request(prices: Path | None, latency: Objective | None, rate: float | None) -> CostRequest | None:
    """Return what servers are priced with, None without prices; UserError for an objective without any."""
    if prices is not None:
        return CostRequest(read_prices(prices), latency, rate)
    if latency is not None or rate is not None:
        option = "--slo" if latency is not None else "--target-rate"
        raise UserError(f"{option} says what a server must achieve that is priced: add --prices FILE")
    return None


class PriceFile(YamlFile):
    """Turns what one file holds into a list of prices."""

    def price_list(self) -> PriceList:
        """Read the whole file."""
        root = self.content
        self.mapping((), root, "the file of prices", _KEYS, [key for key in _KEYS if key not in _OPTIONAL])
        self.member(("currency",), root["currency"], "currency", CURRENCIES)
        self.member(("per",), root["per"], "unit of time", _PER)
        hours = self.number((), root, "hours_a_month", HOURS)
        if not 600 <= hours <= 744:
            self.fail(("hours_a_month",), f"a month has 600 to 744 hours, not {hours:g}")
        instances = self.entries("instances", root, _OF_INSTANCES, _OF_INSTANCES[:4])
        if not instances:
            self.fail(("instances",), "'instances' must not be empty: name one at least")
        notes = self.checked(("notes",), root.get("notes", []), list)
        times = hours if root["per"] == "hour" else 1.0
        return PriceList(
            path=self.path,
            label=self.text(("label",), root["label"]),
            source=self.text(("source",), root["source"]),
            date=self.date(("date",), root["date"]),
            currency=root["currency"],
            hours=hours,
            instances=[self.instance(where, entry, times) for where, entry in instances],
            storage=[
                self.storage(where, entry)
                for where, entry in self.entries("storage", root, _OF_STORAGE, _OF_STORAGE[:2])
            ],
            notes=[self.text(("notes", place), note) for place, note in enumerate(notes)],
        )

    def entries(
        self, key: str, root: dict[str, Any], known: tuple[str, ...], required: tuple[str, ...]
    ) -> list[tuple[Where, dict[str, Any]]]:
        """Return the entries of a list with their places; refuse a name that stands there twice."""
        found: dict[str, tuple[Where, dict[str, Any]]] = {}
        for place, entry in enumerate(self.checked((key,), root.get(key, []), list)):
            where: Where = (key, place)
            self.mapping(where, entry, f"an entry of '{key}'", known, required)
            name = self.text((*where, "name"), entry["name"])
            if name in found:
                self.fail((*where, "name"), f"'{name:.60}' stands in '{key}' a second time")
            found[name] = where, entry
        return list(found.values())

    def instance(self, where: Where, entry: dict[str, Any], times: float) -> Instance:
        """Read an instance; `times` its price is that of a month."""
        vcpus = self.number(where, entry, "vcpus")
        if not vcpus.is_integer():
            self.fail((*where, "vcpus"), f"'vcpus' must be a whole number, not {vcpus:g}")
        if entry.get("local_storage") is None and ("local_iops" in entry or "local_throughput" in entry):
            self.fail(where, "'local_iops' and 'local_throughput' are of a local disk: add 'local_storage'")
        return Instance(
            name=self.text((*where, "name"), entry["name"]),
            vcpus=int(vcpus),
            memory=self.number(where, entry, "memory"),
            price=self.number(where, entry, "price") * times,
            local=self.number(where, entry, "local_storage", 0.0),
            local_speed=self.speed(where, entry, "local_iops", "local_throughput"),
        )

    def storage(self, where: Where, entry: dict[str, Any]) -> Storage:
        """Read storage, whose prices are for a month."""
        least = self.number(where, entry, "least_size", 0.0)
        most = self.number(where, entry, "most_size", math.inf)
        if least > most:
            self.fail((*where, "least_size"), "'least_size' is larger than 'most_size'")
        return Storage(
            name=self.text((*where, "name"), entry["name"]),
            price=self.number(where, entry, "price"),
            included=self.speed(where, entry, "included_iops", "included_throughput", with_zero=True),
            most=self.speed(where, entry, "most_iops", "most_throughput"),
            prices=self.speed(where, entry, "iops_price", "throughput_price"),
            least_size=least,
            most_size=most,
        )

    def speed(
        self, where: Where, entry: dict[str, Any], iops: str, throughput: str, with_zero: bool = False
    ) -> Performance:
        """Read two numbers that may be missing."""
        return Performance(
            *(
                self.number(where, entry, key, with_zero=with_zero) if key in entry else None
                for key in (iops, throughput)
            )
        )

    def number(
        self,
        where: Where,
        entry: dict[str, Any],
        key: str,
        otherwise: float | None = None,
        with_zero: bool = False,
    ) -> float:
        """Return a number above 0, which is `otherwise` where it is missing."""
        if key not in entry and otherwise is not None:
            return otherwise
        value = float(self.checked((*where, key), entry[key], float))
        if not (_SMALLEST <= value <= _LARGEST or (with_zero and value == 0)):
            least = "a number from 0 on" if with_zero else "a number above 0"
            self.fail((*where, key), f"'{key}' must be {least}, and up to {_LARGEST:,.0f}, not {value:g}")
        return value

    def date(self, where: Where, value: Any) -> str:
        """Return a day that is not in the future."""
        text = self.text(where, value)
        try:
            day = datetime.datetime.strptime(text, "%Y-%m-%d").date()
        except ValueError:
            self.fail(
                where, f"'{text:.40}' is no date: write the day of these prices, such as \"2026-08-07\""
            )
        if day > datetime.date.today():
            self.fail(where, f"{day} is in the future: write the day of these prices")
        return day.isoformat()

    def text(self, where: Where, value: Any) -> str:
        """Return a text on one line; refuse an empty, a long or an unprintable one."""
        text = " ".join(self.checked(where, value, str).split())
        if not text:
            self.fail(where, f"'{where[-1]}' must not be empty")
        if len(text) > _LONGEST:
            self.fail(where, f"'{where[-1]}' has more than {_LONGEST} characters")
        if not text.isprintable():
            self.fail(where, f"'{where[-1]}' holds characters that cannot be printed")
        return text

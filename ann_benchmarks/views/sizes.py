"""What an index will be with more rows: a table, sentences, a picture and the SQL, all of them predicted."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ann_benchmarks.common.numbers import KIB, MB, UNKNOWN, duration_text, size_text, three_digits
from ann_benchmarks.data.datasets.samples import sampled
from ann_benchmarks.results.at_recall import build_arguments
from ann_benchmarks.results.environment import MEMORY
from ann_benchmarks.results.runs import Run, number
from ann_benchmarks.sizing.checks import Check, check, held_rows
from ann_benchmarks.sizing.forecasts import Forecast, forecast
from ann_benchmarks.sizing.growth import Prediction
from ann_benchmarks.sizing.laws.argument import list_count
from ann_benchmarks.statistics.intervals import interval_text

from .contenders import Recipe, find_recipe
from .memory import needs
from .parts import Part, known_table

STEPS = 40  # numbers of rows in each picture, and those between which the fastest index may change
PREDICTED = (
    "Predicted, not measured: laws of growth, fitted to {samples} samples of {least:,.0f} to {most:,.0f}"
    " rows, with 90% intervals (docs/sizes.md). The lists grow with the rows, and all data is in memory."
)


@dataclass(frozen=True)
class Sizes:
    """The forecasts of the indexes of one dataset, and what is shown of them."""

    dataset: str
    count: int
    forecasts: Sequence[Forecast]
    rows: Sequence[float]
    samples: Sequence[float]  # rows of each that laws were fitted to
    checks: Sequence[Check] = ()  # at a number of rows that was held out
    checked: float = 0.0  # the rows that were held out

    def is_refuted(self, one: Forecast, clients: int) -> bool:
        """Whether the time of a query of an index was predicted, and measured outside the interval."""
        return any(
            not check.holds and (check.name, check.figure, check.clients) == (one.name, "seconds", clients)
            for check in self.checks
        )

    @property
    def clients(self) -> list[int]:
        """The numbers of clients that all samples were measured with."""
        return sorted({clients for one in self.forecasts for law, clients in one.curves if law == "seconds"})

    def ranked(self, rows: float, clients: int) -> list[tuple[Forecast, Prediction]]:
        """Return the seconds of a query of each index, the fastest first."""
        known = [(one, found) for one in self.forecasts if (found := one.predict("seconds", rows, clients))]
        return sorted(known, key=lambda pair: pair[1].value)


def find_sizes(
    runs: Iterable[Run], target: float, rows: Sequence[float] = (), whole: Sequence[Run] = ()
) -> list[Sizes]:
    """Return what results on samples of a dataset say of numbers of rows, by default round ones.

    A sample that is much larger than the others checks what these predict, and is then fitted as well.
    `whole` are more results on all rows, which say what memory these need.
    """
    groups: dict[tuple[str, int], list[Run]] = {}
    for run in runs:
        groups.setdefault((sampled(run.dataset)[0], run.count), []).append(run)
    found = []
    for (dataset, count), ours in groups.items():
        others = [run for run in whole if (run.dataset, run.count) == (dataset, count)]
        if one := find_growth(dataset, count, ours, others, target, rows):
            found.append(one)
    return found


def find_growth(
    dataset: str, count: int, runs: Sequence[Run], whole: Sequence[Run], target: float, rows: Sequence[float]
) -> Sizes | None:
    """Return what results on samples of one dataset say; None where they are too few for any index."""
    indexes: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        if not run.series.drop("clients").conditions:
            indexes.setdefault(index_key(run), []).append(run)
    names = index_names(list(indexes))
    everything = [*runs, *whole]

    def forecasted(key: tuple[str, ...], known: Sequence[Run]) -> Forecast | None:
        one = forecast(known, target)
        return one and add_needs(replace(one, name=names[key]), everything, target)

    forecasts = [one for key, known in indexes.items() if (one := forecasted(key, known))]
    samples = sorted({size for one in forecasts for size in one.samples})
    if not forecasts:
        return None
    held, checks = held_rows(samples), list[Check]()
    for key, known in indexes.items() if held else ():
        if earlier := forecasted(key, [run for run in known if number(run, "rows") != held]):
            later = [run for run in known if number(run, "rows") == held]
            checks += [*check(earlier, later, target), *ram_checks(earlier, everything, held, target)]
    shown = sorted(set(rows)) or round_rows(samples[-1], max(one.farthest for one in forecasts))
    return Sizes(dataset, count, forecasts, shown, samples, checks, held)


def add_needs(one: Forecast, runs: Sequence[Run], target: float) -> Forecast:
    """Add the least RAM, where smaller servers were simulated with as many rows as the largest sample has."""
    times = ram_times(one, runs, one.rows, target)
    size = one.largest.metrics["indexsize"] * KIB
    return one.add_ram(times[0] * size, times[1] * size) if times else one


def ram_checks(one: Forecast, runs: Sequence[Run], rows: float, target: float) -> Iterator[Check]:
    """Compare the predicted least RAM with that of a sample that was held out: the middle of two tiers."""
    times, predicted = ram_times(one, runs, rows, target), one.predict("ram", rows)
    size = one.predict("size", rows)
    if times and predicted and size:
        yield Check(one.name, "ram", 0, predicted, math.sqrt(times[0] * times[1]) * size.value)


def ram_times(one: Forecast, runs: Iterable[Run], rows: float, target: float) -> tuple[float, float] | None:
    """Return the least RAM at a number of rows as multiples of the index: what may suffice, and what does."""
    found = needs([run for run in runs if number(run, "rows") == rows], target)
    own = [need for need in found if need.algorithm == one.largest.series.family]
    ends = [
        (need.perhaps / need.index_size, need.ram / need.index_size)
        for need in own
        if need.perhaps and need.ram and need.index_size
    ]
    if not ends or len(ends) < len(own):
        return None
    low, high = map(max, zip(*ends, strict=True))
    return low, high


def round_rows(measured: float, most: float) -> list[float]:
    """Return the next power of ten, and the largest number of rows with one digit that can be predicted."""
    unit = 10.0 ** math.floor(math.log10(most))
    return sorted({min(10.0 ** math.floor(math.log10(measured) + 1), most), most // unit * unit})


def index_key(run: Run) -> tuple[str, ...]:
    """Return what the same index has in common on all samples: arguments other than lists, and the server."""
    arguments = [text for name, text in build_arguments(run).items() if name != "lists"]
    place = [f"{name} {fact}" for name, fact in sorted(run.facts.items()) if name != MEMORY]
    return run.series.family, *arguments, *place


def index_names(keys: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Name indexes by their algorithm, and those of one algorithm by what not all of them have in common."""
    names = {}
    for key in keys:
        alike = [set(other[1:]) for other in keys if other[0] == key[0]]
        own = [text for text in key[1:] if not all(text in other for other in alike)]
        names[key] = f"{key[0]} ({', '.join(own)})" if own else key[0]
    return names


@dataclass(frozen=True)
class Shape:
    """How a figure is shown: its title, how it is written, and what is shown in its place."""

    title: str
    write: Callable[[float], str] = three_digits
    change: Callable[[float], float] = float
    is_exact: bool = False  # its interval is too narrow to be shown
    is_shown: bool = True  # in the table of what is predicted, and not only in that of checks

    def text(self, found: Prediction | None) -> str:
        """Write a prediction with its interval."""
        if found is None:
            return UNKNOWN
        value, *ends = found.mapped(self.change)
        return self.write(value) + ("" if self.is_exact else interval_text(ends, self.write))


def _inverse(seconds: float) -> float:
    return 1 / seconds


def _milliseconds(seconds: float) -> float:
    return 1000 * seconds


SHAPES = {
    "argument": Shape("Query argument"),
    "blocks": Shape("Blocks per query", is_shown=False),
    "seconds": Shape("Queries/s", change=_inverse),
    "p99": Shape("p99 (ms)", change=_milliseconds),
    "build": Shape("Build", duration_text),
    "size": Shape("Size", size_text, is_exact=True),
    "table": Shape("Table", size_text, is_exact=True, is_shown=False),
    "memory": Shape("Memory of the build", size_text, is_exact=True),
    "ram": Shape("Least RAM", size_text),
}


def figure_title(law: str, clients: int) -> str:
    """Name a figure, with the number of clients where it matters."""
    return SHAPES[law].title + (f", {clients} client{'s' * (clients > 1)}" if clients else "")


def size_parts(sizes: Sizes) -> list[Part]:
    """Return the table of what is predicted, what it rests on, and what was checked."""
    lines: list[dict[str, str]] = []
    for rows, one in product(sizes.rows, sizes.forecasts):
        cells = {
            "Rows": f"{rows:,.0f}",
            "Index": one.name,
            SHAPES["argument"].title: argument_text(one, rows),
        }
        for law, clients in one.curves:
            if SHAPES[law].is_shown:
                cells.setdefault(
                    figure_title(law, clients), SHAPES[law].text(one.predict(law, rows, clients))
                )
        lines.append(cells)
    titles = dict.fromkeys(title for cells in lines for title in cells)
    columns = {title: [cells.get(title, UNKNOWN) for cells in lines] for title in titles}
    about = PREDICTED.format(samples=len(sizes.samples), least=sizes.samples[0], most=sizes.samples[-1])
    table = known_table(columns, "What more rows will take", ("Index", SHAPES["argument"].title))
    return [table, about, *check_parts(sizes)]


def check_parts(sizes: Sizes) -> list[Part]:
    """Return the table of what was predicted for the rows that were held out, and measured there."""
    checks = sizes.checks
    if not checks:
        return []
    columns = {
        "Index": [one.name for one in checks],
        "Figure": [figure_title(one.figure, one.clients) for one in checks],
        "Predicted": [SHAPES[one.figure].text(one.predicted) for one in checks],
        "Measured": [SHAPES[one.figure].write(SHAPES[one.figure].change(one.measured)) for one in checks],
        "In the interval": ["yes" if one.holds else "no" for one in checks],
    }
    held = sum(one.holds for one in checks)
    caption = f"Checked at {sizes.checked:,.0f} rows: {held} of {len(checks)} intervals hold"
    return [known_table(columns, caption, ("Index", "Figure", "In the interval"))]


def argument_text(one: Forecast, rows: float) -> str:
    """Write the query argument that a number of rows needs, for lists with their number."""
    found = one.predict("argument", rows)
    if found is None:
        return "not known"
    name = one.largest.attrs["target_parameter"]
    if rows >= one.missed:
        return f"the recall was not reached at {one.missed:,.0f} rows"
    if not one.reaches(rows):
        return f"{name} beyond {one.largest.attrs['target_most']:,}, its largest"
    value, low, high = (math.ceil(end - 0.5) for end in (found.value, found.low, found.high))
    lists = scaled_lists(one, rows)
    return f"{name} {value:,} ({low:,} to {high:,})" + (f" of {lists:,} lists" if lists else "")


def scaled_lists(one: Forecast, rows: float) -> int:
    """Return the number of lists at a number of rows, 0 for an index without them."""
    return round(list_count(one.largest) * rows / one.rows) if one.kind == "lists" else 0


def grid(sizes: Sizes, first: float) -> list[float]:
    """Return numbers of rows from a first one to the most that are shown."""
    last = max(*sizes.rows, sizes.samples[-1])
    return [first * (last / first) ** (step / STEPS) for step in range(STEPS + 1)]


def size_recipes(sizes: Sizes) -> list[Recipe]:
    """Return for each size the SQL of the index that is predicted to be the fastest with the most clients."""
    ranked = {rows: sizes.ranked(rows, sizes.clients[-1]) for rows in sizes.rows}
    found = [size_recipe(fastest[0][0], rows) for rows, fastest in ranked.items() if fastest]
    return [recipe for recipe in found if recipe]


def size_recipe(one: Forecast, rows: float) -> Recipe | None:
    """Return the SQL of the largest sample with what is predicted for a number of rows in its place.

    A comment has the interval of the query argument, whose lower half misses the recall.
    """
    recipe, argument = find_recipe(one.largest), one.predict("argument", rows)
    if recipe is None or argument is None:
        return None
    name, value = one.largest.attrs["target_parameter"], math.ceil(argument.value - 0.5)
    note = f"-- {argument_text(one, rows)}, predicted: measure the recall"
    query = note + "\n" + re.sub(rf"(SET \S*{name} = ')[^']*'", rf"\g<1>{value}'", recipe.query)
    build = re.sub(r"(\blists = \[?)\d+", rf"\g<1>{scaled_lists(one, rows)}", recipe.build)
    if memory := one.predict("memory", rows):
        build = re.sub(r"(maintenance_work_mem = ')[^']*", rf"\g<1>{math.ceil(memory.value / MB)}MB", build)
    return Recipe(f"{one.name} with {rows:,.0f} rows", build, query)

"""What servers cost, in plain sentences: the cheapest that keeps an objective, and queries for the money."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ann_benchmarks.common.numbers import counted
from ann_benchmarks.pricing.costs import CostRequest, Kept, ServerCost, ServiceTarget, is_plain, server_costs
from ann_benchmarks.pricing.prices import PriceList
from ann_benchmarks.pricing.servers import STORAGE_MARGIN, capacity_text
from ann_benchmarks.results.runs import Run
from ann_benchmarks.views.parts import Statement, listed

from .cost_words import money, offer, pace, queries_text, some

NOT_PLAIN = "in batch mode, from cold caches, of skewed queries, with a payload or on several servers"
HOW_SWEPT = "python -m tiers sweep measures simulated servers"


@dataclass(frozen=True)
class CostAnswer:
    """What the results of one dataset, number of neighbours and filter cost, the cheapest first."""

    dataset: str
    count: int
    filter: str
    target: ServiceTarget
    prices: PriceList
    costs: Sequence[ServerCost]
    others: int  # results that are not priced, because something else is special about them

    @property
    def statements(self) -> list[Statement]:
        """The answer first, then what it rests on."""
        said = [("Cheapest server", cheapest(self)), ("By algorithm", by_algorithm(self))]
        said += [(f"Queries per {self.prices.currency}", most_queries(self))]
        said += [("Without a price", without_price(self)), ("Prices", origin(self))]
        return [Statement(about, text) for about, text in said if text]


def cost_answers(runs: Iterable[Run], target: float, request: CostRequest) -> list[CostAnswer]:
    """Return what the results of each dataset, number of neighbours and filter cost at a recall."""
    places: dict[tuple[str, int, str], list[Run]] = {}
    for run in runs:
        places.setdefault((run.dataset, run.count, run.series.filter), []).append(run)
    aim = request.target(target)
    return [
        CostAnswer(
            *place,
            target=aim,
            prices=request.prices,
            costs=server_costs(here, aim, request.prices),
            others=sum(not is_plain(run) for run in here),
        )
        for place, here in sorted(places.items())
    ]


def cheapest(answer: CostAnswer) -> str:
    """Name the cheapest server that keeps the objective, and how sure that is."""
    priced = [cost for cost in answer.costs if cost.quote]
    kept = {verdict: [cost for cost in priced if cost.kept == verdict] for verdict in Kept}
    objective = f"the objective ({answer.target})"
    if not kept[Kept.YES] and not kept[Kept.UNSURE]:
        return nothing_kept(answer, objective)
    found = (kept[Kept.YES] or kept[Kept.UNSURE])[0]
    kind = "simulated server" if found.server.is_simulated else "measured server"
    if kept[Kept.YES]:
        lead = f"The cheapest {kind} that keeps {objective} is"
    else:
        lead = f"No priced server keeps {objective} beyond noise. The cheapest {kind} that may keep it is"
    sentences = [f"{lead} {offer(found, answer.prices)}.", f"There {pace(found, answer.target)}."]
    if not kept[Kept.YES]:
        sentences.append(f"In doubt: {found.why}. Three runs (run.py --runs 3) give the intervals.")
    elif unsure := [cost for cost in kept[Kept.UNSURE] if cost.price < found.price]:
        names = [
            f"{cost.algorithm} on {cost.server.name}, {money(cost, answer.prices)} ({cost.why})"
            for cost in unsure
        ]
        sentences.append(f"Cheaper, but noise hides whether it is kept: {some(names)}.")
    if answer.target.latency is not None and not found.is_given:
        sentences.append(
            "Its latencies are those of clients that wait for each answer before they send the next query."
            " Queries that come at a rate can wait longer, which"
            f" run.py --slo {answer.target.latency} measures."
        )
    return " ".join([*sentences, *limits(answer, found)])


def limits(answer: CostAnswer, found: ServerCost) -> list[str]:
    """Say what the cheapest server does not show."""
    said = []
    if answer.target.is_recall_alone:
        said.append(
            "Only the recall counts here, however slow a server is: --slo and --target-rate add what it must"
            " achieve."
        )
    if not any(cost.server.is_simulated for cost in answer.costs):
        said.append(f"No simulated server was measured: {HOW_SWEPT}.")
    elif not any(cost.kept == Kept.NO for cost in answer.costs) and may_be_smaller(answer, found):
        said.append("No server that was measured misses the objective: a smaller one may be cheaper.")
    return said


def may_be_smaller(answer: CostAnswer, found: ServerCost) -> bool:
    """Whether the prices have an instance that costs less."""
    return found.quote is not None and any(
        instance.price < found.quote.instance.price for instance in answer.prices.instances
    )


def nothing_kept(answer: CostAnswer, objective: str) -> str:
    """Say that no server is known to keep the objective at a price."""
    if not answer.costs:
        return f"No result can be priced: each is {NOT_PLAIN}."
    if any(cost.kept > Kept.NO for cost in answer.costs):
        return f"There is no price for any server that keeps {objective}."
    best: dict[str, ServerCost] = {}
    for cost in sorted(answer.costs, key=lambda cost: -cost.rate):
        best.setdefault(cost.algorithm, cost)
    missed = [f"{cost.algorithm} on {cost.server.name} ({cost.why})" for cost in best.values()]
    return (
        f"No server that was measured keeps {objective}. The most that each algorithm does: {some(missed)}."
    )


def by_algorithm(answer: CostAnswer) -> str:
    """Name the cheapest server of each algorithm, and what it has."""
    names = list(dict.fromkeys(cost.algorithm for cost in answer.costs))
    if len(names) < 2:
        return ""
    texts = []
    for name in names:
        own = [cost for cost in answer.costs if cost.algorithm == name and cost.quote]
        found = next(
            (cost for verdict in (Kept.YES, Kept.UNSURE) for cost in own if cost.kept == verdict), None
        )
        if found is None:
            is_kept = any(cost.kept > Kept.NO for cost in answer.costs if cost.algorithm == name)
            texts.append(f"{name} {'has no price' if is_kept else 'keeps it on no server'}")
            continue
        doubt = f", not sure: {found.why}" if found.kept == Kept.UNSURE else ""
        has = capacity_text(found.server)
        alike = [cost.server for cost in own if cost.kept == found.kept and cost.price == found.price]
        least = min(alike, key=lambda server: (server.memory or 0, server.cpus or 0))
        if (least.memory or 0) < (found.server.memory or 0):
            has += f"; {capacity_text(least)} suffice, too"
        texts.append(f"{name} {money(found, answer.prices)} on {found.server.name} ({has}{doubt})")
    return f"The cheapest server that keeps the objective, a month: {'; '.join(texts)}."


def most_queries(answer: CostAnswer) -> str:
    """Say which server answers the most queries for the money, where noise does not hide it."""
    known = [
        (cost, value, bounds)
        for cost in answer.costs
        if cost.kept > Kept.NO
        and (value := cost.queries(answer.prices)) is not None
        and (bounds := cost.queries_interval(answer.prices)) is not None
    ]
    single = sum(
        cost.kept > Kept.NO and cost.quote is not None and not cost.is_given and cost.rate_interval is None
        for cost in answer.costs
    )
    unranked = f"{counted(single, 'server')} without an interval, which takes three runs, not ranked." * bool(
        single
    )
    if not known:
        return unranked
    known.sort(key=lambda one: -one[1])
    (best, value, bounds), *rest = known
    text = (
        f"{best.algorithm} on {best.server.name} answers {queries_text(value, bounds)} queries for one"
        f" {answer.prices.currency}, if it is busy all month."
    )
    alike = [f"{cost.algorithm} on {cost.server.name}" for cost, _, other in rest if other.high >= bounds.low]
    if alike:
        text += f" Their intervals overlap with this one, so that they are not ranked: {some(alike)}."
    elif rest:
        cost, next_value, _ = rest[0]
        text += f" Next is {cost.algorithm} on {cost.server.name}, with {queries_text(next_value)}."
    return " ".join(filter(None, [text, unranked]))


def without_price(answer: CostAnswer) -> str:
    """Say which servers have no price, and why."""
    reasons: dict[str, dict[str, None]] = {}
    for cost in answer.costs:
        if cost.unpriced:
            reasons.setdefault(cost.unpriced, {})[f"{cost.algorithm} on {cost.server.name}"] = None
    texts = [f"{some(list(names))}, because {reason}" for reason, names in reasons.items()]
    if answer.others:
        texts.append(f"{counted(answer.others, 'result')} {NOT_PLAIN}")
    return f"{'; '.join(texts)}." if texts else ""


def origin(answer: CostAnswer) -> str:
    """Say whose prices these are, of which date, and what they are not."""
    prices = answer.prices
    processors = sorted({cost.server.processor for cost in answer.costs if cost.server.processor})
    measured = f" Measured on: {listed(processors)}." if processors else ""
    return (
        f"{prices.label}, as of {prices.date}, from {prices.source}. A price is that of the cheapest instance"
        " with at least the CPUs and memory of the measured server, and of storage for the table, the index"
        f" and {STORAGE_MARGIN:.0%} more, with at least the limits of its disk. It is for a server of this"
        " size: the instance itself was not measured, and its processor and disk may be faster or slower."
        f"{measured}"
    )

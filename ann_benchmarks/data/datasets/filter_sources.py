"""Where the filter sets that were published with a dataset come from: `filters` in registry.yml.

tags: {of_rows: rows.spmat, of_queries: queries.spmat, neighbors: GT.ibin}
int: {of_rows: id, shares: [0.01, 0.99], neighbors: "neighbors_int_{removed}p.parquet"}
label: {of_rows: labels.parquet, label: "label_{passing}p", shares: [0.01], neighbors: "..."}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.yaml_file import Where, YamlFile, is_number

from ..filters.published import PUBLISHED_KINDS, PublishedShare, published_share

OF_ID = "id"  # instead of an address: the column of this name beside the vectors
_KEYS = ("of_rows", "of_queries", "neighbors", "shares", "label")
_TAGS = ".spmat"  # big-ann-benchmarks' sparse matrix of tags


@dataclass(frozen=True)
class FilterSource:
    """Addresses, as Parts has them, of a filter set, or of all sets of a kind.

    `of_rows` has the attribute of the rows. Tags have a file `of_queries`, too. A kind has sets of the
    `shares` that pass, and a `label` if it compares texts; {passing} and {removed} stand for percentages.
    """

    name: str
    of_rows: str
    of_queries: str = ""
    neighbors: str = ""
    shares: tuple[Decimal, ...] = ()
    label: str = ""

    @property
    def names(self) -> str:
        """Its name in a list of all: tags, or int:S."""
        return f"{self.name}:S" if self.shares else self.name

    @property
    def column(self) -> str:
        """The name of the attribute."""
        return f"published_{self.name}"


def source_of(sources: Sequence[FilterSource], filter: str) -> FilterSource | None:
    """Return where a filter set comes from; None if it is none of these. UserError for another share."""
    share = published_share(filter)
    for source in sources:
        if share is None and source.name == filter and not source.shares:
            return source
        if share is not None and source.name == share.kind:
            if share.share not in source.shares:
                known = ", ".join(f"{each:f}" for each in sorted(source.shares))
                raise UserError(f"'{filter}' has not been published; shares of {share.kind} are {known}")
            return source
    return None


def written_for(address: str, share: PublishedShare | None) -> str:
    """Return an address, or a label, with its percentages."""
    if share is None:
        return address
    return address.replace("{passing}", share.passing).replace("{removed}", share.removed)


def read_sources(file: YamlFile, where: Where, content: Any) -> tuple[FilterSource, ...]:
    """Read what a description says of published filters; UserError names the line of a mistake."""
    file.mapping(where, content, "filter sets by name")
    return tuple(_source(file, (*where, name), str(name), one) for name, one in content.items())


def _source(file: YamlFile, where: Where, name: str, content: Mapping[str, Any]) -> FilterSource:
    file.mapping(where, content, "a filter set", _KEYS, ("of_rows",))
    texts = {key: file.checked((*where, key), content[key], str) for key in content if key != "shares"}
    shares = file.checked((*where, "shares"), content.get("shares", []), list)
    if not all(is_number(share) and 0 < share < 1 for share in shares):
        file.fail((*where, "shares"), "shares must be numbers between 0 and 1")
    if bool(shares) != (name in PUBLISHED_KINDS):
        kinds = " and ".join(PUBLISHED_KINDS)
        file.fail(where, f"sets of the kinds {kinds} have shares, and no others have")
    is_tags = texts["of_rows"].endswith(_TAGS)
    if is_tags != bool(texts.get("of_queries")) or is_tags == bool(shares):
        file.fail(where, f"a set of tags has a file {_TAGS} of_rows, and one of_queries; others have shares")
    if bool(texts.get("label")) != (bool(shares) and texts["of_rows"] != OF_ID):
        file.fail(where, "filters on a file of labels have a label, and no others have")
    return FilterSource(name, shares=tuple(Decimal(str(share)) for share in shares), **texts)

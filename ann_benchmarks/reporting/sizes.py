"""What is predicted for more rows, as a report shows it: sentences, the table, the picture, SQL and JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ann_benchmarks.plotting.chart import draw_chart
from ann_benchmarks.views.contenders import Recipe
from ann_benchmarks.views.size_chart import size_chart
from ann_benchmarks.views.size_ranking import size_statements
from ann_benchmarks.views.sizes import Sizes, size_parts, size_recipes

from .answer import Answer
from .content import part_blocks
from .document import Block, Heading, Items, Listing, Picture, Strong

TITLE = "At more rows"


def size_blocks(found: Sequence[Sizes], folder: Path) -> list[Block]:
    """Return what is predicted for each dataset; pictures are files of the folder."""
    blocks: list[Block] = []
    for number, one in enumerate(found):
        title = f"{TITLE}: {one.dataset}" if len(found) > 1 else TITLE
        path = folder / f"sizes{f'-{number + 1}' if number else ''}.png"
        draw_chart(size_chart(one, f"{one.dataset}: queries per second by rows"), path)
        blocks += [Heading(2, title)]
        blocks += [Items([[Strong(f"{about.about}:"), f" {about.text}"] for about in size_statements(one)])]
        blocks += [Picture(path.name, "Throughput that was measured, and that is predicted, over the rows.")]
        blocks += part_blocks(size_parts(one))
        blocks += [
            block for recipe in size_recipes(one) for block in recipe_blocks(recipe, "Predicted SQL of")
        ]
    return blocks


def recipe_blocks(recipe: Recipe, what: str) -> list[Block]:
    """Return the SQL of an index."""
    return [Heading(3, f"{what} {recipe.name}"), Listing(f"{recipe.build}\n{recipe.query}", "sql")]


def size_answer(one: Sizes) -> Answer:
    """Return the sentences as an answer of their own."""
    return Answer(f"{one.dataset} at more rows (predicted)", one.count, size_statements(one))


def sizes_as_json(found: Sequence[Sizes]) -> list[dict[str, Any]]:
    """Return every prediction as JSON holds it: the figure and the ends of its 90% interval."""
    return [
        {
            "dataset": one.dataset,
            "samples": list(one.samples),
            "predictions": [
                {"rows": rows, "index": index.name, "figure": law, "clients": clients or None}
                | dict(zip(("value", "low", "high"), prediction, strict=True))
                for rows in one.rows
                for index in one.forecasts
                for law, clients in index.curves
                if (prediction := index.predict(law, rows, clients))
            ],
        }
        for one in found
    ]

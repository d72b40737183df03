"""Writes the texts that today's commands make of the stored results, or compares them with those written.

stored.tar.xz holds results of an earlier version, which later ones have to read: add to them, do not make
them anew.
"""

import argparse
import csv
import difflib
import io
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import datetime, timezone
from pathlib import Path
from unittest import mock

import matplotlib.figure
from PIL import Image

from ann_benchmarks.common import VERSION
from ann_benchmarks.common.errors import UserError

from ..programs import main_of

HERE = Path(__file__).parent
ROOT, STORED, OUTPUTS = HERE.parents[1], HERE / "stored.tar.xz", HERE / "outputs"
PLOT, REPORT = "plot --dataset golden -o OUT/p.png", "report --dataset golden -o OUT/r"
LINE = "pgvector_hnsw-c1"
COSTS = f"--prices {ROOT}/prices/example.yml"
# What is run, by the folder of its outputs, OUT. Some need what those before them wrote.
COMMANDS = {
    "plot": PLOT,
    "plot-raw": f"{PLOT} --raw --series all -x indexsize -y p99 -X log -Y log",
    "plot-batch": f"{PLOT} --batch",
    "plot-published": f"{PLOT} --published {ROOT}/reference/5m.yml",
    **{f"plot-by-{name}": f"{PLOT} --series all --facet {name}" for name in
       ("clients", "load", "tier", "server", "servers", "filter")},
    **{f"plot-{name}": f"{PLOT} --{name}" for name in ("tiers", "filters")},
    "plot-tiers-published": f"{PLOT} --tiers --published 5m",
    "plot-monitoring": "plot --monitoring MONITORED -o OUT/p.png",
    "export": "data_export --output OUT/results.csv",
    "report": f"{REPORT} {COSTS} --target-rate 300 --slo p99:50ms",
    "report-second": "report --dataset second -o OUT/r --target-recall 0.9 --title Second",
    "report-some": f"{REPORT} --algorithm pgvector_hnsw --count 5",
    "experiment": "report --experiment experiment.yml --local -o OUT/r",
    "compare": "compare compared/a-1 compared/b-1",
    **{f"compare-{form}": f"compare --a compared/a-* --b compared/b-* --format {form} --fail-if-slower 5%"
       for form in ("table", "markdown", "json")},
    "compare-series": f"compare {LINE} vchord-c1 --at-recall 0.95",
    "compare-clients": "compare pgvector_hnsw-c8 pgvector_hnsw-c32 --by p99",
    "compare-filters": "compare pgvector_hnsw-c1-filter-* vchord-c1-filter-* --at-recall 0.9",
    "compare-list": "compare --list",
    "site": "create_website --outputdir OUT/s --latex --scatter",
    "bundle": f"report --dataset golden --bundle OUT/b --contact jane@example.org {COSTS}",
    "check": "ann_benchmarks.submission.__main__ check made/bundle/b",
    "submissions": "create_website --outputdir OUT/s --submissions made/bundle/b",
}  # fmt: skip
# Of a site of many pages, these show what the others repeat.
PAGES = ("index", "golden", "second", "pgvector_exact.")
TEXTS = (".md", ".csv", ".json", ".txt")
# What other outputs say, too: results, and all points of a report as its CSV and its JSON have them.
REPEATED = re.compile(r"(^|/)results/|^bundle/b/report/|^(report|experiment)/r/points\.csv")


def number(value: object) -> str:
    """Write a coordinate with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def points(rows: Sequence) -> str:
    """Write points, or other rows of numbers."""
    return " ".join(",".join(number(float(one)) for one in row) for row in rows)


def drawn(figure: matplotlib.figure.Figure) -> Iterator[str]:
    """Yield what a figure says: titles, labels, legends, notes, and the points of what is drawn."""
    texts = [figure.get_suptitle(), *(text.get_text() for one in figure.legends for text in one.get_texts())]
    yield f"figure: {' | '.join(filter(None, texts))}"
    for axes in figure.axes:
        titles = [axes.get_title(loc) for loc in ("left", "center", "right")]
        yield f"  axes: {' | '.join(filter(None, titles))}"
        yield f"    x ({axes.get_xscale()}): {axes.get_xlabel()}"
        yield f"    y ({axes.get_yscale()}): {axes.get_ylabel()}"
        if legend := axes.get_legend():
            yield f"    legend: {' | '.join(text.get_text() for text in legend.get_texts())}"
        yield from (f"    text: {text.get_text()!r}" for text in axes.texts)
        names = [text.get_text() for text in axes.get_yticklabels()] if axes.get_yscale() == "linear" else []
        yield from [f"    y names: {' | '.join(names)}"] if any(name[:1].isalpha() for name in names) else []
        yield from (f"    line: {points(line.get_xydata())}" for line in axes.lines)
        yield from (f"    patch: {points([patch.get_extents().bounds])}" for patch in axes.patches)
        for one in axes.collections:
            if hasattr(one, "get_segments"):
                yield f"    segments: {' / '.join(map(points, one.get_segments()))}"
            else:
                yield f"    marks: {points(one.get_offsets())}"


@contextmanager
def figures_as_text() -> Iterator[list[str]]:
    """Have figures saved as one white pixel; give the list that gets the lines of what they say."""
    lines: list[str] = []

    def save(figure: matplotlib.figure.Figure, path: object, **how: object) -> None:
        lines.extend(drawn(figure))
        Image.new("RGB", (1, 1), "white").save(path, str(how.get("format", "png")))

    with mock.patch.object(matplotlib.figure.Figure, "savefig", save):
        yield lines


def call(words: str, out: Path) -> str:
    """Run a command in this process; return what it printed, what it drew and how it ended."""
    name, *arguments = words.replace("OUT", str(out)).split()
    printed, status = io.StringIO(), 0
    main = main_of(f"{name}.py")
    with (
        figures_as_text() as lines,
        redirect_stdout(printed),
        redirect_stderr(printed),
        mock.patch.object(sys, "argv", [f"{name}.py", *arguments]),
    ):
        try:
            status = main() or 0
        except UserError as error:
            print(f"error: {error}")
            status = 1
        except SystemExit as end:
            status = int(end.code or 0)
    if lines:
        (out / "figures.txt").write_text("\n".join(lines) + "\n")
    return f"$ {words}\n{printed.getvalue()}exit status: {status}\n"


def legible(value: object, depth: int = 3, indent: str = "") -> str:
    """Write JSON with a line for each part, down to a depth."""
    if not isinstance(value, dict | list) or not value or depth == 0:
        return json.dumps(value, ensure_ascii=False)
    inner = f"{indent} "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {legible(one, depth - 1, inner)}" for key, one in value.items()]
    else:
        parts = [legible(one, depth - 1, inner) for one in value]
    ends = "{}" if isinstance(value, dict) else "[]"
    return f"{ends[0]}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{ends[1]}"


def table_text(text: str) -> str:
    """Write a CSV file by rows, a line for each cell that is not empty."""
    head, *rows = csv.reader(io.StringIO(text))
    blocks = [
        "\n".join(f"{name}: {cell}" for name, cell in zip(head, row, strict=True) if cell) for row in rows
    ]
    return "\n\n".join([",".join(head), *blocks]) + "\n"


def page_text(text: str) -> str:
    """Write what a page says, and its data."""
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    said = re.sub(r"<(script|style|svg)\b.*?</\1>", "", text, flags=re.S)
    lines = [line.strip() for line in re.sub(r"<[^>]+>", " ", said).splitlines()]
    content = legible(json.loads(data[1])) if data else ""
    return "\n".join([*filter(None, lines), content, ""])


def text_of(path: Path) -> str | None:
    """Return a file that a command wrote as legible text, None where that would say nothing."""
    kind, is_page = path.suffix, path.suffix == ".html" and path.name != "report.html"
    if is_page and not path.name.startswith(PAGES):
        return None
    if not is_page and kind not in TEXTS:
        return None
    text = path.read_text()
    if path.name == "manifest.json":
        content = json.loads(text)
        text = json.dumps(content | {"files": sorted(content["files"])})
    if path.name == "report.json":  # each point is in the CSV, by its attributes
        content = json.loads(text)
        kept = [{name: one for name, one in point.items() if name != "attrs"} for point in content["points"]]
        text = json.dumps(content | {"points": kept})
    if kind == ".json":
        return legible(json.loads(text)) + "\n"
    return page_text(text) if is_page else table_text(text) if kind == ".csv" else text


def without_chance(text: str, folder: str) -> str:
    """Replace what differs between two runs, machines or releases; keep nine digits of a number."""
    text = text.replace(folder, "TMP").replace(str(ROOT), "ROOT")
    text = re.sub(r"\b[0-9a-f]{64}\b", "SHA256", re.sub(r"\b[0-9a-f]{40}(-changed)?\b", "COMMIT", text))
    text = re.sub(r"\b(?!2026-01-0)20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", "NOW", text)
    text = text.replace(datetime.now(timezone.utc).date().isoformat(), "TODAY")
    text = re.sub(rf'(project_version": "|of the benchmark\s+){re.escape(VERSION)}', r"\1VERSION", text)
    text = re.sub(r"(?<=NOW with ).*", "VERSION", text)
    text = re.sub(r"^(\W*)[0-9a-f]{6}(?= +(2026-|-))", r"\1RUN-ID", text, flags=re.M)
    return re.sub(r"\d+\.\d{6,}(e-?\d+)?", lambda found: f"{float(found[0]):.9g}", text)


def written(only: str = "") -> dict[str, str]:
    """Run the commands, or those whose names begin so; return the outputs by path."""
    found: dict[str, str] = {}
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            with tarfile.open(STORED) as packed:
                packed.extractall(filter="data")
            shutil.copy(HERE / "experiment.yml", "experiment.yml")
            monitored = next(Path(f"results/golden/10/{LINE}").glob("*_40.hdf5"))
            for name, words in COMMANDS.items():
                out = Path("made", name)
                out.mkdir(parents=True)
                if name.startswith(only) or (name == "bundle" and only in ("check", "submissions")):
                    found[f"{name}/terminal.txt"] = call(words.replace("MONITORED", str(monitored)), out)
                for path in sorted(out.rglob("*")):
                    output = f"{name}/{path.relative_to(out).as_posix()}"
                    if path.is_file() and not REPEATED.search(output) and (text := text_of(path)) is not None:
                        found[output.replace(".html", ".txt")] = text
        finally:
            os.chdir(here)
        return {name: without_chance(text, os.path.realpath(folder)) for name, text in found.items()}


def differences(only: str = "") -> str:
    """Return a unified diff from the stored outputs to today's, "" where nothing differs."""
    now = written(only)
    files = [path for path in OUTPUTS.rglob("*") if path.is_file()]
    stored = {path.relative_to(OUTPUTS).as_posix(): path.read_text() for path in files}
    lines: list[str] = []
    for name in sorted(now.keys() | {name for name in stored if name.startswith(only)}):
        a, b = (texts.get(name, "").splitlines(keepends=True) for texts in (stored, now))
        lines += difflib.unified_diff(a, b, f"stored/{name}", f"now/{name}", n=1)
    return "".join(lines)


def main() -> int:
    """Write the outputs; with --check, compare them instead."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--check", action="store_true", help="print what differs; 1 if something does")
    parser.add_argument("--only", default="", metavar="PREFIX", help="only the commands whose names begin so")
    args = parser.parse_args()
    if args.check:
        found = differences(args.only)
        print(found, end="")
        return 1 if found else 0
    texts = written(args.only)
    for name in {name.partition("/")[0] for name in texts}:
        shutil.rmtree(OUTPUTS / name, ignore_errors=True)
    for name, text in texts.items():
        (OUTPUTS / name).parent.mkdir(parents=True, exist_ok=True)
        (OUTPUTS / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""pgfplots code of a plot, to be pasted into a paper."""

from collections.abc import Iterable

from ann_benchmarks.results.metrics import all_metrics, plot_label

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def escape(text: str) -> str:
    """Return text that LaTeX prints as it is."""
    return "".join(SPECIAL.get(character, character) for character in text)


def pgfplots(
    x: str, y: str, series: Iterable[tuple[str, Iterable[tuple[float, float]]]], scatter: bool
) -> str:
    """Return a figure of the series' points; it needs pgfplots, compat=1.16 or newer, in the preamble."""
    lines = [
        r"\begin{figure}",
        r"  \centering",
        r"  \begin{tikzpicture}",
        r"    \begin{axis}[",
        f"      xlabel={{{escape(all_metrics[x].description)}}},",
        f"      ylabel={{{escape(all_metrics[y].description)}}},",
        r"      ymode=log, grid=major, legend pos=outer north east, legend cell align=left,",
        r"    ]",
    ]
    for name, points in series:
        lines.append(rf"      \addplot+[{'only marks' if scatter else 'mark=*'}] coordinates {{")
        lines += [f"        ({x_value:.9g}, {y_value:.9g})" for x_value, y_value in points]
        lines += ["      };", rf"      \addlegendentry{{{escape(name)}}}"]
    lines += [
        r"    \end{axis}",
        r"  \end{tikzpicture}",
        rf"  \caption{{{escape(plot_label(x, y))}}}",
        r"\end{figure}",
    ]
    return "\n".join(lines)

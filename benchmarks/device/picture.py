"""Test accuracy against flash: one panel per data set."""

from __future__ import annotations

from matplotlib.figure import Figure

from benchmarks.device.measure import TARGET
from benchmarks.device.ours import FLOAT, INTEGER
from benchmarks.device.summary import Document, of_family
from kernlet.report.draw import picture_style

#: Colour, marker and line of each family: one colour per exporter.
STYLES = {
    INTEGER: ("C1", "o", "-"),
    FLOAT: ("C1", "x", ":"),
    "emlearn-inline": ("C2", "^", "-"),
    "emlearn-tables": ("C2", "v", ":"),
    "emlearn-mlp": ("C4", "s", "-"),
    "m2cgen-trees": ("C0", "<", "-"),
    "m2cgen-svc": ("C0", "+", ":"),
    "micromlgen-trees": ("C3", ">", "-"),
    "micromlgen-svc": ("C3", "1", ":"),
}
_SHOWN_POINTS = 25  # below the most accurate machine


@picture_style()
def draw_device(document: Document) -> Figure:
    """The machines of every family; those on the upper left are small and accurate."""
    figure = Figure(figsize=(9.6, 6), layout="constrained")
    panels = figure.subplots(2, 3)
    for axes, name in zip(panels.flat, document["sets"], strict=False):
        tests = [100 * r["test"] for f in STYLES for r in of_family(document, name, f)]
        for family, (color, marker, line) in STYLES.items():
            points = sorted(
                (r["flash"], 100 * r["test"]) for r in of_family(document, name, family)
            )
            if points:
                axes.plot(
                    *zip(*points, strict=True),
                    color=color,
                    marker=marker,
                    linestyle=line,
                    linewidth=2.6 if family == INTEGER else 1.0,
                    markersize=5,
                    label=document["families"][family],
                )
        low = max(min(tests), max(tests) - _SHOWN_POINTS)
        axes.set(title=name, xscale="log", ylim=(low - 0.2, max(tests) + 0.5))
        axes.set_xticks([1e3, 1e4, 1e5], ["1 kB", "10 kB", "100 kB"])
        axes.grid()
    handles, labels = panels[0, 0].get_legend_handles_labels()
    for axes in panels.flat[len(document["sets"]) :]:
        axes.axis("off")
    panels[-1, -1].legend(handles, labels, loc="center")
    figure.supxlabel(f"flash on a {TARGET}, log scale")
    figure.supylabel("test accuracy, %")
    return figure

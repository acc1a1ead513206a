"""Test accuracy against flash: one panel per data set."""

from __future__ import annotations

from matplotlib.figure import Figure

from benchmarks.device.measure import TARGET
from benchmarks.device.ours import FLOAT, INTEGER
from benchmarks.device.summary import Document, of_family

#: Okabe and Ito's colour-blind safe colours, and a marker for each family.
STYLES = {
    INTEGER: ("#D55E00", "o", "-"),
    FLOAT: ("#D55E00", "x", ":"),
    "emlearn-inline": ("#009E73", "^", "-"),
    "emlearn-tables": ("#009E73", "v", ":"),
    "emlearn-mlp": ("#E69F00", "s", "-"),
    "m2cgen-trees": ("#0072B2", "<", "-"),
    "m2cgen-svc": ("#0072B2", "+", ":"),
    "micromlgen-trees": ("#CC79A7", ">", "-"),
    "micromlgen-svc": ("#CC79A7", "1", ":"),
}
_SHOWN_POINTS = 25  # below the most accurate machine


def draw_device(document: Document) -> Figure:
    """The machines of every family; those on the upper left are small and accurate."""
    figure = Figure(figsize=(10, 6.5), layout="constrained")
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
                    linewidth=2 if family == INTEGER else 0.9,
                    markersize=5,
                    label=document["families"][family],
                )
        low = max(min(tests), max(tests) - _SHOWN_POINTS)
        axes.set(title=name, xscale="log", ylim=(low - 0.2, max(tests) + 0.5))
        axes.set_xticks([1e3, 1e4, 1e5], ["1 kB", "10 kB", "100 kB"])
        axes.grid(color="0.9", linewidth=0.6)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    for axes in panels.flat[len(document["sets"]) :]:
        axes.axis("off")
    panels[-1, -1].legend(handles, labels, loc="center", frameon=False)
    figure.supxlabel(f"flash on a {TARGET}, log scale")
    figure.supylabel("test accuracy, %")
    return figure

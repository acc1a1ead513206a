"""Formulas as MathML, made when the site is built: nothing to load, no script to run."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

# What latex2mathml does not know, in terms of what it knows.
_ALIGNED = re.compile(r"\\(begin|end)\{aligned\}")
# Browsers ignore the attribute columnalign, and obey a style.
_COLUMN = re.compile(r'<mtd columnalign="(\w+)">')
# In a line of their own, limits of min and max stand below them.
_LIMITS = re.compile(
    r"<msub>(<mo>(?:min|max)</mo>(?:<mrow>.*?</mrow>|<m[in]>[^<]*</m[in]>))</msub>"
)
# Bars that stand for a norm or a size are not operators with space around them.
_BAR = re.compile(r'<mo(?: stretchy="false")?>(&#x02016;|&#x0007C;)</mo>')


def to_mathml(formula: str, display: str) -> str:
    """LaTeX as MathML that browsers lay out well; ``display`` is "inline" or "block"."""
    mathml: str = convert(_ALIGNED.sub(r"\\\1{align*}", formula), display=display)
    mathml = _COLUMN.sub(r'<mtd style="text-align: \1">', mathml)
    mathml = _BAR.sub(r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>', mathml)
    return _LIMITS.sub(r"<munder>\1</munder>", mathml) if display == "block" else mathml


def visit_inline(writer: Any, node: nodes.math) -> None:
    """Write a formula in a line."""
    writer.body.append(to_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_block(writer: Any, node: nodes.math_block) -> None:
    """Write a formula in a line of its own."""
    writer.body.append(f'<div class="math">{to_mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer ``html_math_renderer = "mathml"``."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""A picture: a figure with its title, and one sentence for who cannot see it; SVG, PNG, and HTML without addresses."""

from __future__ import annotations

import html
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from matplotlib import font_manager, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

BLUE, ORANGE, RED, GREEN, GREY = "#0072b2", "#e69f00", "#c03000", "#008f6b", "#777777"
"""Told apart by colour-blind eyes too; beside them lines have dashes and areas have hatches, for black and white."""
NO_DATA = "no data"
WIDTH = 9.0
LEGEND_LETTERS = 120
_CJK = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Microsoft YaHei",
)


class Picture:
    """Shows itself in Jupyter; ``svg``, ``png`` and ``html`` give it to others, ``save`` to a file."""

    def __init__(self, drawing: Drawing, title: str, told: str) -> None:
        self.drawing, self.title, self.told = drawing, title, told

    def svg(self) -> str:
        """One ``<svg>`` element; the same data give the same letters."""
        out = StringIO()
        with _style():
            self.drawing.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        text = out.getvalue()
        text = re.sub(r"\s*<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
        head = f'<svg role="img" aria-label="{html.escape(f"{self.title}. {self.told}")}" style="max-width:100%;height:auto"'
        return text.replace("<svg", head, 1)

    def png(self, dpi: int = 144) -> bytes:
        """The picture in points."""
        out = BytesIO()
        with _style():
            self.drawing.savefig(out, format="png", dpi=dpi, metadata={"Software": None})
        return out.getvalue()

    def html(self) -> str:
        """A fragment that needs nothing from outside."""
        told = html.escape(self.told)
        return f'<figure style="margin:1em 0">{self.svg()}<figcaption><small>{told}</small></figcaption></figure>'

    def save(self, path: Path | str) -> Path:
        """Write it as what the name ends in: svg, png or html."""
        target = Path(path)
        made: dict[str, Any] = {".svg": self.svg, ".png": self.png, ".html": self.html}
        if target.suffix not in made:
            from taskkit.errors import InputError

            raise InputError("path", f"{target.name} must end in {', '.join(made)}")
        content = made[target.suffix]()
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
        return target

    def _repr_html_(self) -> str:
        return self.html()

    def __str__(self) -> str:
        return f"{self.title}: {self.told}"


def canvas(title: str, heights: tuple[float, ...] = (3.0,)) -> tuple[Drawing, list[Axes]]:
    """Axes under each other with one time axis, and the title over them."""
    with _style():
        drawing = Drawing(figsize=(WIDTH, sum(heights) + 0.7), layout="constrained")
        found = drawing.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)
        axes = [row[0] for row in found]
        drawing.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        for one in axes:
            one.grid(visible=True, color="#dddddd", linewidth=0.6)
            one.set_axisbelow(True)
            one.spines[["top", "right"]].set_visible(False)
    return drawing, axes


def nothing(title: str) -> Picture:
    """A picture that says that there is no data."""
    drawing, (axes,) = canvas(title, (1.6,))
    axes.set_axis_off()
    axes.text(0.5, 0.5, NO_DATA, ha="center", va="center", fontsize=16, color=GREY, transform=axes.transAxes)
    return Picture(drawing, title, NO_DATA)


def legend(axes: Axes) -> None:
    """What the lines are: over the axes, where it hides nothing."""
    names = axes.get_legend_handles_labels()[1]
    if names:
        columns = max(1, min(len(names), LEGEND_LETTERS // (max(map(len, names)) + 6)))
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=columns,
            fontsize=8,
            frameon=False,
            borderaxespad=0.2,
        )


def cut_short(text: str, letters: int = 28) -> str:
    """A name that fits beside an axis; what mathematics could be read into is taken out of it."""
    plain = re.sub(r"[\x00-\x1f\x7f-\x9f]", "�", text).replace("$", r"\$")
    return plain if len(plain) <= letters else plain[: letters - 1] + "…"


@cache
def _fonts() -> list[str]:
    known = set(font_manager.get_font_names())
    return ["DejaVu Sans", *(name for name in _CJK if name in known)]


@contextmanager
def _style() -> Iterator[None]:
    """Settings of these pictures, whatever a matplotlibrc says; a letter without a font is no reason to warn."""
    settings: Any = {
        "font.family": _fonts(),
        "font.size": 9,
        "svg.fonttype": "none",
        "svg.hashsalt": "taskkit",
        "hatch.linewidth": 0.6,
        "axes.titlesize": 10,
    }
    finder = logging.getLogger("matplotlib.font_manager")
    level = finder.level
    with rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        finder.setLevel(logging.ERROR)
        try:
            yield
        finally:
            finder.setLevel(level)

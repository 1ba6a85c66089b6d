# SPDX-License-Identifier: Apache-2.0
"""Draws a roofline as one self-contained SVG, for Markdown, webviews and files."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal
from xml.sax.saxutils import escape

from warplens_tools.roofline.model import LEVELS, MemoryLevel, Point, Roofline

Theme = Literal["light", "dark", "auto"]

WIDTH, HEIGHT = 720, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 24, 56, 56
#: Okabe and Ito's palette, told apart with any colour vision; shapes repeat the difference.
_COLOURS: dict[MemoryLevel, tuple[str, str]] = {
    "dram": ("#0072b2", "#56b4e9"),
    "l2": ("#d55e00", "#e69f00"),
    "shared": ("#007f5f", "#2fc8a0"),
}
_LIGHT = {"--bg": "#ffffff", "--fg": "#1f2328", "--dim": "#59636e", "--grid": "#e4e7eb", "--roof": "#424a53"}
_DARK = {"--bg": "#1e1e1e", "--fg": "#e6e6e6", "--dim": "#a0a6ad", "--grid": "#33373c", "--roof": "#b8bfc6"}
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


class _Axes:
    """Logarithmic axes: operations per byte to the right, operations per second upward."""

    def __init__(self, roofline: Roofline) -> None:
        ridges = [c / m for c in roofline.compute.values() for m in roofline.memory.values()]
        across = [*(p.intensity for p in roofline.points), *ridges, 0.1]
        upward = [*(p.performance for p in roofline.points), *roofline.compute.values()]
        self.x0, self.x1 = _decades(across, 0.5)
        self.y0, self.y1 = _decades([*upward, max(upward, default=1e12) / 1e3], 0.2)

    def x(self, value: float) -> float:
        span = (math.log10(value) - self.x0) / (self.x1 - self.x0)
        return _LEFT + span * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        span = (math.log10(value) - self.y0) / (self.y1 - self.y0)
        return HEIGHT - _BOTTOM - span * (HEIGHT - _TOP - _BOTTOM)


def roofline_svg(roofline: Roofline, *, title: str, theme: Theme = "auto") -> str:
    """The SVG document. "auto" follows the reader's colour scheme."""
    axes = _Axes(roofline)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f"<style>{_style(theme)}</style>",
        f'<rect class="bg" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="fg" x="{_LEFT}" y="22" font-size="14" font-weight="600">{escape(title)}</text>',
        f'<text class="dim" x="{_LEFT}" y="40">{escape(_subtitle(roofline))}</text>',
        *_grid(axes),
        *_compute_roofs(roofline, axes),
        *_memory_roofs(roofline, axes),
        *_points(roofline, axes),
        *_legend(roofline),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _style(theme: Theme) -> str:
    def variables(values: dict[str, str], which: int) -> str:
        colours = {f"--{level}": pair[which] for level, pair in _COLOURS.items()}
        return "".join(f"{k}:{v};" for k, v in {**values, **colours}.items())

    base = variables(_DARK if theme == "dark" else _LIGHT, theme == "dark")
    text = (
        f"svg{{{base}}} .bg{{fill:var(--bg)}} .fg{{fill:var(--fg)}} .dim{{fill:var(--dim)}} "
        ".grid{stroke:var(--grid)} .roof{stroke:var(--roof);fill:none;stroke-width:1.5} "
        ".edge{stroke:var(--bg)}"
    )
    for level in _COLOURS:
        text += f" .l-{level}{{stroke:var(--{level});fill:none;stroke-width:1.8}} .f-{level}{{fill:var(--{level})}}"
    if theme == "auto":
        text += f" @media (prefers-color-scheme: dark){{svg{{{variables(_DARK, 1)}}}}}"
    return text


def _subtitle(roofline: Roofline) -> str:
    roofs = "ceilings measured on this card" if roofline.calibrated else "ceilings derived from attributes"
    points = "" if roofline.points else " · no counted arithmetic, so no point"
    return f"{roofline.gpu} · {_time(roofline.duration_ns)} · {roofs}{points}"


def _time(ns: float) -> str:
    return f"{ns / 1e6:.3g} ms" if ns >= 1e6 else f"{ns / 1e3:.3g} µs"


def _grid(axes: _Axes) -> Iterable[str]:
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    for exponent in range(math.ceil(axes.x0), math.floor(axes.x1) + 1):
        x = axes.x(10.0**exponent)
        yield f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}"/>'
        yield f'<text class="dim" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{10.0**exponent:g}</text>'
    for exponent in range(math.ceil(axes.y0), math.floor(axes.y1) + 1):
        y = axes.y(10.0**exponent)
        yield f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
        yield f'<text class="dim" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{si(10.0**exponent)}</text>'
    middle = (_LEFT + right) / 2
    yield f'<text class="fg" x="{middle:.0f}" y="{HEIGHT - 16}" text-anchor="middle">operations per byte</text>'
    yield (
        f'<text class="fg" transform="translate(18 {(_TOP + bottom) / 2:.0f}) rotate(-90)" '
        'text-anchor="middle">operations per second</text>'
    )


def _compute_roofs(roofline: Roofline, axes: _Axes) -> Iterable[str]:
    """Flat roofs, each from where the fastest memory roof meets it."""
    fastest = max(roofline.memory.values(), default=None)
    taken: list[float] = []
    for kind, ceiling in sorted(roofline.compute.items(), key=lambda item: -item[1]):
        start = axes.x(ceiling / fastest) if fastest else _LEFT
        y = axes.y(ceiling)
        label = y - 5 if all(abs(y - 5 - t) > 12 for t in taken) else y + 14
        taken.append(label)
        yield f'<line class="roof" x1="{max(start, _LEFT):.1f}" y1="{y:.1f}" x2="{WIDTH - _RIGHT}" y2="{y:.1f}"/>'
        text = f"{kind.replace('_', ' ')} {si(ceiling)}"
        yield f'<text class="fg" x="{WIDTH - _RIGHT - 4}" y="{label:.1f}" text-anchor="end">{escape(text)}</text>'


def _memory_roofs(roofline: Roofline, axes: _Axes) -> Iterable[str]:
    """Slanted roofs, each up to the highest flat roof, cut at the plot's left and lower edges."""
    top = max(roofline.compute.values(), default=10.0**axes.y1)
    for level in _known(roofline):
        ceiling = roofline.memory[level]
        low = max(10.0**axes.x0, 10.0**axes.y0 / ceiling)
        high = top / ceiling
        if low < high:
            yield (
                f'<line class="l-{level}" x1="{axes.x(low):.1f}" y1="{axes.y(low * ceiling):.1f}" '
                f'x2="{axes.x(high):.1f}" y2="{axes.y(high * ceiling):.1f}"/>'
            )


def _points(roofline: Roofline, axes: _Axes) -> Iterable[str]:
    for point in roofline.points:
        x, y = axes.x(point.intensity), axes.y(point.performance)
        label = f"{point.compute} at {LEVELS[point.level]}: {point.intensity:.3g} op/B, {si(point.performance)}op/s"
        yield f'<g class="f-{point.level} edge" stroke-width="1">{_mark(point, x, y)}<title>{escape(label)}</title></g>'


def _mark(point: Point, x: float, y: float) -> str:
    if point.level == "dram":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6"/>'
    if point.level == "l2":
        return f'<rect x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10"/>'
    return f'<path d="M{x:.1f} {y - 7:.1f}l7 12h-14z"/>'


def _legend(roofline: Roofline) -> Iterable[str]:
    x, y = _LEFT + 12, _TOP + 16
    for row, level in enumerate(_known(roofline)):
        at = y + 18 * row
        shares = [r for r in roofline.reaches if r.roof == level]
        reached = f", reached {shares[0].share:.0%}" if shares else ""
        text = f"{LEVELS[level]} {si(roofline.memory[level])}B/s{reached}"
        mark = _mark(Point(level, "", 1.0, 1.0), x, at - 4)
        yield f'<g class="f-{level}">{mark}</g>'
        yield f'<text class="fg" x="{x + 14}" y="{at}">{escape(text)}</text>'


def _known(roofline: Roofline) -> list[MemoryLevel]:
    return [level for level in LEVELS if level in roofline.memory]


def _decades(values: Iterable[float], margin: float) -> tuple[float, float]:
    logs = [math.log10(v) for v in values if v > 0 and math.isfinite(v)] or [0.0]
    low, high = math.floor(min(logs) - margin), math.ceil(max(logs) + margin)
    return float(low), float(max(high, low + 1))


def si(value: float) -> str:
    """Three digits and the prefix of a unit."""
    scale, prefix = next(((s, p) for s, p in _PREFIXES if value >= s), (1.0, ""))
    return f"{value / scale:.3g} {prefix}"

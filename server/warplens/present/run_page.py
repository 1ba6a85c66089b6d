# SPDX-License-Identifier: Apache-2.0
"""A run as one HTML page that needs nothing else: the tree, the speedup over evaluations, each version and its diff."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator

from warplens.agent.past import PastRun, PastVersion
from warplens.agent.versions import ROOT
from warplens.measure.verdict import TIMED
from warplens.present.run_report import steps_words, verdict_words

#: Pixels of one column of the tree and one row of it; of the curve.
COLUMN, ROW, WIDTH, HEIGHT = 150, 18, 720, 220
_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}svg{max-width:100%;height:auto;background:#fafafa}
svg text{font:11px system-ui,sans-serif;fill:#333}details{border-top:1px solid #ddd;padding:.3rem 0}
summary{cursor:pointer}pre{overflow:auto;background:#f6f6f6;padding:.6rem}.add{color:#176317}.del{color:#a11}
.faster{fill:#2a8a3a}.same{fill:#999}.slower{fill:#c98a1b}.provisional{fill:#ddd}.failed{fill:#b33}.waiting{fill:#ccc}.best{stroke:#000;stroke-width:2}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#1b1b1b}svg,pre{background:#252525}svg text{fill:#ccc}
.add{color:#7cc47c}.del{color:#e88}}
"""


def run_page(past: PastRun) -> str:
    """The page."""
    run, best = past.run, past.best
    title = f"{run.target.kernel}: run {run.id}"
    gain = f"{best.speedup:.2f}x" if best is not None and best.speedup else "nothing faster"
    outcome = run.outcome or "unfinished"
    facts = f"{run.target.path} on {run.gpu}. {run.target.strategy}, seed {run.target.seed}, {outcome}."
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{_e(title)}</title><style>{_STYLE}</style>",
        f"<h1>{_e(title)}</h1><p>{_e(facts)} {len(past.told)} versions judged, best {_e(gain)}.</p>",
        "<h2>Speedup over evaluations</h2>",
        curve(past),
        "<h2>The tree</h2>",
        tree(past),
        "<h2>Versions</h2>",
        *(_version(past, version) for version in _by_worth(past)),
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def curve(past: PastRun) -> str:
    """The best so far as a line, each verdict as a dot, over the number of verdicts; the speedup is logarithmic."""
    told = past.told
    gains = [math.log2(v.speedup) if v.speedup else None for v in told]
    top = max([0.1, *(g for g in gains if g is not None)])
    low = min([0.0, *(g for g in gains if g is not None)])
    low = max(low, -2.0)

    def at(index: int, gain: float) -> tuple[float, float]:
        x = 50 + index / max(len(told), 1) * (WIDTH - 70)
        return x, 20 + (top - max(gain, low)) / (top - low) * (HEIGHT - 50)

    best, line, dots = 0.0, ["M{:.1f},{:.1f}".format(*at(0, 0.0))], list[str]()
    for index, (version, gain) in enumerate(zip(told, gains, strict=True), start=1):
        x, y = at(index, low if gain is None else gain)
        dots.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="{_class(version)}">{_tip(version)}</circle>'
        )
        line.append(f"H{at(index, best)[0]:.1f}")
        if gain is not None and version.verdict is not None and version.verdict.state == "faster":
            best = max(best, gain)
        line.append(f"V{at(index, best)[1]:.1f}")
    marks = "".join(
        f'<text x="4" y="{at(0, g)[1] + 4:.1f}">{2**g:.2f}x</text>' for g in sorted({low, 0.0, top})
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="best speedup over evaluations">{marks}'
        f'<path d="{" ".join(line)}" fill="none" stroke="#2a6fb0" stroke-width="2"/>{"".join(dots)}'
        f'<text x="{WIDTH - 150}" y="{HEIGHT - 6}">{len(told)} evaluations</text></svg>'
    )


def tree(past: PastRun) -> str:
    """Versions from left to right by depth, each under the one it came from."""
    children: dict[str, list[PastVersion]] = {}
    for version in past.versions.values():
        children.setdefault(version.candidate.parent, []).append(version)
    places, rows = dict[str, tuple[int, int]](), 0
    waiting = [(ROOT, 0)]
    while waiting:
        name, depth = waiting.pop()
        places[name] = (depth, rows)
        below = children.get(name, [])
        rows += 0 if below else 1
        waiting += [(child.candidate.id, depth + 1) for child in reversed(below)]
    deepest = max((depth for depth, _ in places.values()), default=0)
    size = (20 + (deepest + 1) * COLUMN, 20 + max(rows, 1) * ROW)
    body = "".join(
        _drawn(past, places, *version) for version in past.versions.items() if version[0] in places
    )
    x, y = _at(places[ROOT])
    root = f'<circle cx="{x}" cy="{y}" r="5" class="same"/><text x="{x + 8}" y="{y + 4}">baseline</text>'
    return f'<svg viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="search tree">{body}{root}</svg>'


def _drawn(past: PastRun, places: dict[str, tuple[int, int]], name: str, version: PastVersion) -> str:
    x, y = _at(places[name])
    parent_x, parent_y = _at(places[version.candidate.parent])
    best = " best" if version is past.best else ""
    words = f"{version.speedup:.2f}x" if version.speedup is not None else ""
    return (
        f'<path d="M{parent_x},{parent_y} C{parent_x + 40},{parent_y} {x - 60},{y} {x},{y}" fill="none" stroke="#bbb"/>'
        f'<a href="#{name}"><circle cx="{x}" cy="{y}" r="5" class="{_class(version)}{best}">'
        f"{_tip(version)}</circle></a>"
        f'<text x="{x + 8}" y="{y + 4}">{name} {words}</text>'
    )


def _at(place: tuple[int, int]) -> tuple[int, int]:
    return 12 + place[0] * COLUMN, 14 + place[1] * ROW


def _version(past: PastRun, version: PastVersion) -> str:
    steps = "".join(f"<li>{_e(step)}" for step in steps_words(past, version))
    answers = (
        f"<p>Answers {_e(', '.join(version.candidate.answers))}.</p>" if version.candidate.answers else ""
    )
    name = version.candidate.id
    return (
        f'<details id="{name}"><summary>{name} on {_e(version.candidate.parent)}: {_e(version.move.title)}: '
        f"<b>{_e(verdict_words(version))}</b></summary><ol>{steps}</ol>{answers}"
        f"<pre>{''.join(_diff_lines(past.diff(version)))}</pre></details>"
    )


def _diff_lines(diff: str) -> Iterator[str]:
    for line in diff.splitlines():
        kind = {"+": "add", "-": "del"}.get(line[:1], "")
        yield (f'<span class="{kind}">{_e(line)}</span>' if kind else _e(line)) + "\n"


def _by_worth(past: PastRun) -> list[PastVersion]:
    return sorted(past.versions.values(), key=lambda v: -(v.speedup or 0.0))


def _class(version: PastVersion) -> str:
    if version.verdict is None:
        return "waiting"
    state = version.verdict.state
    return state if state in TIMED else "failed"


def _tip(version: PastVersion) -> str:
    return f"<title>{_e(f'{version.move.title}: {verdict_words(version)}')}</title>"


def _e(text: str) -> str:
    return html.escape(text)

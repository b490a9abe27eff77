"""One picture of a bench: lines over a row of points, as SVG that any browser shows. No library draws it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from hotset.bench.stats import Spread

_NAMESPACE = "http://www.w3.org/2000/svg"
_WIDTH, _HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 24, 48, 64
_COLOURS = ("#1f6f8b", "#c8553d", "#588157", "#6d597a")


@dataclass(frozen=True, slots=True)
class Line:
    """One side: at each point its median, with a bar from the lowest to the highest round; None leaves a gap."""

    name: str
    figures: tuple[Spread | None, ...]


def draw(title: str, x_heading: str, y_heading: str, points: Sequence[float], lines: Sequence[Line]) -> str:
    """Return the picture; the upright axis is logarithmic, the other one a row of points at equal distances.

    Args:
        title: Above it.
        x_heading: Below the points.
        y_heading: Beside the upright axis.
        points: What the lines' figures stand at, in order.
        lines: One or several, every figure above 0.
    """
    figures = [figure for line in lines for figure in line.figures if figure is not None]
    low = math.floor(math.log10(min((figure.low for figure in figures), default=1.0)))
    high = max(low + 1, math.ceil(math.log10(max((figure.high for figure in figures), default=10.0))))

    def x(index: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (index + 0.5) / len(points)

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - math.log10(value)) / (high - low)

    parts = [
        f'<svg xmlns="{_NAMESPACE}" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_WIDTH / 2, 24, title, size=16),
        _text(_WIDTH / 2, _HEIGHT - 12, x_heading),
        f'<g transform="rotate(-90 20 {_HEIGHT / 2})">{_text(20, _HEIGHT / 2, y_heading)}</g>',
    ]
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts.append(f'<path d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}" stroke="#dddddd"/>')
        parts.append(_text(_LEFT - 8, at + 4, f"{10.0**power:g}", anchor="end"))
    parts += [_text(x(index), _HEIGHT - _BOTTOM + 22, f"{point:g}") for index, point in enumerate(points)]
    for number, line in enumerate(lines):
        places = [(x(i), y(f.median), y(f.low), y(f.high)) for i, f in enumerate(line.figures) if f is not None]
        colour = _COLOURS[number % len(_COLOURS)]
        parts += _line(places, colour)
        parts.append(_text(_LEFT + 12, _TOP + 18 * (number + 1), line.name, anchor="start", colour=colour))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(places: Sequence[tuple[float, float, float, float]], colour: str) -> list[str]:
    path = "M" + " L".join(f"{at:.1f} {middle:.1f}" for at, middle, _, _ in places)
    bars = "".join(f"M{at:.1f} {bottom:.1f}V{top:.1f}" for at, _, bottom, top in places)
    dots = [f'<circle cx="{at:.1f}" cy="{middle:.1f}" r="4" fill="{colour}"/>' for at, middle, _, _ in places]
    return [f'<path d="{path} {bars}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots] if places else []


def _text(x: float, y: float, text: str, *, anchor: str = "middle", size: int = 13, colour: str = "#333333") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"'
    return f"<text {place}>{escape(text)}</text>"

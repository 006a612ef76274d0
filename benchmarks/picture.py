"""One picture of the pipelines: emails per second as a share of the bare call, and CPU per email."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_WIDTH, _ROW, _NAME, _BAR = 760, 22, 150, 210
_OURS, _OTHER, _BARE = "#1a7f5a", "#9aa5b1", "#52606d"
Json = Mapping[str, Any]


def draw(found: Json) -> str:
    """Give it as SVG, from the JSON of a bench."""
    groups = [
        group
        for group in dict.fromkeys(case["group"] for case in found["cases"])
        if group.startswith("pipeline")
    ]
    parts: list[str] = []
    y = 34
    for group in groups:
        cases = [c for c in found["cases"] if c["group"] == group and c["figures"]]
        parts += _text(0, y, group, weight="bold")
        parts += _text(_NAME, y + 20, "emails/s")
        parts += _text(_NAME + _BAR + 90, y + 20, "CPU ms per email, sender and database")
        y += 30
        parts += _rows(cases, y)
        y += _ROW * len(cases) + 34
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" width="{_WIDTH}" '
        f'height="{y}" font-family="system-ui, sans-serif" font-size="13">'
        f'<rect width="{_WIDTH}" height="{y}" fill="white"/>{"".join(parts)}</svg>\n'
    )


def _rows(cases: Sequence[Json], y: int) -> list[str]:
    parts: list[str] = []
    rates = [_median(case, "emails/s") for case in cases]
    costs = [_median(case, "CPU ms/email") for case in cases]
    for case, rate, cost in zip(cases, rates, costs, strict=True):
        colour = {"mail-service": _OURS, "raw boto3": _BARE}.get(case["case"], _OTHER)
        parts += _text(0, y + 15, case["case"])
        parts += _bar(_NAME, y, rate / max(rates) * _BAR, f"{rate:,.0f}", colour)
        parts += _bar(_NAME + _BAR + 90, y, cost / max(costs) * _BAR, f"{cost:.2f}", colour)
        y += _ROW
    return parts


def _bar(x: int, y: int, width: float, label: str, colour: str) -> list[str]:
    return [
        f'<rect x="{x}" y="{y + 3}" width="{max(1.0, width):.1f}" height="16" fill="{colour}"/>',
        *_text(x + width + 6, y + 15, label),
    ]


def _text(x: float, y: int, text: str, *, weight: str = "normal") -> list[str]:
    return [
        f'<text x="{x:.1f}" y="{y}" font-weight="{weight}" fill="#1f2933">{escape(text)}</text>'
    ]


def _median(case: Json, figure: str) -> float:
    return float(case["figures"].get(figure, {}).get("median") or 0.0)

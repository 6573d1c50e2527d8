"""What can be pressed and what a chart shows stands out by 3 to 1 at least, text by 4.5, in light
and dark: computed from the variables of the style sheet."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

import api.dashboard

_CSS = (Path(api.dashboard.__file__).parent / "static" / "dashboard.css").read_text()
_LIGHT, _DARK = (
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
    for block in re.findall(r":root \{(.*?)\}", _CSS, re.DOTALL)
)


def luminance(colour: str) -> float:
    """As WCAG 2 has it, 0 to 1."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_the_guidelines_say() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", [_LIGHT, _DARK], ids=["light", "dark"])
def test_borders_bars_and_text_stand_out(theme: dict[str, str]) -> None:
    for names, grounds, least in (
        ("edge bar bar-bad bar-wait", "card page hover", 3),
        ("text muted accent good bad wait", "card page", 4.5),
        ("accent-text", "accent", 4.5),
    ):
        for name, ground in product(names.split(), grounds.split()):
            assert contrast(theme[name], theme[ground]) >= least, f"{name} on {ground}"


def test_no_border_of_what_can_be_pressed_is_fainter() -> None:
    """The faint line is for what only divides."""
    pressed = re.compile(
        r"^[^{\n]*(?:input|button|select|textarea|\.choice|\.counts a)[^{\n]*\{[^}]*\}", re.M
    )
    rules = pressed.findall(_CSS)
    assert rules
    assert not [rule for rule in rules if "var(--line)" in rule]

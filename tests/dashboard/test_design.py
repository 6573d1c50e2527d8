"""What holds for the looks of all pages: design tokens alone, contrast, and the bytes of a load."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.dashboard.conftest import ACCEPTED, Browser, Dashboard
from tests.dashboard.test_ticks import busy_account

_STATIC = Path("api/dashboard/static")
_SHEETS = {path.stem: path.read_text() for path in sorted((_STATIC / "css").glob("*.css"))}
_TOKENS = _SHEETS.pop("tokens")
_DECLARED = re.compile(r"([\w-]+):\s*([^;{}]+)[;}]")
_LENGTH = r"(?<![\w.])[\d.]*[1-9][\d.]*(?:px|r?em|ch|v[hw])"
_SPACE = re.compile(r"(?:margin|padding|(?:row-|column-)?gap)(?:-\w+)*")
# What one of these is called by has the name of its height, in whatever property.
_HEIGHTS = re.compile(r"(?<![\w.-])(?:24|32)px")
_COLOUR = re.compile(r"#[0-9a-f]{3,8}\b|\b(?:rgb|hsl|lab|lch|oklch|color)a?\(|\b(?:white|black)\b")
_MOST_PAGE_BYTES, _MOST_FONT_BYTES = 60 * 1024, 60 * 1024
_MOST_WITHOUT_BROTLI = 64 * 1024


def strays(css: str) -> list[str]:
    """Declarations that name a size, a space, a height of a control or a colour themselves."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    found = []
    for name, value in _DECLARED.findall(css):
        is_size = name in ("font", "font-size") and re.search(rf"{_LENGTH}|\d%", value)
        is_space = _SPACE.fullmatch(name) and re.search(_LENGTH, value)
        if is_size or is_space or _HEIGHTS.search(value) or _COLOUR.search(value):
            found.append(f"{name}: {value}")
    return found


def test_no_other_file_than_tokens_names_a_size_a_space_a_height_or_a_colour() -> None:
    bad = ("font: 14px/1 x", "font-size: 1.1em", "margin: 0 -2px", "gap: 1rem", "height: 24px")
    for each in (*bad, "color: #fff", "fill: rgb(0 0 0 / 5%)", "padding: calc(var(--a) + 1px)"):
        assert strays(f"a {{ {each}; }}") == [each]
    good = "margin: 0 auto; font-size: 0; width: 11px; border: 1px solid var(--a); gap: var(--b)"
    assert strays(f"a {{ {good} }}") == []
    assert {name: found for name, css in _SHEETS.items() if (found := strays(css))} == {}


def test_there_are_five_sizes_six_spaces_and_two_heights_and_each_token_is_used() -> None:
    tokens = re.findall(r"^  --([\w-]+):", _TOKENS, flags=re.MULTILINE)
    kinds = [
        re.split("-", token)[0] for token in tokens if re.search(r"-(?:\d|x?[sml]|xl)$", token)
    ]
    assert (kinds.count("text"), kinds.count("space")) == (5, 6)
    assert sum(token.startswith("control") for token in tokens) == 2
    used = set(re.findall(r"var\(--([\w-]+)\)", _TOKENS + "".join(_SHEETS.values())))
    assert set(tokens) - used == set()


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_and_areas_stand_out_from_what_they_stand_on(theme: int) -> None:
    """axe looks at texts only, and at those alone that its pages have."""
    pairs = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", _TOKENS)
    colours = {name: each[theme] for name, *each in pairs}
    for name, colour in colours.items():
        needed = 3 if name.endswith(("-fill", "edge")) else 4.5
        grounds = ("page", "card", "hover", "code")
        if name in (*grounds, "line", "side", "side-here", "accent-text"):
            continue
        for ground in grounds:
            low, high = sorted(_luminance(each) for each in (colour, colours[ground]))
            assert (high + 0.05) / (low + 0.05) >= needed, (name, ground)


async def _load(browser: Browser, path: str, accepted: str) -> tuple[int, int]:
    """The bytes that a browser's first load takes: the page with its sheets and scripts, and the
    font."""
    packed = {"accept-encoding": accepted}
    answer = await browser.client.get("/dashboard" + path, headers=packed)
    sent, fonts = answer.num_bytes_downloaded, 0
    for address in set(re.findall(r'(?:src|href)="(/dashboard/static/[^"]+)"', answer.text)):
        file = await browser.client.get(address, headers=packed)
        while "br" in accepted and file.headers.get("content-encoding") == "gzip":
            # A thread still packs it.
            await asyncio.sleep(0.05)
            file = await browser.client.get(address, headers=packed)
        assert (file.status_code, "immutable" in file.headers["cache-control"]) == (200, True)
        if file.headers["content-type"] == "font/woff2":
            assert "content-encoding" not in file.headers
            fonts += file.num_bytes_downloaded
        else:
            sent += file.num_bytes_downloaded
    return sent, fonts


@pytest.mark.slow
async def test_a_page_of_a_busy_account_loads_in_60_kb_beside_its_font(
    dashboard: Dashboard,
) -> None:
    browser = await busy_account(dashboard)
    for path in ("", "/requests", "/recurring", "/system", "/credits"):
        async with asyncio.timeout(20):
            sent, font = await _load(browser, path, ACCEPTED)
        assert sent <= _MOST_PAGE_BYTES, (path, sent)
        assert 0 < font <= _MOST_FONT_BYTES
        sent, _ = await _load(browser, path, "gzip, deflate")
        assert sent <= _MOST_WITHOUT_BROTLI, (path, sent)


def test_the_font_that_is_preloaded_is_the_one_of_the_sheet() -> None:
    """Otherwise it is loaded twice."""
    [font] = re.findall(r'url\("([^"]+)"\)', _TOKENS)
    base = Path("api/dashboard/templates/base.html").read_text()
    assert f'href="/dashboard/static/{font}" as="font" type="font/woff2" crossorigin' in base
    assert (_STATIC / font).is_file()

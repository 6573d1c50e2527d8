"""Texts of strangers, as they are shown."""

from __future__ import annotations

import json
import unicodedata

import pytest

from scheduler.models import Answer
from scheduler.texts import cut, visible


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com/ä?q=日本語",
        "a\tb\nc\r\nd",
        "\U0001f469\u200d\U0001f680 \u0645\u06cc\u200c\u062e",  # joined, and not
        "עברית",
    ],
)
def test_what_does_no_harm_stays(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/\u202ecod.exe", r"/\u202ecod.exe"),
        ("\u2066a\u2069", r"\u2066a\u2069"),
        ("\x1b[2J\x07", r"\u001b[2J\u0007"),
        ("\x9b31m\x7f\x00", r"\u009b31m\u007f\u0000"),
        ("good\rbad", r"good\u000dbad"),
        ("a\u2028b\u200bc\ufeffd\u00ad", r"a\u2028b\u200bc\ufeffd\u00ad"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_is_obeyed_instead_of_shown_is_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_json_document_means_what_it_did() -> None:
    every = "".join(map(chr, range(0x3000))) + "\ufeff\ufff9"
    document = visible(json.dumps({every: every}, ensure_ascii=False))
    assert json.loads(document) == {every: every}


def test_all_that_turns_letters_round_is_known() -> None:
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    for number in range(0x110000):
        if unicodedata.bidirectional(chr(number)) in turning:
            assert visible(chr(number)) != chr(number)


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        ("abcé".encode(), b"abc"),
        ("ab€".encode(), b"ab"),
        ("a\U0001f680".encode(), b"a"),
        (b"abc\xff\xff", b"abc\xff"),
        (b"abc\xe9", b"abc\xe9"),  # not cut, so all of it counts
        ("abé".encode(), "abé".encode()),
    ],
)
def test_a_cut_goes_through_no_character(data: bytes, kept: bytes) -> None:
    assert cut(data, 4) == kept


def test_the_last_byte_of_an_answer_is_shown_whatever_it_is() -> None:
    assert Answer("text/plain; charset=latin-1", b"caf\xe9").text == "caf\ufffd"

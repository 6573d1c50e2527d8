"""What is no cron expression here is refused with what to write instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scheduler.errors import InvalidRequest
from scheduler.recurrence import zones
from scheduler.recurrence.cron import LONGEST, normalised
from scheduler.recurrence.recurrence import Timing, checked

DOCUMENT = Path(__file__).parents[3] / "docs/reference/recurring.md"


def rows() -> list[tuple[str, str]]:
    """Each expression of the table in the document, and what the refusal says."""
    _, _, table = DOCUMENT.read_text().partition("### Coming from another cron")
    found = re.findall(r"^\| (`.*?`) \| `(.*?)` \|", table.partition("\n## ")[0], re.MULTILINE)
    return [(there, here) for many, here in found for there in re.findall(r"`(.*?)`", many)]


def test_the_table_is_read() -> None:
    assert len(rows()) > 20


@pytest.mark.parametrize(("there", "here"), rows())
def test_what_another_cron_has_is_refused_with_what_to_write(there: str, here: str) -> None:
    said = refusal(there)
    for word in here.split(": "):  # a field, and its value
        assert re.search(rf"(?<!\S){re.escape(word)}(?=[ .:]|$)", said), said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (" @Daily ", "@daily is written 0 0 * * * here."),
        ("@every 1h30m", "Give every instead of cron: 1h30m."),
        ("rate(1 hour)", "Give every instead of cron: 1h."),
        ("@reboot", "give five fields"),
        ("@fortnightly", "this has 1."),
        ("cron_tz=utc 0 9 * * *", "timeZone: utc."),
        ("*/10 * * * * *", "seconds: * * * * *. For less than a minute give every instead."),
        ("0 9 ? * 2-6 *", "the year: 0 9 * * 2-6. Here Sunday is 0 or 7, Monday is 1."),
        ("0 0 9 * *  MON 2026", "the seconds, and the last, the year: 0 9 * * MON."),
        ("x 0 9 * * 99", "Leave out the first, the seconds."),
        ("0 9 15W,20W * *", "The day of the month: the weekday nearest to a day is not known"),
        ("0 9 L-3 * *", "L is the last day."),
        ("0 9 L/2 * *", "L takes no step. Write L."),
        ("0 9 * * Mon-Friday", "Write MON-FRI."),
        ("0 9 * * sat-sun,tues", "ranges go upwards. Write 6-7,TUE."),
        ("0 9 * * saturday-sunday", "Write 6-7."),
        ("0 9 * * FRI-MON", "Write 5-7,1."),
        ("0 9 * * 6-2", "Write 6-7,1-2."),
        ("0 9 28-3 * *", "Write 28-31,1-3."),
        ("0 9 * nov-feb *", "Write 11-12,1-2."),
        ("0 9 * september *", "Write SEP."),
        ("50-10 * * * *", "Write 50-59,0-10."),
        ("60 * * * *", "it goes from 0 to 59. Write 0."),
        ("0 24 * * *", "it goes from 0 to 23. Write 0."),
        ("H/15 * * * *", "The minute: H is not known"),
        ("*/60 * * * *", "*/60 is minute 0 of each hour, and nothing else. Write 0, or"),
        ("*/5,2/90 * * * *", "2/90 is minute 2 of each hour"),
        ("10-20/30 * * * *", "10-20/30 is minute 10 of each hour"),
        ("58/5 * * * *", "58/5 is minute 58 of each hour"),
        ("0 */24 * * *", "*/24 is hour 0 of each day, and nothing else. Write 0, or give every"),
        ("0 0 */31 * *", "*/31 is day 1 of each month"),
        ("0 0 1 */12 *", "*/12 is month 1 of each year, and nothing else. Write 1."),
        ("0 0 * * */7", "*/7 is day 0 of each week, and nothing else. Write 0."),
        ("0 0 * * 0-7/7", "0-7/7 is day 0 of each week"),
        ("0 0 30 2 *", "This date never comes."),
        ("? ? ? ? ?", "The minute: ? is not known"),
        ("cron(" * 40 + ")" * 40, "this has 0."),
        ("?," * 100 + " * * * *", "The minute"),
        ("*/99," * 40 + "1 * * * *", "*/99 is minute 0"),
    ],
)
def test_each_refusal_names_the_way_out(text: str, says: str) -> None:
    assert says in refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        *("*/59 * * * *", "*/45 * * * *", "*/1 * * * *", "10-50/20 * * * *", "10-12/2 * * * *"),
        *("0 */23 * * *", "0 0 */30 * *", "0 0 1 */11 *", "0 0 * * */6"),
        *("0 9 * * SUN-MON", "0 9 * * FRI-7"),
    ],
)
def test_a_step_within_its_field_is_accepted(text: str) -> None:
    assert normalised(text) == text


def test_a_text_is_bounded() -> None:
    assert normalised("1," * 123 + "1 * * * *").startswith("1,")
    assert f"{LONGEST} characters" in refusal("1," * 124 + "1 * * * *")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("utc", "these are case-sensitive: UTC."),
        ("europe/berlin", "these are case-sensitive: Europe/Berlin."),
        ("America/New York", "these are case-sensitive: America/New_York."),
        ("etc/gmt+2", "these are case-sensitive: Etc/GMT+2."),
        ("Berlin", "perhaps Europe/Berlin."),
        ("new york", "perhaps America/New_York."),
        ("UTC+2", "or Etc/GMT-2 for this offset"),
        ("GMT-5", "or Etc/GMT+5 for this offset"),
        ("-05:00", "or Etc/GMT+5 for this offset"),
        ("+05:30", "as Europe/Berlin."),
        ("PST", "abbreviations are none."),
        ("Europe/Atlantis", "as Europe/Berlin."),
        ("../../etc/passwd", "as Europe/Berlin."),
        ("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}stanbul", "as Europe/Berlin."),
        ("", "as Europe/Berlin."),
        ("utc" * 10**5, "as Europe/Berlin."),
    ],
)
def test_a_zone_is_named_that_may_be_meant(name: str, says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        checked(Timing(cron="0 9 * * *", zone=name))
    [detail] = caught.value.details
    assert (detail.field, detail.message.endswith(says) or says in detail.message) == (
        "timeZone",
        True,
    )


def test_every_zone_is_found_by_how_it_is_spelled() -> None:
    for name in zones._names():
        for spelt in (name.lower(), name.upper()):
            assert zones.zone_named(spelt) or f": {name}." in zones.why_no_zone(spelt)


def refusal(text: str) -> str:
    with pytest.raises(ValueError, match=r"\.$") as caught:
        normalised(text)
    return str(caught.value)

"""The table of fields: each can be given and read everywhere, and goes on unchanged."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any, get_type_hints
from zoneinfo import ZoneInfo

import click
import msgspec
import pytest
from msgspec.structs import replace

from api.calls.bulk import OF_BULK
from api.dashboard.requests import form as forms
from api.dashboard.requests.body import BODIES, KEPT
from api.dashboard.requests.filters import read_filter
from api.dashboard.requests.form import edited, fields_of, filled, request_given
from api.dashboard.zones import UTC, Zone
from api.schema import recurring_fields
from api.schema.fields import SHOWN
from api.schema.items import Items
from api.schema.payload import AS_IT_WAS, parse_change, parse_request
from api.schema.query import OF_LOGS, OF_SCHEDULES
from api.schema.rules import Rules
from cli.customer.logs import logs_command
from cli.customer.many import cancel_command, replay_command
from cli.customer.recurring import recurring_group
from cli.customer.schedules import change_command, list_command, schedule_command
from postdate import Recurring, Schedule
from postdate._schema import CreateOptions, Filters, RequestOptions
from postdate.results import camel
from scheduler import models, schema
from scheduler.field_rows import FieldRow
from scheduler.filters import FILTERS, FilterRow
from scheduler.masks import MASK
from scheduler.models import BodyKind, Status, Upsert
from scheduler.runtime.settings import Settings
from scheduler.store.secrecy import Secrecy
from scheduler.store.stored import open_request, seal_request
from tests.samples import CASES, SAMPLES, payload_of, request_of
from tests.store.recurring.test_occurrence_request import made, rule_of

TOKYO = Zone("Asia/Tokyo", ZoneInfo("Asia/Tokyo"))
RULES, CLEAR = Rules.of(Settings()), Secrecy()
NOW_MS = time.time_ns() // 1_000_000
FILTERED = {"lane": "mail", "reference": "order-*", "recurringId": "rec_" + "0" * 26}
FILTERED["label"] = "eu west"
# Options of the command line that have another name in the client.
SPELLED = {"url": "target", "json": "body", "callback_url": "callback"}
OF_RULE = [recurring_group.commands[name] for name in ("create", "change")]


def commands(row: FieldRow) -> list[click.Command]:
    """Those that can give it."""
    if row in schema.ON_EXISTING:
        return [schedule_command]
    return [schedule_command, change_command, *(OF_RULE if not row.instead else ())]


@pytest.mark.parametrize("row", schema.NAMED.values(), ids=schema.NAMED)
def test_the_command_line_and_the_client_can_give_each_field(row: FieldRow) -> None:
    for command in commands(row):
        options = {each.name for each in command.params}
        assert SPELLED.get(row.option, row.option) in options, command.name
    if row.name == "targetUrl":
        return  # an argument of each call
    assert row.option in get_type_hints(CreateOptions)
    is_of_request = row in schema.FIELDS and not row.instead
    assert (row.option in get_type_hints(RequestOptions)) == is_of_request


@pytest.mark.parametrize("row", FILTERS, ids=lambda row: row.name)
def test_each_filter_is_one_of_all_lists_and_bulk_calls(row: FilterRow) -> None:
    for parameters in (OF_SCHEDULES, OF_LOGS, OF_BULK):
        assert row.name in {each.name for each in parameters}
    for command in (list_command, logs_command, cancel_command, replay_command):
        assert row.option in {each.name for each in command.params}, command.name
    assert row.option in get_type_hints(Filters)


@pytest.mark.parametrize("row", [row for row in FILTERS if row.example], ids=lambda row: row.name)
def test_each_filter_of_the_dashboard_is_read_from_its_address_and_stays_in_it(
    row: FilterRow,
) -> None:
    text = FILTERED[row.name]
    wanted, faults = read_filter({row.word: f" {text} "}, UTC, NOW_MS)
    assert (getattr(wanted.query(NOW_MS), row.option), faults) == (text, {})
    assert (wanted.is_search, wanted.pairs()) == (True, {row.word: text})
    wanted, faults = read_filter({row.word: "no, such thing "}, UTC, NOW_MS)
    assert (wanted.is_any, wanted.pairs(), [*faults]) == (False, {}, [row.word])


@pytest.mark.parametrize(
    ("rows", "fields"),
    [
        (forms.OF_CREATE, [*schema.NAMED, "expiresAfter"]),
        (forms.OF_CHANGE, [row.name for row in schema.FIELDS]),
        (forms.OF_RULE, [*recurring_fields.OWN, *recurring_fields.REQUEST]),
    ],
    ids=("create", "edit", "recurring"),
)
def test_each_field_is_in_a_group_of_the_dashboards_forms(
    rows: tuple[FieldRow, ...], fields: list[str]
) -> None:
    groups = filled(rows, {}, {}, {}).groups.values()
    shown = [row for group in groups for row in group.rows]
    assert sorted({row.name for row in shown}.union(BODIES)) == sorted(fields)
    assert all(row.label and row.said for row in shown)


@pytest.mark.parametrize(("name", "value"), CASES)
def test_a_form_gives_each_field_and_an_edit_keeps_it(name: str, value: Any) -> None:
    asked = request_of(name, value, NOW_MS)
    form = request_given(asked, TOKYO, forms.OF_CHANGE)
    assert edited(form, asked, TOKYO, forms.OF_CHANGE) == {}
    given = edited(form | {"timeout": "7"}, asked, TOKYO, forms.OF_CHANGE)
    changed = parse_change(msgspec.json.encode(given), RULES, NOW_MS).of(asked)
    assert changed == replace(asked, timeout_s=7)
    if form["bodyKind"] == KEPT or MASK in str(form) or asked.body == b"":
        return  # it keeps these, and cannot make them
    given = fields_of(schema.FIELDS, form, TOKYO)
    again = parse_request(msgspec.json.encode(given), RULES, NOW_MS)
    if asked.body_kind is BodyKind.JSON and asked.body:  # a form shows it in lines
        assert json.loads(again.body or b"") == json.loads(asked.body)
        again = replace(again, body=asked.body)
    assert again == asked


def test_results_of_the_client_have_each_field_that_is_shown() -> None:
    of_schedule, of_rule = (
        {camel(field.name) for field in dataclasses.fields(kind)} for kind in (Schedule, Recurring)
    )
    shown = {field.name for field in SHOWN}
    assert shown <= of_schedule
    assert shown - of_rule == {"triggerAt", "expiresAt"}


def test_there_is_a_sample_of_each_field() -> None:
    assert [name for name, values in SAMPLES.items() if not values] == []


@pytest.mark.parametrize(("name", "value"), CASES)
def test_a_field_goes_on_unchanged(name: str, value: Any) -> None:
    """Through a batch, the store, a change of another field, a replay and an occurrence."""
    asked = request_of(name, value, NOW_MS)
    text = json.dumps(payload_of(name, value, NOW_MS)).encode()
    items = Items(RULES, NOW_MS)
    for judged in (items.judged(text), items.judged(text)):
        assert not isinstance(judged, Upsert)
        assert open_request(seal_request(judged, CLEAR), CLEAR) == asked
    assert asked == open_request(seal_request(asked, CLEAR), CLEAR)
    changed = parse_change(b'{"timeout": "9s"}', RULES, NOW_MS).of(asked)
    assert changed == replace(asked, timeout_s=9)
    ended = models.Schedule("sch_1", NOW_MS, asked, Status.FAILED)
    again = AS_IT_WAS.of_replay(ended, asked.trigger_at_ms)
    assert again == replace(asked, replay_of="sch_1")
    without = replace(asked, expires_at_ms=None)
    occurrence = open_request(made(rule_of(without), asked.trigger_at_ms), CLEAR)
    assert replace(occurrence, recurring=None) == without

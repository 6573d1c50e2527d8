"""The client has each answer, filter, setting and word of the OpenAPI document under its name."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest

from api.app import create_app
from postdate import (
    Account,
    Callback,
    CallbackOn,
    CallbackStatus,
    Cancelled,
    ClearedLane,
    Created,
    CreatedRecurring,
    DeletedRecurring,
    Delivery,
    FieldError,
    Lane,
    LaneState,
    LogEntry,
    LogFilter,
    LogStatus,
    Phases,
    Postdate,
    Preview,
    Recurring,
    RecurringState,
    Replayed,
    Schedule,
    SigningSecret,
    Stats,
    Status,
    TimeRange,
)
from postdate.lanes import AccountOptions, LaneLimits, LaneOptions
from postdate.operations import Filters
from postdate.results import camel
from scheduler.runtime.settings import Settings

# What the client has besides: of a header, of other fields, or how often a call is made.
# The latter is in the answer to a create that stored nothing new.
_FROM_ELSEWHERE = {"replayed", "existing", "etag"}
_OF_THE_CLIENT = {"schedule_ids", "idempotency_key"}
_NAMES = {"url": "targetUrl"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return dict(create_app(Settings()).state.document)


@pytest.fixture(scope="module")
def schemas(document: dict[str, Any]) -> dict[str, Any]:
    return dict(document["components"]["schemas"])


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Account, "AccountBody"),
        (Callback, "CallbackBody"),
        (Cancelled, "CancelledBody"),
        (ClearedLane, "ClearedLaneBody"),
        (Created, "CreatedBody"),
        (CreatedRecurring, "CreatedRecurringBody"),
        (DeletedRecurring, "DeletedRecurringBody"),
        (FieldError, "FieldError"),
        (Lane, "LaneBody"),
        (LogEntry, "LogEntryBody"),
        (Phases, "PhasesBody"),
        (Preview, "PreviewBody"),
        (Recurring, "RecurringBody"),
        (Replayed, "ReplayBody"),
        (Schedule, "ScheduleBody"),
        (SigningSecret, "SecretBody"),
        (Stats, "UsageBody"),
        (TimeRange, "TimeRangeBody"),
    ],
)
def test_a_result_has_all_that_an_answer_has(
    schemas: dict[str, Any], kind: type[Any], name: str
) -> None:
    own = {camel(field.name) for field in fields(kind)} - _FROM_ELSEWHERE
    assert own == set(schemas[name]["properties"])


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (CallbackOn, "CallbackOn"),
        (CallbackStatus, "CallbackStatus"),
        (Delivery, "Delivery"),
        (LaneState, "LaneState"),
        (LogStatus, "LogStatus"),
        (RecurringState, "RuleState"),
        (Status, "Status"),
    ],
)
def test_a_word_is_one_of_the_documents(schemas: dict[str, Any], words: Any, name: str) -> None:
    assert set(get_args(words)) == set(schemas[name]["enum"])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("lanes", "/lanes"),
        ("list", "/schedule"),
        ("logs", "/stats/logs"),
        ("preview_recurring", "/recurring/preview"),
        ("recurring_all", "/recurring"),
        ("stats", "/stats"),
    ],
)
def test_every_parameter_is_an_argument(document: dict[str, Any], method: str, path: str) -> None:
    asked = {each["name"] for each in document["paths"][path]["get"]["parameters"]}
    assert arguments(method) == asked - {"cursor"}


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (LaneLimits, "LaneRequest"),
        (LaneOptions, "LaneChangeRequest"),
        (AccountOptions, "AccountRequest"),
    ],
)
def test_every_setting_is_an_option(schemas: dict[str, Any], options: Any, name: str) -> None:
    assert set(map(camel, get_type_hints(options))) == set(schemas[name]["properties"])


@pytest.mark.parametrize(
    ("method", "name"), [("cancel_many", "WaitingFilter"), ("replay_many", "FailedFilter")]
)
def test_every_filter_of_many_is_an_argument(
    schemas: dict[str, Any], method: str, name: str
) -> None:
    assert arguments(method) == set(schemas[name]["properties"]) - {"cursor", "status"}


def test_the_log_is_filtered_by_every_word(document: dict[str, Any]) -> None:
    parameters = document["paths"]["/stats/logs"]["get"]["parameters"]
    [status] = (each for each in parameters if each["name"] == "status")
    words = {word for each in get_args(LogFilter) for word in get_args(each) or (each,)}
    assert words == set(status["schema"]["items"]["enum"])


def arguments(method: str) -> set[str]:
    """By the names of the API."""
    given = [*inspect.signature(getattr(Postdate, method).__wrapped__).parameters]
    if "filters" in given:
        given[-1:] = Filters.__annotations__
    return {
        _NAMES.get(name, camel(name)) for name in given if name not in {"self"} | _OF_THE_CLIENT
    }

"""The client has each answer, filter, setting and word of the OpenAPI document under its name."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest

import postdate
from api.app import create_app
from postdate import LogFilter, Postdate
from postdate.lanes import AccountOptions, LaneLimits, LaneOptions
from postdate.operations import Filters
from postdate.results import camel
from scheduler.runtime.settings import Settings

# What the client has besides: of a header, of other fields, or how often a call is made.
# The latter is in the answer to a create that stored nothing new.
_FROM_ELSEWHERE = {"replayed", "existing", "etag"}
_OF_THE_CLIENT = {"schedule_ids", "idempotency_key", "on_results"}
_NAMES = {"url": "targetUrl"}
# What the document calls by another name than the client does.
_SCHEMAS = {
    "FieldError": "FieldError",
    "RecurringState": "RuleState",
    "Replayed": "ReplayBody",
    "SigningSecret": "SecretBody",
    "Stats": "UsageBody",
}
RESULTS = """Account Callback Cancelled ClearedLane Created CreatedRecurring DeletedRecurring
FieldError Lane LogEntry Phases Preview Recurring Replayed Resent Schedule SigningSecret
Stats TimeRange"""
WORDS = "CallbackOn CallbackStatus Delivery LaneState LogStatus RecurringState RetryOn Status"
LISTS = {
    "lanes": "/lanes",
    "list": "/schedule",
    "logs": "/stats/logs",
    "preview_recurring": "/recurring/preview",
    "recurring_all": "/recurring",
    "stats": "/stats",
}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return dict(create_app(Settings()).state.document)


@pytest.fixture(scope="module")
def schemas(document: dict[str, Any]) -> dict[str, Any]:
    return dict(document["components"]["schemas"])


@pytest.mark.parametrize("name", RESULTS.split())
def test_a_result_has_all_that_an_answer_has(schemas: dict[str, Any], name: str) -> None:
    own = {camel(field.name) for field in fields(getattr(postdate, name))} - _FROM_ELSEWHERE
    assert own == set(schemas[_SCHEMAS.get(name, f"{name}Body")]["properties"])


@pytest.mark.parametrize("name", WORDS.split())
def test_a_word_is_one_of_the_documents(schemas: dict[str, Any], name: str) -> None:
    words = get_args(getattr(postdate, name))
    assert set(words) == set(schemas[_SCHEMAS.get(name, name)]["enum"])


@pytest.mark.parametrize(("method", "path"), LISTS.items())
def test_every_parameter_is_an_argument(document: dict[str, Any], method: str, path: str) -> None:
    asked = {each["name"] for each in document["paths"][path]["get"]["parameters"]}
    assert arguments(method) == asked - {"cursor"}


def test_every_setting_is_an_option_and_every_filter_of_many_an_argument(
    schemas: dict[str, Any],
) -> None:
    properties = {name: set(each.get("properties", ())) for name, each in schemas.items()}
    for options, name in (
        (LaneLimits, "LaneRequest"),
        (LaneOptions, "LaneChangeRequest"),
        (AccountOptions, "AccountRequest"),
    ):
        assert set(map(camel, get_type_hints(options))) == properties[name]
    for method, name, own in (
        ("cancel_many", "WaitingFilter", {"cursor", "status"}),
        ("replay_many", "FailedFilter", {"cursor", "status"}),
        ("resend_callbacks", "ReportedFilter", {"cursor"}),
    ):
        assert arguments(method) == properties[name] - own


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

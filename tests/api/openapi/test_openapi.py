"""GET /schema/openapi.json and GET /schema."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

from api.openapi.operations import OPERATIONS
from api.schema.fields import FIELDS, ON_EXISTING
from scheduler.callbacks import Response
from scheduler.models import Outcome, Request, Status
from tests.api.conftest import Api, client_of, past
from worker.send.request import _OWN_OF_CALLBACK

METHODS = ("get", "post", "put", "patch", "delete")


@pytest.fixture
async def document(api: Api) -> dict[str, Any]:
    async with client_of(api.app) as client:
        answer = await client.get("/schema/openapi.json")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    return dict(answer.json())


def operations(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": item[method]
        for path, item in found["paths"].items()
        for method in METHODS
        if method in item
    }


async def test_every_endpoint_of_the_api_is_in_it(api: Api, document: dict[str, Any]) -> None:
    described = set(operations(document))
    served = {
        f"{method} {route.path_format.replace('_id}', 'Id}')}"
        for route in api.app.routes
        for method in getattr(route, "methods", ())
        if method not in ("OPTIONS", "HEAD") and route.path_format != "/"
    }
    assert described == {each for each in served if not re.search(r" /(schema|dashboard)", each)}


def test_calls_come_in_the_order_of_their_table_in_every_process(document: dict[str, Any]) -> None:
    firsts = [next(iter(item.values()))["operationId"] for item in document["paths"].values()]
    assert firsts == [name for name in OPERATIONS if name in firsts]


def test_every_call_with_a_key_may_be_refused_and_says_so(document: dict[str, Any]) -> None:
    schemes = {
        "ApiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
        "Bearer": {"type": "http", "scheme": "bearer"},
    }
    assert document["components"]["securitySchemes"] == schemes
    assert document["security"] == [{"ApiKey": []}, {"Bearer": []}]
    for name, operation in operations(document).items():
        if name in ("GET /healthz", "GET /readyz"):
            assert operation["security"] == []
        else:
            assert {"401", "414", "429", "431", "500", "503"} <= set(operation["responses"]), name
            assert "security" not in operation


def test_every_field_of_the_table_is_in_it(document: dict[str, Any]) -> None:
    found = document["components"]["schemas"]
    assert list(found["ScheduleRequest"]["properties"]) == [*FIELDS, *ON_EXISTING]
    shown = {name for name, field in FIELDS.items() if field.show is not None}
    assert set(FIELDS) & set(found["ScheduleBody"]["properties"]) == shown
    assert list(found["ChangeRequest"]["properties"]) == list(FIELDS)
    for field in FIELDS.values():
        assert field.schema["description"]
        assert field.holds or hasattr(Request(0, "GET", ""), field.of)


async def test_a_callback_is_as_its_webhook_says(api: Api, document: dict[str, Any]) -> None:
    [sent] = [item["post"] for item in document["webhooks"].values()]
    content = sent["requestBody"]["content"]["application/json"]
    root = {**document, "$ref": content["schema"]["$ref"]}
    shown = content["example"]
    ask = {"callbackUrl": "https://example.com/ended", "callbackInclude": "response"}
    said = Response((("A", "b"),), b"later")
    for fields in ({}, {"reference": "a", "lane": "b"}):
        await api.create_id(triggerAt=past(), **ask, **fields)
        await api.execute(Outcome(Status.FAILED, 503, 41, "Service Unavailable", response=said))
        [call] = await api.claim()
        report = json.loads(call.request.body or b"")
        assert report["data"].keys() - fields == shown["data"].keys() - {"reference"}
        for each in (report, shown):
            jsonschema.validate(each, root)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**report, "type": "schedule.cancelled"}, root)
    by_us = re.findall(rb"Postdate-[\w-]+", _OWN_OF_CALLBACK)
    named = {each["name"] for each in sent["parameters"] if each["required"]}
    assert named == {f"webhook-{each}" for each in ("id", "timestamp", "signature")} | {
        each.decode() for each in by_us
    }


def test_what_is_sent_has_no_defaults(document: dict[str, Any]) -> None:
    found = document["components"]["schemas"]
    for name in ("ScheduleRequest", "ChangeRequest", "BatchRequest"):
        assert '"default":' not in json.dumps(found[name])
        if "targetBody" in found[name]["properties"]:
            assert found[name]["properties"]["targetBody"]["additionalProperties"] is True
    assert "required" not in found["ChangeRequest"]
    assert found["ScheduleRequest"]["required"] == ["targetUrl"]


async def test_the_page_asks_for_nothing_but_what_is_served_here(api: Api) -> None:
    async with client_of(api.app) as client:
        page = await client.get("/schema")
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none';")
        assert "http" not in policy
        assert "unsafe" not in policy
        links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        local = [link for link in links if not link.startswith("data:")]
        assert len(local) >= 3
        for link in local:
            assert link.startswith("/schema/")
            asset = await client.get(link)
            assert asset.status_code == 200, link
            assert asset.headers["content-type"]

"""Every refusal is an exception with the server's sentence."""

from __future__ import annotations

from typing import get_args

import pytest

import postdate
from scheduler import errors as reasons
from tests.client.both import BASE_URL, KEY, Answer, Client, Server, answer, error
from tests.client.shared import SHARED


@pytest.mark.parametrize(("status", "kind"), SHARED["errors"].items())
def test_a_status_is_an_exception_and_is_not_repeated_for_nothing(
    client: Client, server: Server, status: str, kind: str
) -> None:
    server.plays(error(int(status), "The server's own sentence"))
    with pytest.raises(postdate.PostdateError, match=r"^The server's own sentence$") as caught:
        client.credits()
    assert type(caught.value) is getattr(postdate, kind)
    assert caught.value.status_code == int(status)
    assert (len(server.requests) > 1) == (int(status) in SHARED["repeated"])


def test_an_error_has_what_the_answer_says(client: Client, server: Server) -> None:
    details = [{"field": "targetUrl", "message": "No."}, {"field": "triggerAt", "message": "Nor."}]
    server.plays(error(400, details=details))
    with pytest.raises(postdate.InvalidRequest) as invalid:
        client.schedule("x", in_=1)
    fields = (postdate.FieldError("targetUrl", "No."), postdate.FieldError("triggerAt", "Nor."))
    assert invalid.value.details == fields
    server.plays(error(409, "It has ended", status="completed"))
    with pytest.raises(postdate.Conflict) as conflict:
        client.change("sch_1", in_=1)
    assert conflict.value.status == "completed"
    server.plays(error(404, "No", reason="unknown_schedule", requestId="req_1"))
    with pytest.raises(postdate.NotFound) as unknown:
        client.get("sch_1")
    assert (unknown.value.reason, unknown.value.request_id) == ("unknown_schedule", "req_1")
    server.plays(Answer(500, b"<html>", {}))
    with pytest.raises(
        postdate.PostdateError, match="The server answered 500 Internal Server Error"
    ):
        client.credits()


def test_the_reasons_are_the_servers() -> None:
    assert list(get_args(postdate.Reason)) == list(reasons.Reason)


@pytest.mark.parametrize(
    "strange",
    [Answer(200, b"<html>", {}), answer(200, {"creditsRemaining": None}), answer(200, {})],
)
def test_an_answer_that_is_none_of_postdates_is_an_error_of_ours(
    client: Client, server: Server, strange: Answer
) -> None:
    server.plays(strange)
    with pytest.raises(postdate.PostdateError, match=r"not come from Postdate"):
        client.credits()


@pytest.mark.parametrize("key", ["", "two words", "x" * 256])
def test_an_idempotency_key_that_cannot_be_one_is_refused_before_anything_is_sent(
    client: Client, server: Server, key: str
) -> None:
    with pytest.raises(ValueError, match="1 to 255 visible ASCII characters, unlike '"):
        client.schedule("https://example.com", in_=1, idempotency_key=key)
    assert server.requests == []


@pytest.mark.parametrize("kind", [postdate.Postdate, postdate.AsyncPostdate])
def test_the_environment_has_the_defaults(
    kind: type[postdate.Postdate] | type[postdate.AsyncPostdate], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTDATE_URL", BASE_URL + "/")
    monkeypatch.setenv("POSTDATE_API_KEY", KEY)
    by_default = kind()
    assert (by_default._base_url, by_default._headers["x-api-key"]) == (BASE_URL, KEY)
    given = kind("http://other.example", "pd_other")
    assert (given._base_url, given._headers["x-api-key"]) == ("http://other.example", "pd_other")
    with pytest.raises(ValueError, match="has characters that no key has"):
        kind(api_key="pd_\n")
    monkeypatch.setenv("POSTDATE_API_KEY", "")
    with pytest.raises(ValueError, match=r"^Give api_key, or set POSTDATE_API_KEY\.$"):
        kind()

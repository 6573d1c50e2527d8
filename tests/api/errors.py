"""Errors as the API answers them."""

from __future__ import annotations

import re
from typing import Any

import httpx

from api.request_ids import PATTERN
from tests.api.process import Reply


def error_of(answer: httpx.Response | Reply) -> dict[str, Any]:
    """The body without its `requestId`, which is the one in the header."""
    body = dict(answer.json if isinstance(answer, Reply) else answer.json())
    request_id = body.pop("requestId")
    assert re.match(PATTERN, request_id)
    assert request_id == answer.headers["postdate-request-id"]
    return body


def refusal_of(answer: httpx.Response) -> tuple[Any, ...]:
    """The status, the sentence, the reason, and what else the body has."""
    body = error_of(answer)
    return answer.status_code, body.pop("error"), body.pop("reason"), *body.values()

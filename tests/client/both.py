"""Both clients behind one face, so that each test is written once; and a server that follows a
script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self

import httpx

from postdate import AsyncPostdate, Postdate

BASE_URL = "http://postdate.example"
KEY = "pd_00_key"
URL = "https://example.com/hook"
MORNING = datetime(2026, 11, 20, 8, tzinfo=UTC)
MORNING_TEXT = "2026-11-20T08:00:00.000Z"
CREATED = {"scheduleId": "sch_1", "invocationId": "inv_1", "triggerAt": MORNING_TEXT}


class Answer(NamedTuple):
    """What a response is made of: one can be sent only once."""

    code: int
    content: bytes
    headers: dict[str, str]


Step = Answer | Exception


class Server:
    """Answers requests by a script; an exception is a connection that fails that way. The last
    step is repeated."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self._script: list[Step] = []

    def plays(self, *steps: Step) -> None:
        self._script = list(steps)

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        step = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if isinstance(step, Exception):
            raise step
        return httpx.Response(step.code, content=step.content, headers=step.headers)

    @property
    def asked(self) -> list[tuple[str, str]]:
        """Method and path of each request."""
        return [(each.method, each.url.path) for each in self.requests]

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(each.content or b"null") for each in self.requests]

    @property
    def queries(self) -> list[dict[str, str]]:
        return [dict(each.url.params) for each in self.requests]

    def sent(self, header: str) -> list[str | None]:
        return [each.headers.get(header) for each in self.requests]


def answer(code: int, body: Any = None, **headers: str) -> Answer:
    """`retry_after="2"` is the header Retry-After."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(code, json.dumps(body).encode(), named)


def error(code: int, sentence: str = "No", **more: Any) -> Answer:
    return answer(code, {"error": sentence, **more})


class Clock:
    """Time that passes by sleeping only."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds


class Client:
    """Either client: its methods return results, and lists instead of iterators."""

    def __init__(self, mode: str, base_url: str, key: str, **options: Any) -> None:
        self._runner = asyncio.Runner()
        handler: Callable[[httpx.Request], httpx.Response] | None = options.pop("handler", None)
        transport = httpx.MockTransport(handler) if handler else None
        self.inner: Postdate | AsyncPostdate
        if mode == "blocking":
            http = httpx.Client(transport=transport) if transport else None
            self.inner = Postdate(base_url, key, http=http, **options)
        else:
            a_http = httpx.AsyncClient(transport=transport) if transport else None
            self.inner = AsyncPostdate(base_url, key, http=a_http, **options)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.inner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if isinstance(self.inner, Postdate):
                result = method(*args, **kwargs)
                return list(result) if isinstance(result, Iterator) else result
            return self._runner.run(_awaited(method, args, kwargs))

        return call

    def with_options(self, **options: Any) -> Client:
        copied = Client.__new__(Client)
        copied._runner = self._runner
        copied.inner = self.inner.with_options(**options)
        return copied

    def close_inner(self) -> None:
        if isinstance(self.inner, Postdate):
            self.inner.close()
        else:
            self._runner.run(self.inner.aclose())

    def close(self) -> None:
        self.close_inner()
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _awaited(method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    result = method(*args, **kwargs)
    if hasattr(result, "__aiter__"):
        return [item async for item in result]
    return await result

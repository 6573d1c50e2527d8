"""Blocking or awaiting: the difference between the two clients. And what forks do not share.

Every operation is one `async def`. In the blocking client it awaits only what does its I/O at once
and never suspends, so a single step runs it to its end.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
)
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    cast,
    overload,
)

import httpx

if TYPE_CHECKING:
    from postdate.transport import Transport

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

_CONNECTIONS = 100  # httpx's own limit


class PerProcess(Generic[T]):
    """Makes a T now, and another at its first use in each forked process; threads may share it.
    `abandon` gets what a fork inherited, and must not touch the parent's connections. `closed` is
    the sentence of the error after `close`."""

    def __init__(
        self, make: Callable[[], T], closed: str, abandon: Callable[[T], None] | None = None
    ) -> None:
        self._make, self._abandon = make, abandon
        self._closed = closed
        self._is_closed = False
        # No lock: the thread that holds one is gone in a fork. Each step below is atomic.
        self._made = {os.getpid(): make()}

    def get(self) -> T:
        """This process's. Raises RuntimeError after `close`, in this process or an ancestor."""
        if self._is_closed:
            raise RuntimeError(self._closed)
        pid = os.getpid()
        made = self._made.get(pid)
        if made is None:
            made = self._made.setdefault(pid, self._make())
            self._drop_inherited(pid)
        return made

    def close(self) -> T | None:
        """This process's, if it has one, for the caller to close."""
        self._is_closed = True
        return self._made.get(os.getpid())

    def _drop_inherited(self, pid: int) -> None:
        for other in [each for each in list(self._made) if each != pid]:
            inherited = self._made.pop(other, None)
            if inherited is not None and self._abandon is not None:
                self._abandon(inherited)


class Given(Generic[T]):
    """The caller's own; no other can be made in a fork."""

    def __init__(self, given: T) -> None:
        self._given = given
        self._pid: int | None = None

    def get(self) -> T:
        """Raises RuntimeError in a fork if it was used before: connections are the parent's."""
        pid = os.getpid()
        if self._pid is None:
            self._pid = pid
        if self._pid != pid:
            raise RuntimeError(
                "The httpx client given as `http` was used before a fork. Make a client with a new"
                " one in the child process."
            )
        return self._given

    def close(self) -> None:
        """Nothing: it stays open."""


class Borrowed(Generic[T]):
    """Another client's; it stays open."""

    def __init__(self, get: Callable[[], T]) -> None:
        self.get = get

    def close(self) -> None:
        """Nothing."""


class HttpPool:
    """httpx's pool looks at all its requests, waiting ones too, whenever one comes or goes: so it
    gets no more than it has connections."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._turns = threading.BoundedSemaphore(_CONNECTIONS)
        self._http = httpx.Client(**settings)

    def close(self) -> None:
        self._http.close()

    def send(self, request: httpx.Request) -> httpx.Response:
        with self._turns:
            request.extensions.pop("trace")("turn.started", {})  # httpx would call it 20 times
            return self._http.send(request)


class Blocking:
    _http: PerProcess[HttpPool] | Given[httpx.Client] | Borrowed[Any]

    async def _send(self, request: httpx.Request, begins: Callable[[], None]) -> httpx.Response:
        request.extensions["trace"] = lambda *_: begins()
        return self._http.get().send(request)

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251  # this is the blocking mode

    def _run(self, operation: Awaitable[T]) -> T:
        try:
            operation.__await__().send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        raise AssertionError("a blocking operation was suspended")

    def _iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        try:
            while True:
                yield self._run(anext(items))
        except StopAsyncIteration:
            return
        finally:
            self._run(items.aclose())


class Awaiting:
    _http: (
        PerProcess[httpx.AsyncClient]
        | PerProcess[Transport]
        | Given[httpx.AsyncClient]
        | Borrowed[Any]
    )

    async def _send(self, request: httpx.Request, begins: Callable[[], None]) -> httpx.Response:
        async def trace(*_: object) -> None:
            begins()

        request.extensions["trace"] = trace
        return await self._http.get().send(request)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def _run(self, operation: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        return operation

    def _iterate(self, items: AsyncGenerator[T, None]) -> AsyncIterator[T]:
        return items


# How one definition has two types: `operation` and `listing` are descriptors, and what
# `client.get` is depends on the client through which it is looked up. The overloads of `__get__`
# tell that to type checkers, and ParamSpec carries the arguments over, names, defaults and all.
class _Twofold(Generic[P, R]):
    """A method of which a client's mode, by its `_run` or `_iterate`, decides how it is used."""

    _driver: str

    def __init__(self, function: Callable[Concatenate[Any, P], R]) -> None:
        self._function = function
        functools.update_wrapper(cast("Callable[P, R]", self), function)

    def _bound(self, client: Any) -> Any:
        if client is None:
            return self  # looked up in the class, for its documentation
        drive = getattr(client, self._driver)

        @functools.wraps(self._function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return drive(self._function(client, *args, **kwargs))

        return call


class operation(_Twofold[P, Coroutine[Any, Any, T]]):  # noqa: N801  # it is used as a decorator
    """A plain method of a `Blocking` client, a coroutine of an `Awaiting` one."""

    _driver = "_run"

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Awaiting, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Blocking | Awaiting | None, owner: type) -> Any:
        return self._bound(client)


class listing(_Twofold[P, AsyncGenerator[T, None]]):  # noqa: N801
    """An iterator from a `Blocking` client, an asynchronous one from an `Awaiting` client."""

    _driver = "_iterate"

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: Awaiting, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Blocking | Awaiting | None, owner: type) -> Any:
        return self._bound(client)

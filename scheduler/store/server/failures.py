"""What the client, the event loop and the server raise, as the store's errors: nowhere else. And
the log of a store that cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from redis import exceptions

from scheduler.errors import (
    OutcomeUnknown,
    StoreError,
    StoreFull,
    StoreMisconfigured,
    StoreRefused,
    StoreUnavailable,
    Unreadable,
)
from scheduler.runtime.reminder import Reminder
from scheduler.runtime.settings import Settings, without_password

_log = structlog.get_logger(__name__)

# Errors about the server's state, not the command: a repeat may help. For some of them the client
# has types, and drops the word.
_NOT_NOW = ("MISCONF ", "NOREPLICAS ", "BUSY ", "UNBLOCKED ")
_NOT_NOW_TYPES = (
    exceptions.ReadOnlyError,
    exceptions.MasterDownError,
    exceptions.ClusterDownError,
    exceptions.TryAgainError,
)
# Of a key of the wrong type, and of a number that a script found to be none.
_DAMAGED = ("WRONGTYPE ", "DAMAGED ")
# Of a script that ran into the limit, and of one that was to begin beyond it.
_FULL = ("OOM command not allowed", "used memory > 'maxmemory'")


@contextmanager
def translated(but: type[Exception] | tuple[()] = ()) -> Iterator[None]:
    """Turns what the client and the event loop raise into the store's errors, all but `but`.
    StoreUnavailable: certainly not done. OutcomeUnknown: the reply was lost on its way.
    StoreMisconfigured, StoreRefused: no repeat can help, for all commands or for this one.
    Unreadable: what the command is about is damaged, and nothing was done."""
    try:
        yield
    except but:
        raise
    except Exception as error:
        meaning = _meaning(error)
        if meaning is None:
            raise
        kind, sentence = meaning
        raise kind(sentence) from error


_Meaning = tuple[type[StoreError], str]


def meant(error: Exception) -> Exception:
    """What `translated` raises of a reply that is an error."""
    kind, sentence = _meaning(error) or (type(error), str(error))
    found = kind(sentence)
    found.__cause__ = error
    return found


def reason_of(error: BaseException) -> str:
    """Why, in the words of the client or of the system: they name host, port and error number."""
    cause = error
    while isinstance(cause, StoreError) and cause.__cause__ is not None:
        cause = cause.__cause__
    return str(cause) or type(cause).__name__


def _meaning(error: Exception) -> _Meaning | None:
    if isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError):
        return StoreMisconfigured, f"The store refuses us: {error}"
    if isinstance(error, exceptions.ResponseError):
        return _refusal(error)
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError | OSError):
        if _says_wrong_password(error):
            return StoreMisconfigured, f"The store refuses us: {error}"
        if isinstance(error, exceptions.BusyLoadingError):
            return StoreUnavailable, "The store cannot be reached"
        return OutcomeUnknown, "The store's answer was lost"
    if isinstance(error, exceptions.RedisClusterException):
        return _no_cluster(error)
    if isinstance(error, exceptions.RedisError):
        return StoreUnavailable, "The store cannot be used right now"
    if isinstance(error, RuntimeError | AttributeError):
        # uvloop, over a connection that was reset while idle; redis-py's cluster client, over those
        # that it closed itself.
        return OutcomeUnknown, "The store's client stumbled"
    return None


@contextmanager
def never_sent() -> Iterator[None]:
    """Around making a connection: whatever fails in it, no command was sent."""
    try:
        with translated():
            yield
    except OutcomeUnknown as error:
        raise StoreUnavailable("The store cannot be reached") from error


def _refusal(error: exceptions.ResponseError) -> _Meaning:
    text = f"{error} "
    if isinstance(error, exceptions.AskError):
        return StoreUnavailable, "The shard is on its way to another node"
    if isinstance(error, exceptions.OutOfMemoryError) or any(sign in text for sign in _FULL):
        return StoreFull, "The store is full"
    if isinstance(error, _NOT_NOW_TYPES) or text.startswith(_NOT_NOW):
        return StoreUnavailable, "The store is not writable"
    if text.startswith(_DAMAGED):
        return Unreadable, f"Stored data is damaged: {error}"
    return StoreRefused, f"The store refused a command: {error}"


def _no_cluster(error: exceptions.RedisClusterException) -> _Meaning:
    """The cluster's client asks the nodes for their slots first; why that failed is its cause."""
    if "Cluster mode is not enabled" in str(error):
        return StoreMisconfigured, "The store is no Redis Cluster: its URL begins with redis://"
    if error.__cause__ is not None and _says_wrong_password(error.__cause__):
        return StoreMisconfigured, f"The store refuses us: {error.__cause__}"
    return StoreUnavailable, "The store cannot be reached"


def _says_wrong_password(error: BaseException) -> bool:
    """redis-py wraps a failed AUTH in a ConnectionError, which would be retried in silence."""
    if isinstance(error.__cause__, exceptions.AuthenticationError):
        return True
    text = str(error)
    return any(sign in text for sign in ("WRONGPASS", "NOAUTH", "invalid username-password"))


class Unreachable:
    """Logs at first and once a minute why the store cannot be reached, and the end of that."""

    def __init__(self, settings: Settings) -> None:
        self._url = without_password(settings.redis_url or "")
        self._reminder = Reminder()

    def note(self, error: StoreError) -> None:
        if self._reminder.is_due():
            _log.error(
                "the store cannot be reached; trying on", store=self._url, reason=reason_of(error)
            )

    def end(self) -> None:
        if self._reminder.end():
            _log.info("the store can be reached again", store=self._url)

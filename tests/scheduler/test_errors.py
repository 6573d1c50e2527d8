"""Errors that are kept, or raised for several callers."""

from __future__ import annotations

import contextlib

import pytest
from redis import exceptions

from scheduler import errors
from scheduler.models import Status


@pytest.mark.parametrize(
    "error",
    [
        errors.StoreFull("The store is full"),
        errors.Conflict("It has ended", Status.FAILED, errors.Reason.ALREADY_ENDED),
        errors.InvalidRequest([errors.FieldError("a", "b")], unlisted=3),
        errors.TooManyLanes(),
        errors.RecurringNameTaken("ours"),
        errors.TooManySecrets(3),
        errors.KeyReused(),
        exceptions.AskError("5 127.0.0.1:7000"),
        ConnectionRefusedError(111, "Connection refused"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_anew_says_the_same_and_leads_to_no_frame(error: Exception) -> None:
    cause = ValueError("cause")
    with contextlib.suppress(ValueError):
        raise cause
    with contextlib.suppress(type(error)):
        raise error from cause
    again = errors.anew(error)
    assert again is not error
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    assert getattr(again, "errno", None) == getattr(error, "errno", None)
    assert again.__cause__ is not cause
    assert str(again.__cause__) == "cause"
    assert (again.__traceback__, again.__context__) == (None, None)
    assert again.__cause__.__traceback__ is None


@pytest.mark.parametrize(
    ("sentence", "said"), [(None, "a: is bad; b: is worse"), ("Two are bad", "Two are bad")]
)
def test_bad_input_is_told_by_a_sentence_or_by_its_faults(sentence: str | None, said: str) -> None:
    faults = [errors.FieldError("a", "is bad"), errors.FieldError("b", "is worse")]
    assert str(errors.InvalidRequest(faults, sentence)) == said

"""Where a failure is reported instead: a table of who gets which end, and of a report that is sent
again to another URL."""

from __future__ import annotations

import pytest

from scheduler.callbacks import UNSAID, Callback, CallbackOn, sent_again_to, sent_to
from scheduler.errors import InvalidRequest
from scheduler.models import Outcome
from scheduler.store import keys
from tests.store.scene import COMPLETED, FAILED, Scene

pytestmark = pytest.mark.sound
HERE, THERE = "https://example.com/ended", "https://example.com/failed"
DEFAULT, NEW = "https://example.com/of-the-account", "https://example.com/elsewhere"
BOTH = Callback(HERE, failure_url=THERE)
ALONE = Callback("", failure_url=THERE)
ON_FAILED = Callback(HERE, CallbackOn.FAILED, THERE)
BESIDE = Callback(None, None, THERE)
BESIDE_ALL = Callback(None, CallbackOn.EXECUTED, THERE)
BESIDE_FAILED = Callback(None, CallbackOn.FAILED, THERE)


async def set_default(scene: Scene, on: str) -> None:
    await scene.redis.hset(scene.base + keys.CALLBACK, mapping={"url": DEFAULT, "on": on})


GOES_TO = [
    # what the schedule says, the account's default, where a success and a failure are reported
    (BOTH, None, HERE, THERE),
    (BOTH, "failed", HERE, THERE),
    (ALONE, "executed", None, THERE),
    (ON_FAILED, "executed", None, THERE),
    (BESIDE, None, None, THERE),
    (BESIDE, "executed", DEFAULT, THERE),
    (BESIDE, "failed", None, THERE),
    (BESIDE_ALL, "failed", DEFAULT, THERE),
    (BESIDE_FAILED, "executed", None, THERE),
]


@pytest.mark.parametrize(("wish", "default", "completed", "failed"), GOES_TO)
async def test_a_failure_is_reported_there(
    scene: Scene, wish: Callback, default: str | None, completed: str | None, failed: str
) -> None:
    if default:
        await set_default(scene, default)
    for outcome, url in ((COMPLETED, completed), (FAILED, failed)):
        made = await scene.run(outcome, callback=wish)
        assert [each.request.url for each in await scene.claim()] == [url] * (url is not None)
        assert ((await scene.get(made)).callback is not None) == (url is not None)


async def test_one_that_its_owner_stopped_is_reported_there(scene: Scene) -> None:
    invocation = await scene.held(callback=ALONE, retries=1)
    await scene.retry([invocation], 60_000)
    await scene.cancel(invocation.schedule_id)
    assert (await scene.claim_one()).request.url == THERE


RESENT = [
    # what the schedule says, how it ended, the URL given, where it goes, its two URLs then
    (BOTH, FAILED, None, THERE, (HERE, THERE)),
    (BOTH, COMPLETED, None, HERE, (HERE, THERE)),
    (BOTH, FAILED, NEW, NEW, (HERE, NEW)),
    (BOTH, COMPLETED, NEW, NEW, (NEW, THERE)),
    (BOTH, FAILED, "default", DEFAULT, None),
    (BOTH, COMPLETED, "default", DEFAULT, (None, THERE)),
    (ALONE, FAILED, None, THERE, ("", THERE)),
    (ALONE, FAILED, NEW, NEW, ("", NEW)),
    (ALONE, COMPLETED, None, None, ("", THERE)),
    (ALONE, COMPLETED, NEW, NEW, (NEW, THERE)),
    (BESIDE, COMPLETED, None, DEFAULT, (None, THERE)),
    (BESIDE, FAILED, None, THERE, (None, THERE)),
]


@pytest.mark.parametrize(("wish", "outcome", "url", "goes_to", "urls"), RESENT)
async def test_a_report_is_sent_again(
    scene: Scene,
    wish: Callback,
    outcome: Outcome,
    url: str | None,
    goes_to: str | None,
    urls: tuple[str | None, str] | None,
) -> None:
    """A new URL stands where the old one counted."""
    await set_default(scene, "executed")
    made = await scene.run(outcome, callback=wish)
    for call in await scene.claim():
        await scene.answer(call)
    resend = scene.store.callbacks.resend
    if goes_to is None:
        with pytest.raises(InvalidRequest, match="callbackUrl: It is needed"):
            await resend(scene.account_id, made, url)
    else:
        await resend(scene.account_id, made, url)
        assert (await scene.claim_one()).request.url == goes_to
    callback = (await scene.get(made)).request.callback
    assert (callback and (callback.url, callback.failure_url)) == urls


@pytest.mark.parametrize(
    ("before", "url", "after"),
    [
        (None, None, None),
        (None, HERE, Callback(HERE)),
        (None, "", Callback("")),
        (ON_FAILED, NEW, Callback(NEW, CallbackOn.FAILED, THERE)),
        (ON_FAILED, "", ALONE),
        (ON_FAILED, None, BESIDE),
        (BESIDE_FAILED, None, BESIDE_FAILED),
        (Callback(HERE), None, None),
        (UNSAID, None, None),
        (Callback(None, None, None, True), HERE, Callback(HERE, with_response=True)),
    ],
)
def test_the_same_callback_with_another_url(
    before: Callback | None, url: str | None, after: Callback | None
) -> None:
    assert sent_to(before, url) == after
    assert sent_again_to(before, url, failed=False) == after

"""The examples in Python do what their first line says."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.examples.conftest import EXAMPLES, Examples
from tests.support.servers import Receiver, until

pytestmark = pytest.mark.slow


def test_a_reminder_comes_at_its_time_or_not_at_all(examples: Examples) -> None:
    app = examples.fastapi("reminder")
    at = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    first, second = (
        app.call("POST", "/reminders", json={"at": at, "text": text}).json()["id"]
        for text in ("Tea", "Coffee")
    )
    assert app.call("DELETE", f"/reminders/{second}").status_code == 204
    examples.bring_forward()
    until(lambda: "Remind: Tea" in app.said)
    assert app.call("DELETE", f"/reminders/{first}").status_code == 409
    assert app.call("POST", "/due", json={"text": "forged"}).status_code == 401
    assert app.call("POST", "/reminders", json={"at": "noon", "text": ""}).status_code == 422
    assert "Coffee" not in app.said
    assert "forged" not in app.said


def test_a_trial_ends_unless_it_is_paid(examples: Examples) -> None:
    app = examples.start(
        sys.executable, str(EXAMPLES / "trial.py"), "runserver", "--noreload", "9000"
    )
    for user in ("ada", "bob", "ada"):
        assert app.call("POST", f"/signup/{user}").status_code == 201
    assert len(examples.waiting()) == 2
    assert app.call("POST", "/paid/bob").json() == {"plan": "paid"}
    assert examples.waiting("trial-bob") == []
    examples.bring_forward("trial-ada")
    until(lambda: '"POST /trial-ended HTTP/1.1" 204' in app.said)
    assert app.call("POST", "/trial-ended", json={"user": "bob"}).status_code == 401


def test_an_export_is_polled_until_it_is_ready(examples: Examples, receiver: Receiver) -> None:
    receiver.answer("/exports/17", body=b'{"state": "running"}')
    app = examples.fastapi("polling", EXPORTS_URL=f"{receiver.url}/exports")
    made = app.call("POST", "/exports/17").json()["scheduleId"]
    examples.bring_forward("export-17")
    until(lambda: examples.postdate.get(made).attempts == 1)
    receiver.answer("/exports/17", body=json.dumps({"state": "ready", "url": "file"}).encode())
    examples.bring_forward("export-17")
    until(lambda: "Ready: file" in app.said)
    until(lambda: examples.postdate.get(made).status == "completed")
    assert len(receiver.at("/exports/17")) == 2


def test_an_export_that_never_comes_is_given_up(examples: Examples) -> None:
    app = examples.fastapi("polling", EXPORTS_URL="http://127.0.0.1:1")
    app.call("POST", "/exports/18")
    [made] = examples.waiting("export-18")
    examples.postdate.change(made, delay=0, retries=0)
    until(lambda: "Given up: export-18" in app.said)


def test_a_rate_is_kept(examples: Examples, receiver: Receiver) -> None:
    script = str(EXAMPLES / "rate_limited.py")
    done = subprocess.run(
        [sys.executable, script, receiver.url + "/contacts"],
        env=examples.environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.count("Created(") == 8
    until(lambda: len(receiver.at("/contacts")) == 8)
    arrived = [each.at_ms for each in receiver.at("/contacts")]
    # The first may arrive late, but those between it and the last are 500 ms apart when they start.
    assert arrived[-1] - arrived[0] > 6 * 500


@pytest.mark.parametrize("undone", [False, True], ids=["confirmed", "undone"])
def test_an_order_is_confirmed_or_undone(examples: Examples, undone: bool) -> None:
    app = examples.fastapi("undo")
    assert app.call("POST", "/orders").json() == {"order": 1}
    until(lambda: len(examples.waiting("order-1")) == 1)
    if undone:
        assert app.call("DELETE", "/orders/1").json() == {"undone": True}
        assert examples.waiting() == []
    else:
        examples.bring_forward("order-1")
    database = sqlite3.connect(examples.directory / "orders.db")
    state = "undone" if undone else "confirmed"
    until(lambda: database.execute("SELECT state FROM orders").fetchall() == [(state,)])
    assert app.call("DELETE", "/orders/1").json() == {"undone": False}


def test_an_order_of_a_crash_is_scheduled_at_the_next_start_once(examples: Examples) -> None:
    app = examples.fastapi("undo")
    app.call("POST", "/orders")
    until(lambda: len(examples.waiting()) == 1)
    app.stop()
    with sqlite3.connect(examples.directory / "orders.db") as database:
        database.execute("UPDATE orders SET outbox = 1")
        database.execute("INSERT INTO orders (state, outbox) VALUES ('pending', 1)")
    examples.fastapi("undo", port=app.port)
    assert len(examples.waiting()) == 2


def test_an_agent_goes_on_by_its_own_note(examples: Examples, receiver: Receiver) -> None:
    def says(*blocks: dict[str, object]) -> None:
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "any",
            "content": blocks, "stop_reason": "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
        json_type = (("content-type", "application/json"),)
        receiver.answer("/v1/messages", body=json.dumps(message).encode(), headers=json_type)

    note = {"delay": "2h", "note": "Ask about release 7"}
    says({"type": "tool_use", "id": "toolu_1", "name": "follow_up", "input": note})
    app = examples.fastapi("agent", ANTHROPIC_API_KEY="none", ANTHROPIC_BASE_URL=receiver.url)
    assert app.call("POST", "/tasks", json={"task": "Ask me in two hours"}).json() == []
    says({"type": "text", "text": "Did release 7 go well?"})
    examples.bring_forward("agent")
    until(lambda: len(receiver.at("/v1/messages")) == 2)
    asked = json.loads(receiver.at("/v1/messages")[-1].body)
    assert asked["messages"] == [{"role": "user", "content": "Ask about release 7"}]
    assert app.call("POST", "/wake", json={"task": "forged"}).status_code == 401
    assert len(receiver.at("/v1/messages")) == 2


def test_each_example_is_short_listed_and_run() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    found = [
        path
        for path in EXAMPLES.rglob("*")
        if path.suffix in {".py", ".js", ".mjs"} and "node_modules" not in path.parts
        and ".next" not in path.parts
    ]  # fmt: skip
    assert len(found) == 8
    for path in found:
        place = path.relative_to(EXAMPLES)
        assert f"({place})" in listed
        assert len(path.read_text().splitlines()) < 60, place
        assert place.parts[0].removesuffix(".py") in tests

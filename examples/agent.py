"""An agent that schedules its own follow-up, and goes on from there. FastAPI, Anthropic's SDK.

    pip install postdate-client fastapi uvicorn anthropic
    ANTHROPIC_API_KEY=… uvicorn agent:app --port 9000
    curl 127.0.0.1:9000/tasks -H 'content-type: application/json' \
        -d '{"task": "Ask me in two hours whether the release went well."}'
"""

import os

from anthropic import Anthropic
from fastapi import FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool

from postdate import Postdate, PostdateError, VerificationFailed, verify

OWN_URL, TEXT = os.environ.get("OWN_URL", "http://127.0.0.1:9000"), {"type": "string"}
FOLLOW_UP = {
    "name": "follow_up",
    "description": "Wakes you after a delay such as 5m or 1d. You remember the note alone.",
    "input_schema": {
        "type": "object", "required": ["delay", "note"],
        "properties": {"delay": TEXT, "note": TEXT},
    },
}  # fmt: skip
app, anthropic, postdate = FastAPI(), Anthropic(), Postdate()
secrets = [each.secret for each in postdate.signing()]


def take_turn(task: str, turn: str) -> list[str]:
    answer = anthropic.messages.create(
        model=os.environ.get("MODEL", "claude-sonnet-4-5"), max_tokens=1000, tools=[FOLLOW_UP],
        messages=[{"role": "user", "content": task}],
    )  # fmt: skip
    for number, asked in enumerate(block for block in answer.content if block.type == "tool_use"):
        try:  # a turn that is repeated after a crash makes no second follow-up: the key is the same
            postdate.schedule(
                f"{OWN_URL}/wake", delay=asked.input["delay"], json={"task": asked.input["note"]},
                retries=3, reference="agent", idempotency_key=f"{turn}-{number}",
            )  # fmt: skip
        except PostdateError as error:
            if error.reason != "key_reused":
                raise
    return [block.text for block in answer.content if block.type == "text"]


@app.post("/tasks")
def start(task: dict[str, str]) -> list[str]:
    return take_turn(task["task"], os.urandom(16).hex())


@app.post("/wake")
async def wake(request: Request) -> list[str]:
    try:
        verify(request.headers, await request.body(), secrets)
    except VerificationFailed:
        raise HTTPException(401) from None
    task = (await request.json())["task"]
    return await run_in_threadpool(take_turn, task, request.headers["webhook-id"])

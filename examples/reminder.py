"""Remind a user at the moment of their choice. FastAPI.

    pip install postdate-client fastapi uvicorn
    uvicorn reminder:app --port 9000
    curl 127.0.0.1:9000/reminders -H 'content-type: application/json' \
        -d '{"at": "2030-01-01T09:00:00Z", "text": "Happy new year"}'
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request
from pydantic import AwareDatetime, BaseModel

from postdate import AsyncPostdate, Conflict, NotFound, VerificationFailed, verify

OWN_URL = os.environ.get("OWN_URL", "http://127.0.0.1:9000")


class Reminder(BaseModel):
    at: AwareDatetime
    text: str


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # The client reads POSTDATE_URL and POSTDATE_API_KEY. It keeps its connections until the end.
    async with AsyncPostdate() as app.state.postdate:
        app.state.secrets = [each.secret for each in await app.state.postdate.signing()]
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/reminders", status_code=201)
async def create(reminder: Reminder) -> dict[str, str]:
    created = await app.state.postdate.schedule(
        f"{OWN_URL}/due", at=reminder.at, json={"text": reminder.text}, retries=3
    )
    return {"id": created.schedule_id}


@app.delete("/reminders/{reminder_id}", status_code=204)
async def cancel(reminder_id: str) -> None:
    try:
        await app.state.postdate.cancel(reminder_id)
    except (Conflict, NotFound):
        raise HTTPException(409, "It was sent already") from None


@app.post("/due", status_code=204)
async def due(request: Request) -> None:
    try:
        verify(request.headers, await request.body(), app.state.secrets)
    except VerificationFailed:
        raise HTTPException(401) from None
    print("Remind:", (await request.json())["text"], flush=True)

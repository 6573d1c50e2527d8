"""Poll a slow export at growing intervals until it is ready. FastAPI.

pip install postdate-client fastapi uvicorn httpx
EXPORTS_URL=https://api.example.com/exports uvicorn polling:app --port 9000
curl -X POST 127.0.0.1:9000/exports/17
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI, HTTPException, Request

from postdate import AsyncPostdate, VerificationFailed, verify

OWN_URL = os.environ.get("OWN_URL", "http://127.0.0.1:9000")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncPostdate() as app.state.postdate, httpx.AsyncClient() as app.state.http:
        app.state.secrets = [each.secret for each in await app.state.postdate.signing()]
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/exports/{number}", status_code=202)
async def start(number: int) -> dict[str, str]:
    # Postdate repeats the check, also after a deploy or a crash of yours.
    created = await app.state.postdate.schedule(
        f"{OWN_URL}/exports/{number}/check", method="POST", delay="5s",
        retries=20, retry_delays=["10s", "30s", "1m", "5m"], reference=f"export-{number}",
        callback_url=f"{OWN_URL}/given-up", callback_on="failed",
    )  # fmt: skip
    return {"scheduleId": created.schedule_id}


@app.post("/exports/{number}/check", status_code=204)
async def check(number: int, request: Request) -> None:
    await verified(request)
    export = (await app.state.http.get(f"{os.environ['EXPORTS_URL']}/{number}")).json()
    if export["state"] != "ready":
        raise HTTPException(425, "Not ready yet")  # 425 is retried, as are 429 and 5xx
    print("Ready:", export["url"], flush=True)


@app.post("/given-up", status_code=204)
async def given_up(request: Request) -> None:
    print("Given up:", (await verified(request)).reference, flush=True)


async def verified(request: Request):
    try:
        return verify(request.headers, await request.body(), app.state.secrets)
    except VerificationFailed:
        raise HTTPException(401) from None

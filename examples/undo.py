"""Confirm an order after ten minutes, unless the customer undoes it. FastAPI, an outbox in SQL.

pip install postdate-client fastapi uvicorn
uvicorn undo:app --port 9000
curl -X POST 127.0.0.1:9000/orders
"""

import os
import sqlite3

from fastapi import BackgroundTasks, FastAPI, HTTPException, Request

from postdate import Postdate, VerificationFailed, verify

OWN_URL = os.environ.get("OWN_URL", "http://127.0.0.1:9000")
postdate = Postdate()  # reads POSTDATE_URL and POSTDATE_API_KEY
app, secrets = FastAPI(), [each.secret for each in postdate.signing()]


def sql(statement: str, *values: object) -> sqlite3.Cursor:
    with sqlite3.connect(os.environ.get("DATABASE", "orders.db")) as connection:  # commits
        return connection.execute(statement, values)


def relay() -> None:
    for (order,) in sql("SELECT id FROM orders WHERE outbox AND state = 'pending'").fetchall():
        postdate.schedule(
            f"{OWN_URL}/orders/{order}/confirm", method="POST", delay="10m", retries=5,
            reference=f"order-{order}", idempotency_key=f"order-{order}",
        )  # fmt: skip
        sql("UPDATE orders SET outbox = 0 WHERE id = ?", order)


@app.post("/orders", status_code=201)
def create(tasks: BackgroundTasks) -> dict[str, int | None]:
    # One statement stores the order and its outbox: a crash before Postdate has it loses nothing.
    order = sql("INSERT INTO orders (state, outbox) VALUES ('pending', 1)").lastrowid
    tasks.add_task(relay)
    return {"order": order}


@app.delete("/orders/{order}")
def undo(order: int) -> dict[str, bool]:  # the database decides whether this comes first
    undone = sql("UPDATE orders SET state = 'undone' WHERE id = ? AND state = 'pending'", order)
    list(postdate.cancel_many(reference=f"order-{order}"))  # the credit comes back
    return {"undone": undone.rowcount == 1}


@app.post("/orders/{order}/confirm", status_code=204)
async def confirm(order: int, request: Request) -> None:
    try:
        verify(request.headers, await request.body(), secrets)
    except VerificationFailed:
        raise HTTPException(401) from None
    sql("UPDATE orders SET state = 'confirmed' WHERE id = ? AND state = 'pending'", order)


sql("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, state, outbox)")
relay()  # what a crash left behind

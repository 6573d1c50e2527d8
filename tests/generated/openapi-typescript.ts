// Uses the types that openapi-typescript makes, by openapi-fetch: what tsc accepts here is what a
// reader of the document may rely on. Run as use.py.
import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const [baseUrl, key, targetUrl] = process.argv.slice(2) as [string, string, string];
const client = createClient<paths>({ baseUrl, headers: { "x-api-key": key } });
const inHours = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();

// Only what is required has to be given.
const least: components["schemas"]["ScheduleRequest"] = { targetUrl, triggerAt: inHours(1) };
const nothing: components["schemas"]["ChangeRequest"] = {};
assert.deepEqual(nothing, {});

const targetBody = { n: 1, deep: { list: [null] } };
const created = await client.POST("/schedule", {
  body: { ...least, delivery: "at-most-once", timeout: 5, targetBody },
});
assert.equal(created.response.status, 201);
assert.ok(created.data);
assert.equal(created.data.triggerAt, least.triggerAt);
const one = { params: { path: { scheduleId: created.data.scheduleId } } };

// What is left out of a change stays as it is.
const triggerAt = inHours(2);
const changed = await client.PATCH("/schedule/{scheduleId}", { ...one, body: { triggerAt } });
const found = await client.GET("/schedule/{scheduleId}", one);
assert.deepEqual(found.data, changed.data);
assert.equal(found.data?.triggerAt, triggerAt);
assert.equal(found.data.delivery, "at-most-once");
assert.equal(found.data.timeout, "5s");
assert.deepEqual(found.data.targetBody, targetBody);

// Each item of a batch is one of two.
const batch = await client.POST("/schedule/batch", {
  body: { schedules: [{ targetUrl, delay: "0s" }, { targetUrl: "ftp://example.com", delay: 5 }] },
});
const [stored, refused] = batch.data?.schedules ?? [];
assert.ok(stored && "scheduleId" in stored);
assert.ok(refused && "code" in refused);
assert.deepEqual([refused.code, refused.details[0]?.field], [400, "targetUrl"]);

const seen = new Set<string>();
let cursor: string | null | undefined;
do {
  const query = cursor ? { targetUrl, limit: 1, cursor } : { targetUrl, limit: 1 };
  const page = await client.GET("/schedule", { params: { query } });
  for (const each of page.data?.schedules ?? []) seen.add(each.scheduleId);
  cursor = page.data?.nextCursor;
} while (cursor);
assert.ok(seen.has(created.data.scheduleId));

const cancelled = await client.DELETE("/schedule/{scheduleId}", one);
assert.equal(cancelled.data?.status, "cancelled");
const ended: ("executed" | "cancelled")[] = ["executed", "cancelled"];
const kept = await client.GET("/schedule", { params: { query: { status: ended, targetUrl } } });
assert.ok(kept.data?.schedules.some((each) => each.status === "cancelled"));
for (;;) {
  const query = { scheduleId: stored.scheduleId };
  const page = await client.GET("/stats/logs", { params: { query } });
  const entry = page.data?.logs[0];
  assert.ok(entry);
  if (entry.executedAt !== null) {
    assert.deepEqual([entry.status, entry.statusCode, entry.attempt], ["completed", 200, 1]);
    break;
  }
  await setTimeout(50);
}
const path = { scheduleId: stored.scheduleId };
const tooLate = await client.DELETE("/schedule/{scheduleId}", { params: { path } });
assert.ok(tooLate.error && "status" in tooLate.error);
assert.deepEqual([tooLate.error.status, tooLate.error.reason], ["completed", "already_ended"]);

// @ts-expect-error: a target is required
await client.POST("/schedule", { body: { triggerAt } });
// @ts-expect-error: one of triggerAt and delay is required
await client.POST("/schedule", { body: { targetUrl } });

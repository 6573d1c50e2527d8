// A client of the types that openapi-typescript makes of the OpenAPI document: what tsc accepts here
// is what a reader of the document may rely on. Run with the address of a Postdate and a key.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const [baseUrl, key] = process.argv.slice(2) as [string, string];
const client = createClient<paths>({ baseUrl, headers: { "x-api-key": key } });
const inHours = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();
const targetUrl = "https://example.com/hook";

// Only what is required has to be given.
const least: components["schemas"]["ScheduleRequest"] = { targetUrl, triggerAt: inHours(1) };
const nothing: components["schemas"]["ChangeRequest"] = {};
assert.deepEqual(nothing, {});

const created = await client.POST("/schedule", {
  body: { ...least, delivery: "at-most-once", targetBody: { n: 1, deep: { list: [null] } } },
});
assert.equal(created.response.status, 201);
assert.ok(created.data);
const one = { params: { path: { scheduleId: created.data.scheduleId } } };

// What is left out of a change stays as it is.
const triggerAt = inHours(2);
const changed = await client.PATCH("/schedule/{scheduleId}", { ...one, body: { triggerAt } });
assert.ok(changed.data);
assert.equal(changed.data.triggerAt, triggerAt);
assert.equal(changed.data.delivery, "at-most-once");
assert.deepEqual(changed.data.targetBody, { n: 1, deep: { list: [null] } });

// Each item of a batch is one of two.
const batch = await client.POST("/schedule/batch", {
  body: { schedules: [least, { ...least, targetUrl: "ftp://example.com" }] },
});
const told = batch.data?.schedules.map((each) =>
  "code" in each ? `${each.code} ${each.details[0]?.field}` : each.scheduleId.slice(0, 4),
);
assert.deepEqual(told, ["sch_", "400 targetUrl"]);

const seen = new Set<string>();
let cursor: string | null | undefined;
do {
  const query = cursor ? { limit: 1, cursor } : { limit: 1 };
  const page = await client.GET("/schedule", { params: { query } });
  assert.ok(page.data);
  for (const each of page.data.schedules) seen.add(each.scheduleId);
  cursor = page.data.nextCursor;
} while (cursor !== null);
assert.equal(seen.size, 2);

const cancelled = await client.DELETE("/schedule/{scheduleId}", one);
assert.equal(cancelled.data?.status, "cancelled");
const refused = await client.DELETE("/schedule/{scheduleId}", one);
assert.ok(refused.error && "status" in refused.error);
assert.equal(refused.error.status, "cancelled");

// @ts-expect-error: a target is required
await client.POST("/schedule", { body: { triggerAt } });

// Uses the client that @hey-api/openapi-ts makes. Run as use.py.
import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";
import { client } from "./generated/client.gen.js";
import {
  cancelSchedule,
  changeSchedule,
  createSchedule,
  createSchedules,
  getSchedule,
  listLogs,
  listSchedules,
  type ScheduleRequest,
} from "./generated/index.js";

const [baseUrl, key, targetUrl] = process.argv.slice(2) as [string, string, string];
client.setConfig({ baseUrl, auth: (scheme) => (scheme.type === "apiKey" ? key : undefined) });
const inHours = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();

const targetBody = { n: 1, deep: { list: [null] } };
const wanted: ScheduleRequest = { targetUrl, triggerAt: inHours(1), timeout: 5, targetBody };
const created = await createSchedule({ body: wanted, throwOnError: true });
assert.equal(created.response?.status, 201);
assert.equal(created.data.triggerAt, wanted.triggerAt);
const path = { scheduleId: created.data.scheduleId };

// What is left out of a change stays as it is.
const triggerAt = inHours(2);
const changed = await changeSchedule({ path, body: { triggerAt }, throwOnError: true });
const found = await getSchedule({ path, throwOnError: true });
assert.deepEqual(found.data, changed.data);
assert.equal(found.data.triggerAt, triggerAt);
assert.equal(found.data.timeout, "5s");
assert.deepEqual(found.data.targetBody, targetBody);

// Each item of a batch is one of two.
const schedules = [{ targetUrl, delay: "0s" }, { targetUrl: "ftp://example.com", delay: 5 }];
const batch = await createSchedules({ body: { schedules }, throwOnError: true });
const [stored, refused] = batch.data.schedules;
assert.ok(stored && "scheduleId" in stored);
assert.ok(refused && "code" in refused);
assert.deepEqual([refused.code, refused.details[0]?.field], [400, "targetUrl"]);

const page = await listSchedules({ query: { targetUrl }, throwOnError: true });
assert.ok(page.data.schedules.some((each) => each.scheduleId === path.scheduleId));

const cancelled = await cancelSchedule({ path, throwOnError: true });
assert.equal(cancelled.data.status, "cancelled");
const kept = await listSchedules({ query: { status: ["executed", "cancelled"], targetUrl } });
assert.ok(kept.data?.schedules.some((each) => each.status === "cancelled"));
for (;;) {
  const query = { scheduleId: stored.scheduleId };
  const { data } = await listLogs({ query, throwOnError: true });
  const entry = data.logs[0];
  assert.ok(entry);
  if (entry.executedAt !== null) {
    assert.deepEqual([entry.status, entry.statusCode, entry.attempt], ["completed", 200, 1]);
    break;
  }
  await setTimeout(50);
}
const tooLate = await cancelSchedule({ path: { scheduleId: stored.scheduleId } });
assert.ok(tooLate.error && "status" in tooLate.error);
assert.deepEqual([tooLate.error.status, tooLate.error.reason], ["completed", "already_ended"]);

// @ts-expect-error: a target is required
await createSchedule({ body: { triggerAt } });
// @ts-expect-error: one of triggerAt and delay is required
await createSchedule({ body: { targetUrl } });

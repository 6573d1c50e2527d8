// Against a real `postdate up`, with an account of the test's own in the environment.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Buffer,
  Conflict,
  InvalidRequest,
  NotFound,
  Postdate,
  PostdateError,
  PreconditionFailed,
  Unauthorized,
} from "postdate";
import { errorOf, URL_ } from "./support.ts";

const postdate = new Postdate();
const credits = await postdate.credits();

async function all<T>(list: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const each of list) items.push(each);
  return items;
}

test("a schedule from its creation to its replay", async () => {
  const due = new Date(Date.now() + 86_400_000);
  const created = await postdate.schedule({
    targetUrl: URL_,
    triggerAt: due,
    expiresAt: new Date(due.getTime() + 60_000),
    body: { hello: "wörld" },
    timeout: 5,
    retries: 2,
    retryDelays: [10, "1m"],
    reference: "ts-1",
  });
  assert.equal(created.triggerAt, due.toISOString());
  const found = await postdate.schedules.get(created.scheduleId);
  assert.deepEqual(found.targetBody, { hello: "wörld" });
  assert.deepEqual([found.timeout, found.retryDelays], ["5s", ["10s", "1m"]]);
  const match = { ifMatch: found.etag! };
  const changed = await postdate.schedules.change(created.scheduleId, { body: "text" }, match);
  assert.deepEqual([changed.targetBody, changed.targetBodyText], [null, "text"]);
  const late = await errorOf(() => postdate.schedules.cancel(created.scheduleId, match));
  assert.ok(late instanceof PreconditionFailed && late.reason === "precondition_failed");
  const listed = await all(postdate.schedules.list({ reference: "ts-*", to: new Date(2e12) }));
  assert.deepEqual(
    listed.map((each) => each.scheduleId),
    [created.scheduleId],
  );
  assert.equal(await postdate.credits(), credits - 1);
  assert.equal((await postdate.schedules.cancel(created.scheduleId)).creditsRemaining, credits);
  const again = await errorOf(() => postdate.schedules.change(created.scheduleId, { delay: 1 }));
  assert.ok(again instanceof Conflict && again.scheduleStatus === "cancelled");
  const gone = await errorOf(() => postdate.schedules.replay(created.scheduleId));
  assert.equal(gone.reason, "body_not_kept");
  const bare = await postdate.schedule({ targetUrl: URL_, delay: "1h" });
  await postdate.schedules.cancel(bare.scheduleId);
  const change = { delay: "1h", body: new Uint8Array([0]) };
  const replayed = await postdate.schedules.replay(bare.scheduleId, change);
  assert.equal(replayed.replayOf, bare.scheduleId);
  assert.equal((await postdate.schedules.get(replayed.scheduleId)).targetBodyBase64, "AA==");
  const results = await postdate.schedules.cancelMany([replayed.scheduleId, "ts-nothing"]);
  assert.ok(!(results[0] instanceof PostdateError) && results[0]!.status === "cancelled");
  assert.ok(results[1] instanceof NotFound && results[1].scheduleId === "ts-nothing");
  const entries = await all(postdate.logs({ scheduleId: created.scheduleId, status: "all" }));
  assert.deepEqual(
    entries.map((each) => each.status),
    ["cancelled"],
  );
});

test("an idempotency key, a reference and a batch take no further credit", async () => {
  const before = await postdate.credits();
  const request = { targetUrl: URL_, delay: "1h", reference: "ts-2" };
  const first = await postdate.schedule(request, { idempotencyKey: "ts-key" });
  const second = await postdate.schedule(request, { idempotencyKey: "ts-key" });
  assert.deepEqual([second.scheduleId, second.replayed], [first.scheduleId, true]);
  const kept = await postdate.schedule({ ...request, onExisting: "replace", maxWait: "2h" });
  assert.deepEqual([kept.scheduleId, kept.existing], [first.scheduleId, true]);
  const [stored, refused] = await postdate.batch([request, { ...request, targetUrl: "ftp://a" }]);
  assert.ok(!(stored instanceof PostdateError));
  assert.ok(refused instanceof InvalidRequest);
  assert.deepEqual([refused.details[0]!.field, refused.status], ["targetUrl", 400]);
  assert.equal(await postdate.credits(), before - 2);
  const { length, occurrencesLeft } = await postdate.schedules.cancelMany({ reference: "ts-2" });
  assert.deepEqual([length, occurrencesLeft], [2, 0]);
});

test("of a thousand in a buffer each costs one credit", async () => {
  const before = await postdate.credits();
  const buffer = new Buffer(postdate);
  const making = Array.from({ length: 1500 }, (_, n) =>
    buffer.schedule({ targetUrl: n === 7 ? "ftp://a" : URL_, delay: "1d", reference: `ts-b-${n}` }),
  );
  const made = await Promise.allSettled(making);
  await buffer.close();
  assert.deepEqual(
    made.flatMap((each, n) => (each.status === "rejected" ? [n] : [])),
    [7],
  );
  assert.equal(await postdate.credits(), before - 1499);
  const ids = new Set(
    made.map((each) => (each.status === "fulfilled" ? each.value.scheduleId : "")),
  );
  const found = await all(postdate.schedules.list({ reference: "ts-b-*" }));
  assert.equal(found.length, 1499);
  assert.ok(found.every((each) => ids.has(each.scheduleId)));
  const page = await postdate.schedules.list({ reference: "ts-b-*", limit: 3 }).page();
  assert.equal(page.items.length, 3);
  const left = await postdate.schedules
    .list({ reference: "ts-b-*", limit: 3 })
    .page(page.nextCursor);
  assert.ok(
    left.items.every((each) => !page.items.some((one) => one.scheduleId === each.scheduleId)),
  );
  await postdate.schedules.cancelMany(found.map((each) => each.scheduleId));
  assert.equal(await postdate.credits(), before);
});

test("lanes, recurring schedules, the account and signing", async () => {
  const lane = await postdate.lanes.set(
    "ts",
    { rate: 10, per: 2, parallelism: 5 },
    { ifNoneMatch: "*" },
  );
  assert.deepEqual([lane.per, lane.paused], ["2s", false]);
  const paused = await postdate.lanes.pause(
    "ts",
    { pauseNote: "B migrates" },
    { ifMatch: lane.etag! },
  );
  assert.deepEqual([paused.state, paused.pauseNote], ["paused", "B migrates"]);
  assert.deepEqual(
    (await all(postdate.lanes.list())).map((each) => each.lane),
    ["ts"],
  );
  assert.equal((await postdate.lanes.change("ts", { paused: false, rate: 3 })).rate, 3);
  assert.equal((await postdate.lanes.resume("ts")).paused, false);
  assert.equal((await postdate.lanes.clear("ts")).waiting, 0);

  const rule = { targetUrl: URL_, cron: "0 9 * * 1-5", timeZone: "Europe/Berlin", body: { a: 1 } };
  const put = await postdate.recurring.put("ts-daily", rule);
  const again = await postdate.recurring.put("ts-daily", rule);
  assert.deepEqual([put.created, again.created, again.unchanged], [true, false, true]);
  assert.equal((await postdate.recurring.get("name:ts-daily")).next!.length, 5);
  const now = await postdate.recurring.trigger(put.recurringId);
  assert.ok(now.scheduleId.startsWith("sch_"));
  assert.equal((await postdate.recurring.pause(put.recurringId)).state, "paused");
  assert.equal((await postdate.recurring.resume(put.recurringId)).state, "active");
  assert.equal(
    (await postdate.recurring.change(put.recurringId, { every: 5400, cron: null })).every,
    "1h30m",
  );
  assert.equal((await all(postdate.recurring.list({ name: "ts-daily" }))).length, 1);
  assert.equal(
    (await postdate.recurring.preview({ every: "90m", startsAt: new Date(0) })).next.length,
    10,
  );
  await postdate.recurring.delete(put.recurringId);
  const created = await postdate.recurring.create({ targetUrl: URL_, every: "1h" });
  await postdate.recurring.delete(created.recurringId);

  const account = await postdate.account.change({ callbackUrl: "https://example.com/ended" });
  assert.equal(account.callbackUrl, "https://example.com/ended");
  assert.equal(
    (await postdate.account.pause({ pausedUntil: new Date(Date.now() + 6e4) })).paused,
    true,
  );
  assert.equal(
    (await postdate.account.resume({ ifMatch: (await postdate.account.get()).etag! })).paused,
    false,
  );

  const [secret] = await postdate.signing.get();
  const [newer, older] = await postdate.signing.rotate({ keepFor: "1h" });
  assert.equal(older!.secretId, secret!.secretId);
  assert.notEqual(newer!.secretId, secret!.secretId);
  assert.equal(
    (await postdate.stats({ from: new Date(Date.now() - 1e6) })).successfulInvocations,
    0,
  );
});

test("a stranger is told so", async () => {
  const stranger = postdate.withOptions({ apiKey: "pd_00_stranger" });
  const error = await errorOf(() => stranger.credits());
  assert.ok(error instanceof Unauthorized);
  assert.deepEqual([error.status, error.reason], [401, "unauthorized"]);
  assert.match(error.requestId!, /^req_/);
  const nothing = await errorOf(() => postdate.callbacks.resend("sch_00000000000000000000000000"));
  assert.ok(nothing instanceof NotFound);
  assert.deepEqual(await postdate.callbacks.resendMany({}), []);
  assert.deepEqual(await postdate.schedules.replayMany({ lane: "none" }), []);
});

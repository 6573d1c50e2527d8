// Each operation of the shared table, lists, and calls for many.
import assert from "node:assert/strict";
import { test } from "node:test";
import { NotFound, PostdateError, RateLimited, type List, type Result } from "postdate";
import { CREATED, errorOf, ok, refusal, Service, shared, URL_, type Asked } from "./support.ts";

const NEW = { targetUrl: URL_, delay: 60 };
// What a call is given besides what stands in its path.
const REQUESTS: Record<string, unknown> = {
  createSchedule: NEW,
  createSchedules: [NEW],
  cancelSchedules: {},
  replaySchedules: {},
  resendCallbacks: {},
  changeSchedule: {},
  setLane: {},
  changeLane: {},
  changeAccount: {},
  createRecurring: {},
  changeRecurring: {},
  setRecurring: {},
  previewRecurring: {},
};
// An answer that each of them can read.
const ANY = {
  ...CREATED,
  schedules: [],
  logs: [],
  lanes: [],
  recurring: [],
  secrets: [],
  creditsRemaining: 7,
  nextCursor: null,
};

/** The call of that name, as "schedules.get". */
function named(client: object, name: string): (...args: unknown[]) => any {
  const [noun, verb] = name.split(".") as [string, string | undefined];
  const owner = verb === undefined ? client : (client as any)[noun];
  return owner[verb ?? noun].bind(owner);
}

test("every operation is one call", async () => {
  for (const [operation, request, , name] of shared.operations) {
    const service = new Service().plays(ok(ANY));
    const [method, path] = request.split(" ");
    const ids = path.match(/\{\w+\}/g) ?? [];
    const call = named(service.client(), name);
    const more = operation in REQUESTS ? [REQUESTS[operation]] : [];
    const made = call(...ids.map(() => "a.b"), ...more);
    await (made.page ? made.page() : made);
    assert.equal(service.asked.length, 1, operation);
    const asked = service.asked[0]!;
    const expected = path.replaceAll(/\{\w+\}/g, "a.b");
    assert.deepEqual([asked.method, asked.path], [method, expected], operation);
    assert.equal(asked.headers.get("x-api-key"), "pd_1");
  }
});

test("a set and a change take the etag, and answers have it", async () => {
  const service = new Service().plays(ok(ANY, 200, { etag: '"1"' }));
  const client = service.client();
  const match = { ifMatch: '"1"' };
  const all = [
    await client.schedules.get("a", match),
    await client.schedules.change("a", { delay: 1 }, match),
    await client.lanes.set("a", { rate: 1 }, { ...match, ifNoneMatch: "*" }),
    await client.lanes.change("a", {}, match),
    await client.lanes.pause("a", {}, match),
    await client.lanes.resume("a", match),
    await client.recurring.put("a", { targetUrl: URL_, every: 5 }, match),
    await client.recurring.change("a", {}, match),
    await client.recurring.pause("a", {}, match),
    await client.recurring.resume("a", match),
    await client.account.change({}, match),
    await client.account.pause({}, match),
    await client.account.resume(match),
  ];
  for (const each of all) assert.equal(each.etag, '"1"');
  await client.schedules.cancel("a", match);
  await client.lanes.clear("a", match);
  await client.recurring.delete("a", match);
  await client.recurring.trigger("a", match);
  for (const { headers } of service.asked) assert.equal(headers.get("if-match"), '"1"');
  assert.deepEqual(service.asked.map((each) => each.headers.get("if-none-match")).filter(Boolean), [
    "*",
  ]);
});

test("an answer says what was done before", async () => {
  const once = { "idempotency-replayed": "true" };
  const service = new Service().plays(
    ok({ ...CREATED, existing: true }, 200),
    ok(CREATED, 201, once),
    ok({ ...CREATED, unchanged: false }, 201),
    ok({ ...CREATED, unchanged: true }, 200),
  );
  const client = service.client();
  const existing = await client.schedule(NEW);
  assert.deepEqual([existing.existing, existing.replayed], [true, false]);
  const replayed = await client.schedule(NEW, { idempotencyKey: "mine" });
  assert.deepEqual([replayed.existing, replayed.replayed], [false, true]);
  assert.equal(service.asked[1]!.headers.get("idempotency-key"), "mine");
  assert.ok((await client.recurring.put("a", NEW)).created);
  const again = await client.recurring.put("a", NEW);
  assert.deepEqual([again.created, again.unchanged], [false, true]);
});

test("a batch has a result for each, in order", async () => {
  const items = [
    CREATED,
    { code: 400, error: "targetUrl: No.", reason: "invalid_field", details: [] },
  ];
  const service = new Service().plays(
    ok({ schedules: items }, 200, { "postdate-request-id": "req_1" }),
  );
  const [created, refused] = await service.client().batch([NEW, JSON.stringify(NEW)]);
  assert.ok(!(created instanceof PostdateError) && created!.scheduleId === "sch_1");
  assert.ok(refused instanceof PostdateError);
  assert.deepEqual([refused.status, refused.requestId], [400, "req_1"]);
  assert.deepEqual(service.asked[0]!.body.schedules[1], NEW);
});

test("a list goes on page by page", async () => {
  const page = (count: number, nextCursor: string | null) =>
    ok({
      schedules: Array.from({ length: count }, (_, n) => ({ scheduleId: `${nextCursor}${n}` })),
      nextCursor,
    });
  const queries = async (list: (service: Service) => List<unknown>) => {
    const service = new Service().plays(page(100, "a"), page(0, "b"), page(3, null));
    const items = await all(list(service));
    return [items.length, service.asked.map((each) => each.query)] as const;
  };
  const since = new Date(Date.UTC(2026, 10, 20));
  const filter = { status: ["failed", "completed"], from: since, held: false } as const;
  const from = { status: "failed,completed", from: since.toISOString(), held: "false" };
  assert.deepEqual(await queries((service) => service.client().schedules.list(filter)), [
    103,
    [
      { ...from, limit: "100" },
      { ...from, limit: "100", cursor: "a" },
      { ...from, limit: "100", cursor: "b" },
    ],
  ]);
  assert.deepEqual(await queries((service) => service.client().schedules.list({ limit: 100 })), [
    100,
    [{ limit: "100" }],
  ]);
  assert.deepEqual(await queries((service) => service.client().schedules.list({ limit: 102 })), [
    103,
    [{ limit: "100" }, { limit: "2", cursor: "a" }, { limit: "2", cursor: "b" }],
  ]);
  const service = new Service().plays(page(2, "a"));
  const list = service.client().schedules.list({ limit: 2 });
  assert.equal((await list.page()).nextCursor, "a");
  assert.equal((await list.page("a")).items.length, 2);
  assert.deepEqual(service.asked[1]!.query, { limit: "2", cursor: "a" });
  for await (const _ of service.client().schedules.list()) break;
  assert.equal(service.asked.length, 3);
});

test("many ids go in several calls, each once, and have all their results", async () => {
  const { many } = shared.defaults;
  const service = new Service();
  const client = service.client({ fetch: cancels(service) });
  const ids = ["x", ...Array.from({ length: many + 500 }, (_, n) => `${n}`), "x", "bad"];
  const results = await client.schedules.cancelMany(ids);
  assert.deepEqual(
    results.map((each) => each.scheduleId),
    ids,
  );
  assert.deepEqual(
    service.asked.map((each) => each.body.ids.length),
    [many, 502],
  );
  const bad = results.at(-1);
  assert.ok(bad instanceof NotFound);
  assert.deepEqual([bad.scheduleId, bad.requestId], ["bad", "req_1"]);
  assert.ok(!(results[0] instanceof PostdateError) && results[0]!.creditsRemaining === 7);
  assert.equal((await client.schedules.cancelMany("x")).length, 1);
});

test("of a filter all are meant, up to the limit", async () => {
  const found = (count: number, nextCursor: string | null, occurrencesLeft = 0) =>
    ok({ schedules: Array.from({ length: count }, () => CREATED), nextCursor, occurrencesLeft });
  const service = new Service().plays(found(1000, "a", 2), found(10, "b", 1), found(5, null));
  const done = await service.client().schedules.cancelMany({ reference: "order-*", limit: 1500 });
  assert.deepEqual([done.length, done.occurrencesLeft], [1015, 3]);
  const asked = { status: "scheduled", reference: "order-*" };
  assert.deepEqual(
    service.asked.map((each) => each.body),
    [
      { ...asked, limit: 1000, cursor: null },
      { ...asked, limit: 500, cursor: "a" },
      { ...asked, limit: 490, cursor: "b" },
    ],
  );
  for (const [filter, expected] of [
    [{}, { callback: "failed" }],
    [
      { callback: "delivered", to: new Date(0) },
      { callback: "delivered", to: new Date(0).toISOString() },
    ],
  ] as const) {
    const resending = new Service().plays(found(1, null));
    await resending.client().callbacks.resendMany(filter);
    assert.deepEqual(resending.asked[0]!.body, { ...expected, limit: 1000, cursor: null });
  }
});

test("a replay of many numbers its keys, and goes on with the first", async () => {
  const service = new Service().plays(refusal(429));
  const ids = Array.from({ length: 1001 }, (_, n) => `${n}`);
  const client = service.client({ fetch: replays(service), retryFor: 0 });
  await client.schedules.replayMany(ids, { idempotencyKey: "mine" });
  await client.schedules.replayMany(ids);
  const keys = service.asked.map((each) => each.headers.get("idempotency-key")!);
  assert.deepEqual(keys.slice(0, 2), ["mine", "mine-2"]);
  assert.equal(keys[3], `${keys[2]}-2`);
  const failing = service.client({ retryFor: 0 }).schedules;
  const error = await errorOf(() => failing.replayMany(["a"], { idempotencyKey: "mine" }));
  assert.ok(error instanceof RateLimited);
  assert.deepEqual([error.idempotencyKey, error.maybeDone], ["mine", false]);
  let calls = 0;
  const fetch = (input: any, init: any) =>
    (++calls === 1 ? replays(service) : service.fetch)(input, init);
  const half = service.client({ retryFor: 0, fetch }).schedules;
  const second = await errorOf(() => half.replayMany(ids, { idempotencyKey: "mine" }));
  assert.deepEqual([calls, second.idempotencyKey, second.maybeDone], [2, "mine", true]);
});

test("an answer of another kind, or about other schedules, is no answer", async () => {
  const client = new Service().plays(ok({ schedules: [], nextCursor: null })).client();
  for (const call of [() => client.schedules.cancelMany(["a"]), () => client.schedule(NEW)]) {
    const error = await errorOf(call);
    assert.ok(error.message.startsWith(shared.texts["a stranger's answer"]));
    assert.ok(error.maybeDone);
  }
  for (const call of [() => client.signing.get(), () => client.lanes.list().page()]) {
    assert.ok((await errorOf(call)).message.startsWith(shared.texts["a stranger's answer"]));
  }
});

async function all<T>(list: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const each of list) items.push(each);
  return items;
}

/** Answers each id that was asked for. */
function each(service: Service, item: (id: string) => object) {
  return (async (_: string, init: RequestInit) => {
    const body = JSON.parse(init.body as string);
    service.asked.push({ body, headers: new Headers(init.headers) } as Asked);
    const headers = { "postdate-request-id": "req_1" };
    const more = { creditsRemaining: 7, nextCursor: null };
    return Response.json({ schedules: body.ids.map(item), ...more }, { headers });
  }) as unknown as typeof fetch;
}

function cancels(service: Service) {
  const unknown = { code: 404, error: "There is no such schedule", scheduleId: "b" };
  return each(service, (scheduleId) =>
    scheduleId === "bad" ? unknown : { scheduleId, status: "cancelled" },
  );
}

function replays(service: Service) {
  return each(service, (replayOf) => ({ ...CREATED, replayOf }) satisfies Partial<Result<object>>);
}

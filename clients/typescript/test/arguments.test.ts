// How arguments are written, and the texts of errors that both clients share.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Buffer, Postdate, type NewSchedule } from "postdate";
import { CREATED, errorOf, failure, ok, refusal, Service, shared, URL_ } from "./support.ts";

const NEW = { targetUrl: URL_, delay: "1h" };

test("both clients say the same", async (context) => {
  const { env } = process;
  context.after(() => void (process.env = env));
  process.env = { POSTDATE_API_KEY: "" };
  const url = "http://postdate.example";
  const make = (options: object) => () => new Postdate({ url, apiKey: "pd_1", ...options });
  const service = new Service().plays(ok({}));
  const client = service.client({ retryFor: 0 });
  const answered = (step: Parameters<Service["plays"]>[0]) => () =>
    new Service().plays(step).client({ retryFor: 0 }).credits();
  const closed = new Buffer(client);
  await closed.close();
  const wrong: Record<string, () => unknown> = {
    "no API key": () => new Postdate({ url }).credits(),
    "an empty API key": make({ apiKey: "pd 1" }),
    "no address": make({ url: "postdate.example" }),
    "an API key among the headers": make({ headers: { "X-API-Key": "pd_1" } }),
    "a header of the client's own": make({ headers: { "Content-Type": "a/b" } }),
    "a header with a line break": make({ headers: { "x-a": "a\r\nx-b: c" } }),
    "no timeout": make({ timeout: 0 }),
    "a long idempotency key": () => client.schedule(NEW, { idempotencyKey: "x".repeat(256) }),
    "an id that is a path": () => client.schedules.get("../account"),
    "an etag with a line break": () => client.schedules.cancel("sch_1", { ifMatch: "a\nb" }),
    "a negative delay": () => client.schedule({ targetUrl: URL_, delay: -1 }),
    "an endless delay": () => client.schedule({ targetUrl: URL_, delay: Infinity }),
    "no ids": () => client.schedules.cancelMany([]),
    "a page instead of JSON": answered({ status: 500, body: "<html>" }),
    "a stranger's answer": answered({ status: 200, body: "<html>" }),
    "a lost answer": answered(failure("ECONNRESET")),
    "no connection": answered(failure("ECONNREFUSED", "connect")),
    "a closed buffer": () => closed.schedule(NEW),
  };
  assert.deepEqual(new Set(Object.keys(wrong)), new Set(Object.keys(shared.texts)));
  for (const [what, call] of Object.entries(wrong)) {
    const error = await errorOf(call);
    assert.ok(error.message.includes(shared.texts[what]), `${what}: ${error.message}`);
  }
  assert.equal(service.asked.length, 0);
});

test("each value goes to its field as the service takes it", async () => {
  const when = new Date(Date.UTC(2026, 10, 20, 8));
  const typed: { order: number } = { order: 1 };
  for (const [given, sent] of [
    [{ triggerAt: when }, { triggerAt: "2026-11-20T08:00:00.000Z" }],
    [{ triggerAt: "2026-11-20" }, { triggerAt: "2026-11-20" }],
    [{ delay: 2 }, { delay: "2000ms" }],
    [{ delay: 0.1 + 0.2 }, { delay: "300ms" }],
    [{ delay: 0.0001 }, { delay: "1ms" }],
    [{ delay: 0 }, { delay: "0ms" }],
    [
      { timeout: 5, maxWait: "4h" },
      { timeout: "5000ms", maxWait: "4h" },
    ],
    [{ retryDelays: [1, "1m"] }, { retryDelays: ["1000ms", "1m"] }],
    [{ body: typed }, { targetBody: { order: 1 } }],
    [{ body: "" }, { targetBodyText: "" }],
    [{ body: null }, { targetBody: null }],
    [{ body: undefined, lane: undefined }, {}],
    [{ body: new Uint8Array([0, 255]) }, { targetBodyBase64: "AP8=" }],
    [{ body: new Uint8Array([9, 0, 255]).subarray(1) }, { targetBodyBase64: "AP8=" }],
    [{ body: new Uint8Array([0, 255]).buffer }, { targetBodyBase64: "AP8=" }],
    [
      { targetBodyText: "a", callbackUrl: null },
      { targetBodyText: "a", callbackUrl: null },
    ],
  ] as [object, object][]) {
    const service = new Service().plays(ok(CREATED, 201));
    await service.client().schedule({ targetUrl: URL_, ...given } as NewSchedule);
    assert.deepEqual(service.asked[0]!.body, { targetUrl: URL_, ...sent });
  }
  const bytes = new Uint8Array(200_000).map((_, n) => n % 251);
  const service = new Service().plays(ok(CREATED, 201));
  await service.client().schedule({ ...NEW, body: bytes });
  const sent = globalThis.Buffer.from(service.asked[0]!.body.targetBodyBase64, "base64");
  assert.deepEqual(new Uint8Array(sent), bytes);
});

test("values that would be lost are refused before anything is sent", async () => {
  const service = new Service().plays(ok({}));
  const client = service.client();
  for (const [request, says] of [
    [{ body: [1] }, /^body must be an object, a string or a Uint8Array, not Array/],
    [{ body: new Map([["a", 1]]) }, /^body must be .*, not Map/],
    [{ body: new Date() }, /^body must be .*, not Date/],
    [{ body: 5 }, /^body must be .*, not number/],
    [{ triggerAt: new Date("never") }, /^triggerAt is an invalid Date/],
    [{ retryDelays: [1, NaN] }, /^retryDelays\[1\] is no length of time/],
  ] as [object, RegExp][]) {
    const given = { ...NEW, ...request } as unknown as NewSchedule;
    assert.match((await errorOf(() => client.schedule(given))).message, says);
    assert.match((await errorOf(() => client.batch([given]))).message, says);
  }
  // A filter that is lost by mistake would mean all.
  for (const name of ["cancelMany", "replayMany"] as const) {
    const lost = { reference: undefined } as object;
    assert.match(
      (await errorOf(() => client.schedules[name](lost))).message,
      /^reference is undef/,
    );
    assert.match(
      (await errorOf(() => client.schedules[name](["a", 1] as any))).message,
      /^ids\[1\]/,
    );
  }
  const promise = Promise.resolve(["sch_1"]);
  for (const [odd, kind] of [
    [promise, "Promise"],
    [client.schedules.list(), "List"],
    [undefined, "undefined"],
    [null, "null"],
    [5, "number"],
  ] as [any, string][]) {
    const error = await errorOf(() => client.schedules.cancelMany(odd));
    assert.equal(error.message, `Choose by ids or by a filter, not by ${kind}`);
  }
  for (const odd of [promise, undefined, URL_] as any[]) {
    for (const call of [() => client.schedule(odd), () => client.lanes.set("a", odd)]) {
      assert.match((await errorOf(call)).message, /^Give the fields in an object, not /);
    }
  }
  for (const limit of ["5", NaN, -1, 1.5] as any[]) {
    for (const call of [
      () => client.schedules.cancelMany({ limit }),
      () => client.logs({ limit }).page(),
    ]) {
      assert.match((await errorOf(call)).message, /^limit must be a whole number, not /);
    }
  }
  for (const url of ["http://a/?b=c", "http://a/b#c", "http://a@b", "http://", "ftp://a"]) {
    assert.match((await errorOf(() => new Postdate({ url }))).message, /address of a Postdate/);
  }
  for (const odd of ["", ".", "..", "a/b", "a?b", "a%2Fb", "a b", "a\n", "ü", "a".repeat(201)]) {
    const message = (await errorOf(() => client.lanes.get(odd))).message;
    assert.match(message, /^lane must have letters/);
  }
  for (const options of [
    { timeout: NaN },
    { retryFor: NaN },
    { timeout: "5" },
    { retryFor: "5" },
  ]) {
    const [name] = Object.keys(options);
    const error = await errorOf(() => client.credits(options as any));
    assert.match(error.message, new RegExp(`^${name} must be a number`));
  }
  assert.equal(service.asked.length, 0);
});

test("no error shows a secret", async () => {
  for (const options of [
    { apiKey: "pd_secret\n" },
    { headers: { "x-api-key": "secret" } },
    { headers: { "x-a": "secret\r\n" } },
    { headers: { "content-type": "secret" } },
  ]) {
    const error = await errorOf(() => new Service().client(options));
    assert.ok(!error.message.includes("secret"), error.message);
  }
  const refused = await errorOf(() => new Service().plays(refusal(401)).client().credits());
  assert.ok(!JSON.stringify(refused).includes("pd_1"));
});

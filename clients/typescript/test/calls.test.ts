// Which calls are repeated, when, and what an error says: by the table that both clients share.
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import * as postdate from "postdate";
import {
  CREATED,
  errorOf,
  failure,
  failures,
  ok,
  refusal,
  Service,
  shared,
  timeless,
  URL_,
} from "./support.ts";

const LOST = [failure("ECONNRESET"), failure("UND_ERR_SOCKET"), failure("EPIPE", "write")];
const NEVER_SENT = [
  failure("ECONNREFUSED", "connect"),
  failure("ENOTFOUND", "getaddrinfo"),
  failure("UND_ERR_CONNECT_TIMEOUT"),
  failure("DEPTH_ZERO_SELF_SIGNED_CERT"),
  // Bun and Deno.
  Object.assign(new Error("Unable to connect."), { code: "ECONNREFUSED" }),
  new TypeError("error sending request for url (http://a/): client error (Connect): dns error"),
  failures(failure("ECONNREFUSED", "connect"), failure("ETIMEDOUT", "connect")),
];
const CREDITS = ok({ creditsRemaining: 7 });
const NEW = { targetUrl: URL_, delay: 60 };
const kinds = postdate as unknown as Record<string, new () => postdate.PostdateError>;

test("a create is repeated as the very same request", async () => {
  const refusals = shared.repeated.map((status: number) => refusal(status));
  for (const fault of [...refusals, ...LOST, ...NEVER_SENT]) {
    const service = new Service().plays(fault, fault, ok(CREATED, 201));
    await timeless(() => service.client().schedule({ ...NEW, body: { n: 1 } }));
    assert.equal(service.asked.length, 3);
    assert.equal(new Set(service.asked.map((each) => each.text)).size, 1);
    const keys = new Set(service.asked.map((each) => each.headers.get("idempotency-key")));
    assert.equal(keys.size, 1);
    await service.client().schedule(NEW);
    keys.add(service.asked[3]!.headers.get("idempotency-key"));
    assert.equal(keys.size, 2);
    assert.ok(!keys.has(null));
  }
});

test("pauses double up to a bound, with jitter", async () => {
  const service = new Service().plays(...shared.longestPauses.map(() => refusal(503)), CREDITS);
  const pauses = await timeless(async (clock) => {
    await service.client().credits();
    return clock.pauses;
  });
  assert.equal(pauses.length, shared.longestPauses.length);
  pauses.forEach((pause, n) => {
    const bound = shared.longestPauses[n];
    assert.ok(bound / 2 <= pause && pause <= bound, `${pause} of ${bound}`);
  });
});

test("no repeat is sooner than Retry-After", async (context) => {
  context.mock.method(Date, "now", () => Date.parse(shared.retryAfterAt));
  for (const [header, least, most] of shared.retryAfter) {
    const service = new Service().plays(refusal(429, {}, { "retry-after": header }), CREDITS);
    const [pause] = await timeless(async (clock) => {
      await service.client().credits();
      return clock.pauses;
    });
    assert.ok(least <= pause! && pause! <= most, `${header}: ${pause}`);
  }
});

test("it gives up within the time that it was given", async () => {
  for (const [fault, kind] of [
    [refusal(429), postdate.RateLimited],
    [refusal(503), postdate.Unavailable],
    [LOST[0]!, postdate.ConnectionFailed],
  ] as const) {
    const service = new Service().plays(fault);
    await timeless(async (clock) => {
      const beganMs = clock.nowMs;
      const error = await errorOf(() => service.client().schedule(NEW));
      const tookS = (clock.nowMs - beganMs) / 1000;
      assert.ok(20 < tookS && tookS <= shared.defaults.retryFor, `${tookS}`);
      assert.ok(error instanceof kind);
      assert.equal(error.idempotencyKey, service.asked[0]!.headers.get("idempotency-key"));
      assert.equal(error.maybeDone, kind !== postdate.RateLimited);
    });
    service.asked.length = 0;
    await errorOf(() => service.client().credits({ retryFor: 0 }));
    assert.equal(service.asked.length, 1);
  }
});

test("a status is a class of error, and is not repeated for nothing", async () => {
  for (const [status, name] of Object.entries<string>(shared.errors)) {
    const service = new Service().plays(refusal(Number(status), { error: "Its own sentence" }));
    const client = service.client({ retryFor: 0 });
    const error = await errorOf(() => client.credits());
    assert.equal(error.message, "Its own sentence");
    assert.equal(error.status, Number(status));
    assert.equal(error.name, name);
    assert.equal(error.constructor, kinds[name]);
    if (shared.repeated.includes(error.status)) continue;
    const asked = await timeless(async () => {
      await errorOf(() => client.credits({ retryFor: 30 }));
      return service.asked.length;
    });
    assert.equal(asked, 2);
  }
});

test("where nothing was done for sure nobody has to settle it", async () => {
  for (const [status, reason, maybeDone] of shared.maybeDone) {
    const service = new Service().plays(refusal(status, { reason }));
    const error = await errorOf(() => service.client({ retryFor: 0 }).schedule(NEW));
    assert.equal(error.maybeDone, maybeDone, `${status} ${reason}`);
    assert.equal(error.reason, reason);
  }
  for (const never of NEVER_SENT) {
    const service = new Service().plays(never);
    const error = await errorOf(() => service.client({ retryFor: 0 }).schedule(NEW));
    assert.match(error.message, new RegExp(shared.texts["no connection"]));
    assert.ok(!error.maybeDone);
  }
  const service = new Service().plays(LOST[0]!, refusal(409, { status: "completed" }));
  const error = await timeless(() => errorOf(() => service.client().schedules.cancel("sch_1")));
  assert.ok(error instanceof postdate.Conflict);
  assert.deepEqual([error.maybeDone, error.scheduleStatus], [true, "completed"]);
});

test("an answer that is no JSON is strange, and of a create perhaps true", async () => {
  for (const body of ["<html>", "", "null", "7"]) {
    const client = new Service().plays(ok(body)).client();
    const [read, create] = [
      await errorOf(() => client.credits()),
      await errorOf(() => client.schedule(NEW)),
    ];
    assert.match(create.message, new RegExp(shared.texts["a stranger's answer"]));
    assert.deepEqual([read.maybeDone, create.maybeDone], [false, true]);
    assert.ok(create.idempotencyKey);
  }
});

test("whatever a fetch or a proxy says is an error of ours", async () => {
  const client = new Service().client({ retryFor: 0, fetch: () => Promise.reject() });
  const error = await errorOf(() => client.credits());
  assert.ok(error instanceof postdate.ConnectionFailed && error.maybeDone);
  const proxy = new Service().plays({ status: 500, body: { error: { code: 7 } } }).client();
  assert.equal((await errorOf(() => proxy.credits())).message, "The server answered 500");
});

test("no timer is shorter than it was asked for", async () => {
  const years = "9".repeat(400);
  const service = new Service().plays(refusal(503, {}, { "retry-after": years }), CREDITS);
  const pauses = await timeless(async (clock) => {
    await service.client().credits({ retryFor: Infinity, timeout: 1e9 });
    return clock.pauses;
  });
  assert.ok(pauses.length > 0 && pauses.every((each) => each > 2e6 && each < 2 ** 31 / 1000));
});

test("an error has what the answer says", async () => {
  const details = [{ field: "targetUrl", message: "No." }];
  const said = { details, reason: "invalid_field", requestId: "req_1" };
  const error = await errorOf(() => new Service().plays(refusal(400, said)).client().schedule(NEW));
  assert.deepEqual(
    [error.details, error.reason, error.requestId],
    [details, "invalid_field", "req_1"],
  );
});

test("a signal ends a call, its pause and its wait for a turn", async () => {
  const reason = new Error("enough");
  const paused = new Service().plays(refusal(503, {}, { "retry-after": "20" }));
  assert.equal(await errorOf(() => paused.client().credits({ signal: soon() })), reason);
  const silent = (_: unknown, { signal }: RequestInit) =>
    new Promise<Response>((_, reject) =>
      signal!.addEventListener("abort", () => reject(signal!.reason)),
    );
  const client = paused.client({ fetch: silent as typeof fetch });
  assert.equal(await errorOf(() => client.credits({ signal: soon() })), reason);
  assert.equal(await errorOf(() => client.credits({ signal: AbortSignal.abort(reason) })), reason);
  const { connections } = shared.defaults;
  const all = Array.from({ length: connections + 1 }, () =>
    errorOf(() => client.credits({ signal: soon() })),
  );
  assert.deepEqual(new Set(await Promise.all(all)), new Set([reason]));

  function soon() {
    const controller = new AbortController();
    setTimeout(() => controller.abort(reason), 20);
    return controller.signal;
  }
});

test("a signal that outlives its calls keeps nothing of them", async () => {
  const { signal } = new AbortController();
  const service = new Service().plays(refusal(503), CREDITS);
  const client = service.client();
  await timeless(() => client.credits({ signal }));
  const { connections } = shared.defaults;
  const all = Array.from({ length: connections + 1 }, () => client.credits({ signal }));
  await Promise.all(all);
  const batch = async () => [CREATED as unknown as postdate.Created];
  await new postdate.Buffer({ batch }).schedule(NEW, { signal });
  assert.equal(getEventListeners(signal, "abort").length, 0);
});

test("each attempt has a timeout", async () => {
  const service = new Service();
  const silent = (_: unknown, { signal }: RequestInit) =>
    new Promise<Response>((_, reject) =>
      signal!.addEventListener("abort", () => reject(signal!.reason)),
    );
  const client = service.client({ fetch: silent as typeof fetch, retryFor: 0 });
  const large = { targetUrl: URL_, delay: 1, body: "a".repeat(640_000) };
  for (const [call, expected] of [
    [() => client.credits(), shared.defaults.timeout],
    [() => client.credits({ timeout: 3 }), 3],
    // A large body has more, as on a link of 64 KB a second.
    [() => client.schedule(large, { timeout: 3 }), 13],
  ] as const) {
    await timeless(async (clock) => {
      const error = await errorOf(call);
      assert.match(error.message, /did not answer: timeout$/);
      assert.deepEqual(clock.pauses.map(Math.round), [expected]);
    });
  }
});

test("so many calls go at once, and the others wait in order without a timeout", async () => {
  const { connections } = shared.defaults;
  let running = 0;
  let most = 0;
  const started: string[] = [];
  let refused = 0;
  const slow = async (url: string) => {
    // After a wait that is longer than `retryFor`, a call is repeated all the same.
    if (url.endsWith(`=${3 * connections - 1}`) && !refused++)
      return new Response("", { status: 503 });
    started.push(new URL(url).searchParams.get("from")!);
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    running--;
    return Response.json({});
  };
  const client = new Service().client({
    fetch: slow as unknown as typeof fetch,
    timeout: 1.5,
    retryFor: 0.9,
  });
  const copy = client.withOptions({ headers: { "x-a": "b" } });
  await timeless(async () => {
    const calls = Array.from({ length: 3 * connections }, (_, n) =>
      (n % 2 ? client : copy).stats({ from: String(n) }),
    );
    await Promise.all(calls);
  });
  assert.deepEqual([most, refused], [connections, 2]);
  assert.deepEqual(
    started,
    started.map((_, n) => String(n)),
  );
});

test("a copy has other options, and the first keeps its own", async () => {
  const service = new Service().plays(CREDITS);
  const client = service.client();
  const other = client.withOptions({ apiKey: "pd_2", headers: { "User-Agent": "shop/2" } });
  const further = other.withOptions({ headers: { "x-tenant": "blue" } });
  for (const each of [other, further, client]) await each.credits();
  const sent = (name: string) => service.asked.map((each) => each.headers.get(name));
  assert.deepEqual(sent("x-api-key"), ["pd_2", "pd_2", "pd_1"]);
  assert.deepEqual(sent("x-tenant"), [null, "blue", null]);
  const agents = sent("user-agent");
  assert.deepEqual(agents.slice(0, 2), ["shop/2", "shop/2"]);
  assert.match(agents[2]!, /^postdate-js\/\d/);
});

test("the environment has the defaults", async (context) => {
  const { env } = process;
  context.after(() => void (process.env = env));
  process.env = { POSTDATE_URL: "http://here.example/", POSTDATE_API_KEY: "pd_3" };
  const asked: [string, string][] = [];
  const fetch = async (url: any, init: any) => {
    asked.push([url, init.headers["x-api-key"]]);
    return Response.json({ creditsRemaining: 7 });
  };
  await new postdate.Postdate({ fetch }).credits();
  await new postdate.Postdate({ fetch, url: "http://there.example/sub", apiKey: "pd_4" }).credits();
  assert.deepEqual(asked, [
    ["http://here.example/stats/remaining-credits", "pd_3"],
    ["http://there.example/sub/stats/remaining-credits", "pd_4"],
  ]);
});

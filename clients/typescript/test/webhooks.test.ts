/** `verify` accepts signed requests, and refuses all others. */

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Webhook } from "standardwebhooks";

import { VerificationError, responseContent, verify, type ReceivedHeaders } from "postdate";

type Value = string | null | string[];

// The tests of the Python client read the same table.
const shared = JSON.parse(readFileSync(new URL("../../webhooks.json", import.meta.url), "utf8"));
const [BODY] = shared.bodies as [string];
const NOW = new Date(shared.now * 1000);
const NAMES = ["webhook-id", "webhook-timestamp", "webhook-signature"];

/** The table has a long text as a shorter one and a number of repeats. */
function repeated(value: Value | Record<string, number>): Value {
  if (value === null || typeof value === "string" || Array.isArray(value)) return value;
  const [[text, times]] = Object.entries(value) as [[string, number]];
  return text.repeat(times);
}

/** Headers signed by the package of Standard Webhooks. */
function signed({ body = BODY, secret = shared.secret, id = "inv_1", at = NOW } = {}) {
  return {
    "webhook-id": id,
    "webhook-timestamp": String(at.getTime() / 1000),
    "webhook-signature": new Webhook(secret).sign(id, at, body),
  };
}

/** Signs bytes, because that package signs only text. */
function signedBytes(body: Uint8Array, id: string) {
  const content = Buffer.concat([Buffer.from(`${id}.${shared.now}.`), body]);
  const mac = createHmac("sha256", "s".repeat(32)).update(content).digest("base64");
  return { ...signed({ id }), "webhook-signature": `v1,${mac}` };
}

function signatures(text: string): string {
  const good = signed()["webhook-signature"].replace("v1,", "");
  return text.replaceAll("{good}", good).replaceAll("{bad}", btoa("x".repeat(32)));
}

const headersOf = (fields: Record<string, Value>) => fields as unknown as ReceivedHeaders;
const check = (headers: ReceivedHeaders, body: string | Uint8Array = BODY) =>
  verify(headers, body, shared.secret, { now: NOW });

async function refused(headers: ReceivedHeaders, says?: string, body?: Uint8Array | string) {
  await assert.rejects(check(headers, body), (error: Error) => {
    assert(error instanceof VerificationError, error.stack);
    if (says) assert.equal(error.message, says);
    return true;
  });
}

for (const body of shared.bodies as string[]) {
  test(`accepts a signed body: ${JSON.stringify(body)}`, async () => {
    const headers = signed({ body });
    const bytes = new TextEncoder().encode(body);
    const upper = Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]);
    const lists = Object.entries(headers).map(([name, value]) => [name, [value]]);
    const passed = [headers, new Headers(headers), ...[upper, lists].map(Object.fromEntries)];
    const { buffer } = bytes;
    for (const given of passed) {
      for (const each of [body, bytes, buffer, Buffer.from(body), new DataView(buffer)]) {
        const got = await verify(given, each, shared.secret, { now: NOW });
        assert.deepEqual(got, bytes);
      }
    }
    await verify(headers, body, [shared.other, ` ${shared.secret.slice(6)}\n`], { now: NOW });
  });
}

test("compares with the current time by default", async () => {
  const at = new Date(Math.floor(Date.now() / 1000) * 1000);
  await verify(signed({ at }), BODY, shared.secret);
  await assert.rejects(verify(signed(), BODY, shared.secret), /five minutes/);
  const invalid = verify(signed(), BODY, shared.secret, { now: new Date(NaN) });
  await assert.rejects(invalid, /five minutes/);
});

for (const [name, value, says] of shared.refused as [string, Value, string][]) {
  test(`${name} ${JSON.stringify(value)}: ${says}`, async () => {
    const text = repeated(value);
    const given = typeof text === "string" ? signatures(text) : text;
    await refused(headersOf({ ...signed(), [name]: given }), says);
  });
}

test("accepts one valid signature, or one valid secret, of several", async () => {
  for (const text of shared.accepted) {
    await check({ ...signed(), "webhook-signature": signatures(text) });
  }
  for (const secrets of [
    [shared.secret, shared.other],
    [shared.other, shared.secret],
  ]) {
    await verify(signed(), BODY, secrets, { now: NOW });
  }
  for (const secrets of [shared.other, [shared.other], []]) {
    const none = verify(signed(), BODY, secrets, { now: NOW });
    await assert.rejects(none, VerificationError);
  }
});

for (const name of NAMES) {
  test(`refuses odd values of ${name}`, async () => {
    for (const value of shared.odd.map(repeated) as Value[]) {
      const { [name]: _, ...without } = { ...signed() } as Record<string, string>;
      await refused(headersOf({ ...without, [name.toUpperCase()]: value }));
      if (value === null || value.length === 0) continue; // only the good one is left
      await refused(headersOf({ ...signed(), [name.toUpperCase()]: value }));
    }
  });

  test(`refuses two headers ${name}`, async () => {
    const good = signed() as Record<string, string>;
    const says = `There is more than one header ${name}`;
    for (const value of [good[name]!, "inv_0"]) {
      await refused({ [name.toUpperCase()]: value, ...good }, says);
      await refused({ ...good, [name]: `${value}, ${good[name]}` }, says); // as Node joins them
      const headers = new Headers(good);
      headers.append(name, value);
      await refused(headers, says);
    }
  });
}

test("refuses random headers and bodies, with no other error", async () => {
  let state = 37;
  const below = (most: number) => {
    state = (state * 1103515245 + 12345) % 2 ** 31;
    return Math.floor((state / 2 ** 31) * most);
  };
  const good: Record<string, string> = signed();
  const pieces = ["", "v1,", "v1a,", ",", " ", "\n", "\udcff", "\xff", "9".repeat(20)];
  pieces.push(...Object.values(good));
  for (let round = 0; round < 3000; round += 1) {
    const headers: Record<string, Value> = below(4) ? { ...good } : {};
    for (let count = below(3); count > 0; count -= 1) {
      const text = Array.from({ length: below(4) }, () => pieces[below(pieces.length)]).join("");
      const name = [...NAMES, "Webhook-Id", "host"][below(5)]!;
      headers[name] = below(5) ? text : Array(below(3)).fill(text);
    }
    const random = Uint8Array.from({ length: 9 }, () => below(256));
    const body = [BODY, "", random][below(3)]!;
    try {
      await check(headersOf(headers), body);
    } catch (error) {
      assert(error instanceof VerificationError, (error as Error).stack);
      continue;
    }
    const values = NAMES.map((name) => [headers[name]].flat().join());
    assert.deepEqual([body, ...values], [BODY, ...Object.values(good)]);
  }
});

for (const [says, headers, body, secrets] of [
  ["headers must be Headers or an object, not null", null, BODY, shared.secret],
  ["headers must be Headers or an object, not Array", [["webhook-id", "a"]], BODY, shared.secret],
  ['headers["webhook-id"] must be a string, not number', { "Webhook-Id": 1 }, BODY, shared.secret],
  ["body must be the raw text or bytes, not Object", {}, { n: 1 }, shared.secret],
  ["body must be the raw text or bytes, not undefined", {}, undefined, shared.secret],
  ["secrets must be a string or several, not undefined", {}, BODY, undefined],
  ["secrets[1] must be a string, not null", {}, BODY, [shared.secret, null]],
  ...["", "whsec_", "whsec_!", "pd_00_key", "abc", "ab c"].map((secret) => [
    "secrets: a signing secret looks like whsec_… with base64 after it",
    {},
    BODY,
    secret,
  ]),
] as [string, any, any, any][]) {
  test(`a mistake of the caller: ${says} (${secrets})`, async () => {
    await assert.rejects(verify(headers, body, secrets), { name: "TypeError", message: says });
  });
}

test("reads a callback, and leaves a schedule's own request unread", async () => {
  const { data, ...report } = shared.report;
  const body = JSON.stringify({ ...report, data: { ...data, lane: "a", later: 1 }, version: 2 });
  assert.deepEqual(await check(signed({ body }), body), new TextEncoder().encode(body));
  const ended = await check(signed({ body, id: "cbk_1" }), body);
  assert(!(ended instanceof Uint8Array) && ended.type === "schedule.failed");
  assert.deepEqual(ended, { ...JSON.parse(body), webhookId: "cbk_1" });
});

for (const [fields, content] of shared.answers as [Record<string, unknown>, string | null][]) {
  test(`reads the target's answer: ${JSON.stringify(fields)}`, async () => {
    const { data, ...report } = shared.report;
    const body = JSON.stringify({ ...report, data: { ...data, ...fields } });
    const ended = await check(signed({ body, id: "cbk_1" }), body);
    assert(!(ended instanceof Uint8Array));
    const found = responseContent(ended.data);
    assert.equal(found && Buffer.from(found).toString("hex"), content);
  });
}

test("refuses a signed callback that is no report, but accepts such a request", async () => {
  const { data } = shared.report;
  const changed = [
    { data: { lane: "a" } },
    ...[{ status: "completed" }, { attempts: "6" }, { triggerAt: "soon" }, { lane: 1 }].map(
      (change) => ({ data: { ...data, ...change } }),
    ),
    { type: "schedule.lost", data: { ...data, status: "lost" } },
    { timestamp: 0 },
  ].map((change) => JSON.stringify({ ...shared.report, ...change }));
  const bodies = [...shared.noReports.map(repeated), ...changed].map((each) => Buffer.from(each));
  const text = JSON.stringify(shared.report).replace("Service", "\xff"); // no UTF-8
  for (const body of [...bodies, Buffer.from(text, "latin1")]) {
    for (const id of ["cbk_1", "inv_1"]) {
      const headers = signedBytes(body, id);
      if (id === "inv_1") assert.deepEqual(await check(headers, body), Uint8Array.from(body));
      else await refused(headers, "It is signed, but is no report of a schedule's end", body);
    }
  }
});

test("refuses an id that is encoded like another one", async () => {
  const headers = signedBytes(Buffer.from(BODY), "inv_\ufffd");
  await refused({ ...headers, "webhook-id": "inv_\ud800" }, "No signature fits");
});

/**
 * For targets: checks signatures of Standard Webhooks (https://www.standardwebhooks.com), and reads
 * callbacks.
 */

import type { EndedSchedule, ScheduleEnded } from "./schema.js";

const TOLERANCE_S = 300;
// Postdate sends 30, 10 and, during a rotation, 143 characters.
const LONGEST_HEADER = 4096;
const NAMES = ["webhook-id", "webhook-timestamp", "webhook-signature"] as const;
const ENDS: ReadonlySet<string> = new Set<ScheduleEnded["type"]>([
  "schedule.completed",
  "schedule.failed",
]);
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)$/;

/** The signature does not prove that the sender knows the secret; the message says why. */
export class VerificationError extends Error {
  override readonly name = "VerificationError";
}

/** `Headers`, or an object such as the headers of Node's servers. */
export type ReceivedHeaders =
  | { get(name: string): string | null }
  | { readonly [name: string]: string | readonly string[] | undefined };

/** `whsec_…` of `postdate signing show`, or several secrets, one of which must match. */
export type Secrets = string | readonly string[];

/**
 * The content of a callback. All attempts to send it, also those of `callbacks.resend`, have the
 * same `webhookId`, by which a receiver drops repeats.
 */
export interface CallbackReport extends ScheduleEnded {
  webhookId: string;
}

/**
 * Throws a `VerificationError` unless the request was signed with the secret within five minutes.
 * Returns the report of a callback, or the body of a schedule's own request.
 *
 * `body` is the raw body, bytes or text, before anything parses it. A repeated request has the same
 * `webhook-id`, so that the receiver can drop it. `now` is for tests.
 *
 * A `TypeError` means a mistake of the caller: an argument of another type, or a malformed secret.
 */
export async function verify(
  headers: ReceivedHeaders,
  body: string | ArrayBuffer | ArrayBufferView,
  secrets: Secrets,
  options: { now?: Date | undefined } = {},
): Promise<CallbackReport | Uint8Array> {
  const { webhookId, content } = await verified(headers, body, secrets, options);
  return isCallback(webhookId) ? reportOf(webhookId, content) : content;
}

/** Like `verify`, but leaves the report of a callback unread. */
export async function verified(
  headers: ReceivedHeaders,
  body: string | ArrayBuffer | ArrayBufferView,
  secrets: Secrets,
  { now = new Date() }: { now?: Date | undefined } = {},
): Promise<{ webhookId: string; content: Uint8Array }> {
  const content = bytesOf(body);
  const keys = keysOf(secrets);
  const [webhookId, timestamp, signatures] = valuesOf(headers);
  checkMoment(timestamp, now);
  const given = signatures.split(/\s+/);
  const signed = concatenated(utf8(`${webhookId}.${timestamp}.`), content);
  let fits = false;
  // Try every key, so that the time reveals nothing.
  for (const key of keys) fits = (await fitsOne(key, signed, given)) || fits;
  // The encoder gives all halves of surrogate pairs the same bytes, so two ids could look alike.
  if (!fits || /[^\x20-\x7e]/.test(webhookId)) throw new VerificationError("No signature fits");
  return { webhookId, content };
}

export const isCallback = (webhookId: string): boolean => webhookId.startsWith("cbk_");

/**
 * Compares HMACs of the signatures, because WebCrypto compares those in constant time. The body,
 * which may be long, is hashed once, however many signatures a stranger sends.
 */
async function fitsOne(bytes: Bytes, signed: Bytes, given: string[]): Promise<boolean> {
  const { subtle } = crypto;
  const hash = { name: "HMAC", hash: "SHA-256" };
  const key = await subtle.importKey("raw", bytes, hash, false, ["sign", "verify"]);
  const digest = new Uint8Array(await subtle.sign("HMAC", key, signed));
  const expected = utf8(`v1,${btoa(String.fromCharCode(...digest))}`);
  const blind = await subtle.sign("HMAC", key, expected);
  const alike = given.filter((each) => each.length === expected.length).map(utf8);
  const all = alike.map((each) => subtle.verify("HMAC", key, blind, each));
  return (await Promise.all(all)).includes(true);
}

type Bytes = Uint8Array<ArrayBuffer>;

const utf8 = (text: string): Bytes => new TextEncoder().encode(text);

function bytesOf(body: unknown): Uint8Array {
  if (typeof body === "string") return utf8(body);
  if (body instanceof ArrayBuffer) return new Uint8Array(body);
  if (ArrayBuffer.isView(body)) {
    return new Uint8Array(body.buffer, body.byteOffset, body.byteLength);
  }
  throw new TypeError(`body must be the raw text or bytes, not ${kindOf(body)}`);
}

function concatenated(first: Uint8Array, second: Uint8Array): Bytes {
  const all = new Uint8Array(first.length + second.length);
  all.set(first);
  all.set(second, first.length);
  return all;
}

function keysOf(secrets: Secrets): Bytes[] {
  if (typeof secrets === "string") return [keyOf("secrets", secrets)];
  if (Array.isArray(secrets)) return secrets.map((each, at) => keyOf(`secrets[${at}]`, each));
  throw new TypeError(`secrets must be a string or several, not ${kindOf(secrets)}`);
}

function keyOf(name: string, secret: unknown): Bytes {
  if (typeof secret !== "string") {
    throw new TypeError(`${name} must be a string, not ${kindOf(secret)}`);
  }
  const text = secret.trim().replace(/^whsec_/, "");
  if (!BASE64.test(text)) {
    throw new TypeError(`${name}: a signing secret looks like whsec_… with base64 after it`);
  }
  return Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
}

/** Refuses two headers of one name: the receiver might use the one that was not checked. */
function valuesOf(headers: ReceivedHeaders): [string, string, string] {
  if (typeof headers !== "object" || headers === null || Array.isArray(headers)) {
    throw new TypeError(`headers must be Headers or an object, not ${kindOf(headers)}`);
  }
  const found = foundIn(headers);
  return NAMES.map((name) => {
    const values = found.filter(([key]) => key.toLowerCase() === name).flatMap(([, each]) => each);
    for (const each of values) {
      if (typeof each !== "string") {
        throw new TypeError(`headers["${name}"] must be a string, not ${kindOf(each)}`);
      }
    }
    const [value, ...others] = values as string[];
    // Servers join headers of one name by ", ", which none of ours contains.
    if (value === undefined || others.length || value.includes(", ")) {
      const many = value === undefined ? "no" : "more than one";
      throw new VerificationError(`There is ${many} header ${name}`);
    }
    if (value.length > LONGEST_HEADER) {
      throw new VerificationError(`The header ${name} is too long`);
    }
    return value;
  }) as [string, string, string];
}

function foundIn(headers: ReceivedHeaders): [string, unknown][] {
  const pairs: [string, unknown][] =
    typeof headers.get === "function"
      ? NAMES.map((name) => [name, (headers as Headers).get(name)])
      : Object.entries(headers);
  return pairs.filter(([, value]) => value !== undefined && value !== null);
}

function checkMoment(timestamp: string, now: Date): void {
  if (!/^[0-9]{1,15}$/.test(timestamp)) {
    throw new VerificationError("The header webhook-timestamp is no number of seconds");
  }
  // Also if `now` is an invalid date.
  if (!(Math.abs(now.getTime() / 1000 - Number(timestamp)) <= TOLERANCE_S)) {
    throw new VerificationError("It was signed more than five minutes ago, or ahead");
  }
}

/** The bytes of the target's answer that a report has; null if it has none. */
export function responseContent(data: EndedSchedule): Uint8Array | null {
  if (data.responseBody === undefined) return null;
  if (data.responseBodyEncoding === "utf-8") return new TextEncoder().encode(data.responseBody);
  return Uint8Array.from(atob(data.responseBody), (each) => each.charCodeAt(0));
}

type Kind = "text" | "text?" | "number" | "moment" | "flag?" | "headers?";
const FIELDS: Record<keyof EndedSchedule, Kind> = {
  scheduleId: "text",
  invocationId: "text",
  recurringId: "text?",
  lane: "text?",
  reference: "text?",
  targetUrl: "text",
  targetMethod: "text",
  triggerAt: "moment",
  executedAt: "moment",
  status: "text",
  statusCode: "number",
  responseTimeMs: "number",
  errorMessage: "text",
  attempts: "number",
  responseHeaders: "headers?",
  responseBody: "text?",
  responseBodyEncoding: "text?",
  responseCut: "flag?",
  responseDropped: "flag?",
};

/** Ignores unknown fields, so that an older receiver reads a newer server. */
export function reportOf(webhookId: string, body: Uint8Array): CallbackReport {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(body);
    const report = JSON.parse(text) as ScheduleEnded;
    const { type, timestamp, data } = report;
    const odd = Object.entries(FIELDS).some(([name, kind]) => !is(kind, Object(data)[name]));
    if (odd || !is("moment", timestamp) || type !== `schedule.${data.status}` || !ENDS.has(type)) {
      throw new TypeError("It lacks a field, or one is odd");
    }
    return { ...report, webhookId };
  } catch (cause) {
    const text = "It is signed, but is no report of a schedule's end";
    throw new VerificationError(text, { cause });
  }
}

function is(kind: string, value: unknown): boolean {
  if (value === undefined) return kind.endsWith("?");
  if (kind === "number") return typeof value === "number";
  if (kind === "flag?") return typeof value === "boolean";
  if (kind === "headers?") return typeof value === "object" && value !== null;
  return typeof value === "string" && (kind !== "moment" || !Number.isNaN(Date.parse(value)));
}

function kindOf(value: unknown): string {
  if (typeof value !== "object") return typeof value;
  return value === null ? "null" : (value.constructor?.name ?? "object");
}

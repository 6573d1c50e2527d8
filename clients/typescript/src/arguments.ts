import { DURATIONS } from "./schema.js";

// Of ids, lanes and names; a path has no other.
const PART = /^(?!\.+$)[A-Za-z0-9._:-]{1,200}$/;
const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/;
const HEADER_VALUE = /^(?:[!-~](?:[ \t!-~]*[!-~])?)?$/;
// The client sets them for each request.
const OWN_HEADERS = ["content-length", "content-type", "idempotency-key", "transfer-encoding"];
const LONGEST_SHOWN = 80;
// String.fromCharCode takes its bytes as arguments, of which there is a bound.
const AT_ONCE = 0x8000;

// Node's, which Bun, Deno and some others have too.
const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };

/** The environment's, where there is an environment. */
export function given(name: string, variable: string): string {
  const found = process?.env?.[variable];
  if (!found) throw new RangeError(`Give ${name}, or set ${variable}.`);
  return found;
}

export function text(name: string, value: unknown): string {
  if (typeof value !== "string") {
    throw new TypeError(`${name} must be a string, not ${kindOf(value)}`);
  }
  return value;
}

/** An id, a lane or a name, which goes into a path. */
export function part(name: string, value: unknown): string {
  const id = text(name, value);
  if (PART.test(id)) return id;
  const shown = id.length > LONGEST_SHOWN ? id.slice(0, LONGEST_SHOWN) + "…" : id;
  throw new RangeError(
    `${name} must have letters, digits, '.', '_', ':' and '-', and not only dots,` +
      ` unlike ${JSON.stringify(shown)}`,
  );
}

export function checkedUrl(url: string): string {
  // A fetch refuses a user's name in it.
  if (/^https?:\/\/[^/?#@]+(?:\/[^?#]*)?$/i.test(url) && URL.canParse(url))
    return url.replace(/\/+$/, "");
  throw new RangeError(
    "The address of a Postdate looks like http://127.0.0.1:8000 or" +
      ` https://postdate.example, not like ${JSON.stringify(url)}`,
  );
}

/** The key is not shown: it is a secret. */
export function checkedApiKey(key: string): string {
  if (/^[!-~]+$/.test(text("apiKey", key))) return key;
  throw new RangeError("The API key is empty, or has characters that no key has.");
}

export function checkedKey(key: string): string {
  if (/^[!-~]{1,255}$/.test(text("idempotencyKey", key))) return key;
  throw new RangeError(
    `An idempotency key has 1 to 255 visible ASCII characters, unlike ${JSON.stringify(key)}`,
  );
}

export function checkedEtag(name: string, etag: string): string {
  if (HEADER_VALUE.test(text(name, etag))) return etag;
  throw new RangeError(`${name} is the etag of an earlier answer, unlike ${JSON.stringify(etag)}`);
}

/** By their names in lower case. No error shows a value, which may be a secret. */
export function checkedHeaders(headers: Record<string, string>): Record<string, string> {
  const checked: Record<string, string> = {};
  for (const [given, value] of Object.entries(headers)) {
    const name = given.toLowerCase();
    if (name === "x-api-key") {
      throw new RangeError("Give the API key as apiKey, not among the headers.");
    }
    if (OWN_HEADERS.includes(name)) {
      throw new RangeError(`The client itself sets the header ${given}.`);
    }
    if (!HEADER_NAME.test(given) || !HEADER_VALUE.test(text(`headers[${given}]`, value))) {
      throw new RangeError(
        `The header ${JSON.stringify(given)} has characters that no header has.`,
      );
    }
    checked[name] = value;
  }
  return checked;
}

export function number(name: string, value: number): number {
  if (typeof value === "number" && !Number.isNaN(value)) return value;
  throw new TypeError(`${name} must be a number, not ${kindOf(value)}`);
}

export function seconds(name: string, value: number): number {
  if (number(name, value) > 0 && value < Infinity) return value;
  throw new RangeError(`${name} must be a number of seconds above 0, not ${value}`);
}

/** At most so many; without a limit all. */
export function limited(limit: unknown): number {
  if (limit === undefined || limit === null || limit === Infinity) return Infinity;
  if (Number.isSafeInteger(limit) && (limit as number) >= 0) return limit as number;
  const shown = typeof limit === "number" ? limit : kindOf(limit);
  throw new TypeError(`limit must be a whole number, not ${shown}`);
}

/** A number is of seconds; rounds up to a millisecond. */
function duration(name: string, value: unknown) {
  if (typeof value !== "number") return value;
  if (!Number.isFinite(value)) throw new RangeError(`${name} is no length of time: ${value}`);
  if (value < 0) throw new RangeError(`${name} cannot be negative: ${value}`);
  return `${Math.ceil(Math.round(value * 1e6) / 1e3)}ms`;
}

function field(name: string, value: unknown) {
  if (value instanceof Date && Number.isNaN(value.getTime())) {
    throw new RangeError(`${name} is an invalid Date.`);
  }
  if (!DURATIONS.includes(name)) return value;
  return Array.isArray(value)
    ? value.map((each, n) => duration(`${name}[${n}]`, each))
    : duration(name, value);
}

/** A request as the API takes it: durations as text, and `body` in the field of its kind. */
export function written(request: object): Record<string, unknown> {
  // Of a Promise, that somebody forgot to await, no field would be sent.
  if (!isObject(request))
    throw new TypeError(`Give the fields in an object, not ${kindOf(request)}`);
  const { body, ...others } = request as Record<string, unknown>;
  const fields = Object.fromEntries(Object.entries(others).map(([n, v]) => [n, field(n, v)]));
  if (body === undefined) return fields;
  return { ...fields, ...bodied(body) };
}

function bodied(body: unknown) {
  if (typeof body === "string") return { targetBodyText: body };
  if (body instanceof ArrayBuffer) return { targetBodyBase64: base64(new Uint8Array(body)) };
  if (body instanceof Uint8Array) return { targetBodyBase64: base64(body) };
  // Of a Map, a Date or a Blob JSON would keep little or nothing.
  if (body === null || isObject(body)) {
    return { targetBody: body };
  }
  throw new TypeError(
    `body must be an object, a string or a Uint8Array, not ${kindOf(body)}; other JSON can be` +
      " sent as a string, with a Content-Type in targetHeaders",
  );
}

const isObject = (value: unknown) => Object.prototype.toString.call(value) === "[object Object]";

function base64(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += AT_ONCE) {
    binary += String.fromCharCode(...bytes.subarray(at, at + AT_ONCE));
  }
  return btoa(binary);
}

/** The parameters of a list: several words with commas between. */
export function queried(filter: object): [string, string][] {
  return Object.entries(written(filter))
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => [name, value instanceof Date ? value.toISOString() : String(value)]);
}

export function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Number.isNaN(value)) return "NaN";
  return typeof value === "object" ? (value.constructor?.name ?? "object") : typeof value;
}

// Calls of the API: the attempts of one, its answer or error.
import {
  checkedApiKey,
  checkedEtag,
  checkedHeaders,
  checkedKey,
  checkedUrl,
  given,
  number,
  seconds,
  text,
} from "./arguments.js";
import {
  ConnectionFailed,
  errorOf,
  PostdateError,
  RateLimited,
  strangeAnswer,
  Unavailable,
} from "./errors.js";
import { LONGEST_TIMER_MS, Turns } from "./queue.js";

export const VERSION = "0.2.0";
const RETRY_FOR_S = 30;
const TIMEOUT_S = 10;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5000;
const CONNECTIONS = 100;
// A body is given as much time as it needs on a link of this speed.
const SLOWEST_BYTES_PER_MS = 64;
// A connection that failed so has carried nothing.
const NEVER_SENT =
  /^(connect|getaddrinfo|UND_ERR_CONNECT_TIMEOUT|ECONNREFUSED|ConnectionRefused)$|CERT|ALTNAME/;
// Deno's errors have no code.
const NEVER_SENT_BY_DENO = /: client error \(Connect\): /;

/** What goes for one call alone. */
export interface CallOptions {
  /** Ends the call; it rejects with the signal's reason, and may have been carried out. */
  signal?: AbortSignal | undefined;
  /** Seconds of each attempt. */
  timeout?: number | undefined;
  /** Seconds for which the call is repeated; 0: never. */
  retryFor?: number | undefined;
}

export interface CreateOptions extends CallOptions {
  /** The same key within 24 hours does nothing twice. Without one, each call makes its own. */
  idempotencyKey?: string | undefined;
}

export interface MatchOptions extends CallOptions {
  /** The `etag` of an earlier answer: if it is another by now, PreconditionFailed is thrown. */
  ifMatch?: string | undefined;
}

export interface SetOptions extends MatchOptions {
  /** "*": only if there is none yet. */
  ifNoneMatch?: string | undefined;
}

export interface Options {
  /** The address of the service; by default the environment's POSTDATE_URL. */
  url?: string | undefined;
  /** By default the environment's POSTDATE_API_KEY. */
  apiKey?: string | undefined;
  /** For so many seconds a call without an answer, or with 429 or 503, is repeated: 30. */
  retryFor?: number | undefined;
  /** Seconds of each attempt: 10. */
  timeout?: number | undefined;
  /** They go with every request. */
  headers?: Record<string, string> | undefined;
  /** Instead of the global one: for a proxy, a private certificate authority or tests. */
  fetch?: typeof fetch | undefined;
}

export interface Answer {
  body: any;
  status: number;
  etag: string | null;
  requestId: string | null;
  /** An earlier call with the same idempotency key did it. */
  replayed: boolean;
}

interface Asked {
  query?: [string, string][];
  /** JSON. */
  body?: string;
  /** It needs an idempotency key. */
  once?: boolean;
}

export class Calls {
  #url: string | undefined;
  #apiKey: string | undefined;
  readonly #headers: Record<string, string>;
  readonly #retryForS: number;
  readonly #timeoutS: number;
  readonly #fetch: typeof fetch;
  /** Copies share the turns of the first, as they share its connections. */
  readonly #turns: Turns;

  constructor(options: Options, of?: Calls) {
    const url = of ? of.#url : options.url;
    const apiKey = options.apiKey ?? (of && of.#apiKey);
    if (url !== undefined) this.#url = checkedUrl(text("url", url));
    if (apiKey !== undefined) this.#apiKey = checkedApiKey(text("apiKey", apiKey));
    this.#headers = {
      "user-agent": `postdate-js/${VERSION}`,
      ...(of && of.#headers),
      ...checkedHeaders(options.headers ?? {}),
    };
    this.#retryForS = number("retryFor", options.retryFor ?? (of && of.#retryForS) ?? RETRY_FOR_S);
    this.#timeoutS = seconds("timeout", options.timeout ?? (of && of.#timeoutS) ?? TIMEOUT_S);
    this.#fetch = options.fetch ?? (of && of.#fetch) ?? ((...args) => fetch(...args));
    this.#turns = (of && of.#turns) ?? new Turns(CONNECTIONS);
  }

  /** Every call is safe to repeat: a create by its idempotency key, the others by nature. */
  async call(
    method: string,
    path: string,
    options: CreateOptions & SetOptions,
    { query, body, once }: Asked = {},
  ): Promise<Answer> {
    // The environment is asked at the first call only: a build, such as that of Next.js, runs modules
    // that make a client, without secrets.
    this.#url ??= checkedUrl(given("url", "POSTDATE_URL"));
    this.#apiKey ??= checkedApiKey(given("apiKey", "POSTDATE_API_KEY"));
    const headers: Record<string, string> = { ...this.#headers, "x-api-key": this.#apiKey };
    const key = once ? checkedKey(options.idempotencyKey ?? crypto.randomUUID()) : null;
    if (key !== null) headers["idempotency-key"] = key;
    if (body !== undefined) headers["content-type"] = "application/json";
    for (const name of ["ifMatch", "ifNoneMatch"] as const) {
      const etag = options[name];
      if (etag !== undefined) {
        headers[name === "ifMatch" ? "if-match" : "if-none-match"] = checkedEtag(name, etag);
      }
    }
    const asked = query?.length ? "?" + new URLSearchParams(query) : "";
    const request = { method, headers, redirect: "manual", ...(body !== undefined && { body }) };
    return this.#repeated(this.#url + path + asked, request as RequestInit, key, options);
  }

  async #repeated(url: string, request: RequestInit, key: string | null, options: CallOptions) {
    const timeoutS = seconds("timeout", options.timeout ?? this.#timeoutS);
    const { signal } = options;
    let deadlineMs =
      performance.now() + 1000 * number("retryFor", options.retryFor ?? this.#retryForS);
    let longestMs = FIRST_PAUSE_MS;
    for (let maybeDone = false; ;) {
      // The wait for a turn has no timeout.
      const askedMs = performance.now();
      await this.#turns.take(signal);
      deadlineMs += performance.now() - askedMs;
      let outcome: Answer | PostdateError;
      try {
        outcome = await this.#attempt(url, request, timeoutS, signal);
      } finally {
        this.#turns.give();
      }
      if (!(outcome instanceof PostdateError)) return outcome;
      maybeDone = outcome.maybeDone ||= maybeDone;
      const pauseMs = 1000 * (outcome.retryAfter ?? 0) + (longestMs * (1 + Math.random())) / 2;
      longestMs = Math.min(2 * longestMs, LONGEST_PAUSE_MS);
      if (!isPassing(outcome) || performance.now() + pauseMs > deadlineMs) {
        outcome.idempotencyKey = key;
        throw outcome;
      }
      await sleep(pauseMs, signal);
    }
  }

  async #attempt(
    url: string,
    request: RequestInit,
    timeoutS: number,
    signal: AbortSignal | undefined,
  ): Promise<Answer | PostdateError> {
    const ending = new AbortController();
    const abort = () => ending.abort(signal?.reason);
    const bytes = typeof request.body === "string" ? request.body.length : 0;
    const timeoutMs = 1000 * timeoutS + bytes / SLOWEST_BYTES_PER_MS;
    const timer = setTimeout(abort, Math.min(timeoutMs, LONGEST_TIMER_MS));
    signal?.addEventListener("abort", abort);
    try {
      signal?.throwIfAborted();
      // Some runtimes want it called without an object.
      const send = this.#fetch;
      const response = await send(url, { ...request, signal: ending.signal });
      return read(response, await response.text(), request.method !== "GET");
    } catch (error) {
      signal?.throwIfAborted();
      return lost(this.#url!, ending.signal.aborted ? "timeout" : error);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }
}

function read(response: Response, content: string, changes: boolean): Answer | PostdateError {
  const { status, headers } = response;
  let body: any = null;
  try {
    body = JSON.parse(content);
  } catch {
    // Not JSON: a proxy's page. The status says the rest.
  }
  if (!response.ok) {
    return errorOf(status, body, response.statusText, retryAfterS(headers.get("retry-after")));
  }
  if (typeof body !== "object" || !body) return strangeAnswer("it is no JSON object", changes);
  return {
    body,
    status,
    etag: headers.get("etag"),
    requestId: headers.get("postdate-request-id"),
    replayed: headers.get("idempotency-replayed") === "true",
  };
}

function isPassing(error: PostdateError) {
  return [RateLimited, Unavailable, ConnectionFailed].some((kind) => error instanceof kind);
}

/** A proxy may send a date. */
function retryAfterS(header: string | null): number | null {
  if (header === null) return null;
  if (/^\s*\d+\s*$/.test(header)) return Number(header);
  const moment = Date.parse(header);
  return Number.isNaN(moment) ? null : Math.max(0, (moment - Date.now()) / 1000);
}

interface Cause {
  code?: string;
  syscall?: string;
  message?: string;
  cause?: Cause;
  errors?: Cause[];
}

function lost(url: string, error: unknown): PostdateError {
  // The innermost cause knows the most; fetch itself says "fetch failed". A host with several
  // addresses, as localhost may be, has one for each.
  let cause = (typeof error === "string" ? { message: error } : (error ?? {})) as Cause;
  for (let inner; (inner = cause.cause ?? cause.errors?.[0]);) cause = inner;
  const neverSent =
    [cause.syscall, cause.code].some((each) => NEVER_SENT.test(each ?? "")) ||
    NEVER_SENT_BY_DENO.test(cause.message ?? "");
  const what = neverSent ? "cannot be reached" : "did not answer";
  const said = cause.message || cause.code || String(error);
  const failed = new ConnectionFailed(`${url} ${what}: ${said}`, { cause: error });
  failed.maybeDone = !neverSent;
  return failed;
}

function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      if (signal?.aborted) reject(signal.reason);
      else resolve();
    };
    const timer = setTimeout(end, Math.min(ms, LONGEST_TIMER_MS));
    signal?.addEventListener("abort", end);
  });
}

/** Handlers for targets: they read the raw body, verify it, drop repeats, and answer. */

import {
  isCallback,
  reportOf,
  VerificationError,
  verified,
  type CallbackReport,
  type ReceivedHeaders,
  type Secrets,
} from "./webhooks.js";

const TWO_WEEKS_S = 14 * 86_400;
const MOST_BYTES = 1_048_576;
// No attempt of Postdate takes longer; a stranger might send a body for hours.
const LONGEST_BODY_MS = 30_000;
const CONSUMED =
  "The body was read before the receiver got the request: mount the receiver before body parsers " +
  "such as express.json()";

/**
 * Remembers the webhook ids of requests whose work has begun or is done. All processes of the
 * receiver must share it.
 *
 * A process may die between `begin` and `finish`. So the note of `begin` must expire after
 * `leaseSeconds`, and the next attempt then does the work again. If the note stayed, the receiver
 * would drop that attempt, and nobody would do the work.
 *
 * So the work is done at least once. It is done twice if the process dies, or the store fails,
 * between the work and `finish`, or if the work takes longer than the lease. If you cannot accept
 * that, leave out the store: insert the webhook id into a table of your database, in the
 * transaction that does the work.
 */
export interface SeenStore {
  /**
   * Notes in one atomic step that the work has begun, unless the store has a note of this id.
   * Returns "begun" if it made the note. Otherwise it returns "busy", or "done" after `finish`.
   */
  begin(webhookId: string, leaseSeconds: number): MaybeLater<"begun" | "busy" | "done">;
  /** Notes that the work is done, and keeps the note for at least `keepSeconds`. */
  finish(webhookId: string, keepSeconds: number): unknown;
  /** Removes the note, because the work failed. */
  release(webhookId: string): unknown;
}

export interface ReceiverOptions<R = unknown> {
  /** The account's secrets. A function is called for each request. */
  secrets: Secrets | (() => MaybeLater<Secrets>);
  /** Gets the report of a schedule's end. If it throws, Postdate sends the report again. */
  onCallback?(report: CallbackReport): unknown;
  /** Gets a schedule's own request. If it throws, the attempt fails with a 500. */
  onRequest?(received: ReceivedRequest<R>): unknown;
  /** Drops repeats. Without it your functions get every attempt. */
  seen?: SeenStore | undefined;
  /**
   * When another attempt may do work that has not finished. The default is 60 seconds, because
   * Postdate waits for an answer for at most 30.
   */
  leaseSeconds?: number | undefined;
  /**
   * How long the store remembers finished work. The default is two weeks, because Postdate waits
   * for at most one week between two attempts.
   */
  keepSeconds?: number | undefined;
  /**
   * The longest body that it accepts. The default is 1 MiB; Postdate sends at most 256 KiB, unless
   * its operator raised that limit.
   */
  maxBytes?: number | undefined;
}

export interface ReceivedRequest<R = unknown> {
  /** The same in all attempts. */
  webhookId: string;
  /** The signed bytes. */
  body: Uint8Array;
  /** The server's own object. The signature covers none of its other headers, nor its URL. */
  request: R;
}

/** The part of a request of Node's servers that a receiver uses. */
export interface NodeRequest {
  headers: { readonly [name: string]: string | readonly string[] | undefined };
  on(event: string, listener: (value: any) => void): unknown;
  readonly body?: unknown;
  readonly rawBody?: unknown;
  readonly readableDidRead?: boolean;
  readonly destroyed?: boolean;
}

/** The part of an answer of Node's servers that a receiver uses. */
export interface NodeResponse {
  writeHead(status: number, headers: Record<string, string>): unknown;
  end(text?: string): unknown;
}

/** The part of a Fastify instance that a receiver uses. */
export interface FastifyScope {
  removeAllContentTypeParsers(): unknown;
  addContentTypeParser(
    type: string,
    parser: (request: any, payload: any, done: (error: null) => void) => void,
  ): unknown;
  all(path: string, handler: (request: any, reply: any) => unknown): unknown;
}

type MaybeLater<T> = T | Promise<T>;
type Answer = { status: number; text?: string; headers: Record<string, string> };
type Body = ArrayBufferView | "too long" | "too slow" | "cut off";

/**
 * A handler from `Request` to `Response`: for Hono, Next.js, Workers, Bun and Deno.
 *
 * It answers 204 if the work is done, by this attempt or an earlier one. Other answers are 401 if
 * `verify` refuses the request, 413 for a body that is too long, 408 for one that takes more than
 * 30 seconds, 400 if you gave no function for the request, and 503 while another attempt does the
 * work. Errors of your functions and your store are thrown: servers answer them with a 500.
 */
export function fetchReceiver(
  options: ReceiverOptions<Request>,
): (request: Request) => Promise<Response> {
  check(options);
  return async (request) => {
    const read = (most: number) => bodyOf(request, most);
    const { status, text, headers } = await receive(options, request.headers, request, read);
    return new Response(text ?? null, { status, headers });
  };
}

/**
 * A handler for Express and other servers with Node's request and response. It answers like
 * `fetchReceiver`. It passes errors to `next`, or logs them and answers 500 if there is none.
 */
export function nodeReceiver<R extends NodeRequest>(
  options: ReceiverOptions<R>,
): (request: R, response: NodeResponse, next?: (error?: any) => void) => Promise<void> {
  check(options);
  return async (request, response, next) => {
    if (typeof request.on !== "function") {
      throw new TypeError("nodeReceiver takes Node's request: in Fastify use fastifyReceiver");
    }
    let answer: Answer;
    try {
      answer = await receive(options, request.headers, request, (most) => streamed(request, most));
    } catch (error) {
      if (next) return next(error);
      console.error(error);
      answer = said(500, "The receiver failed");
    }
    response.writeHead(answer.status, answer.headers);
    response.end(answer.text);
  };
}

/**
 * A plugin for Fastify: `app.register(fastifyReceiver({…}), { prefix: "/ended" })`. It answers
 * like `fetchReceiver`. It removes the body parsers of its own route only.
 */
export function fastifyReceiver(
  options: ReceiverOptions<any>,
): (scope: FastifyScope) => Promise<void> {
  check(options);
  return async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", (_request, _payload, done) => done(null));
    scope.all("/", async (request, reply) => {
      const read = (most: number) => streamed(request.raw, most);
      const { status, text, headers } = await receive(options, request.headers, request, read);
      return reply.code(status).headers(headers).send(text);
    });
  };
}

function check({ onCallback, onRequest }: ReceiverOptions<any>): void {
  if (!onCallback && !onRequest) throw new TypeError("Give onCallback, onRequest, or both");
}

async function receive<R>(
  options: ReceiverOptions<R>,
  headers: ReceivedHeaders,
  request: R,
  read: (most: number) => Promise<Body>,
): Promise<Answer> {
  const { secrets, onCallback, onRequest, maxBytes = MOST_BYTES } = options;
  const body = await read(maxBytes);
  if (body === "cut off") return said(400, "The body is incomplete");
  if (body === "too long") return said(413, `The body has more than ${maxBytes} bytes`);
  if (body === "too slow") {
    const slow = said(408, "The body took more than 30 seconds");
    return { ...slow, headers: { ...slow.headers, connection: "close" } };
  }
  const valid = typeof secrets === "function" ? await secrets() : secrets;
  let webhookId: string;
  let work: (() => unknown) | undefined;
  try {
    const { content, ...found } = await verified(headers, body, valid);
    webhookId = found.webhookId;
    if (!isCallback(webhookId)) {
      work = onRequest && (() => onRequest({ webhookId, body: content, request }));
    } else if (onCallback) {
      const report = reportOf(webhookId, content);
      work = () => onCallback(report);
    }
  } catch (error) {
    if (error instanceof VerificationError) return said(401, error.message);
    throw error;
  }
  if (work) return once(options, webhookId, work);
  const kind = isCallback(webhookId) ? "callbacks" : "schedules' own requests";
  return said(400, `This receiver takes no ${kind}`);
}

async function once(
  { seen, leaseSeconds = 60, keepSeconds = TWO_WEEKS_S }: ReceiverOptions<any>,
  webhookId: string,
  work: () => unknown,
): Promise<Answer> {
  const found = seen ? await seen.begin(webhookId, leaseSeconds) : "begun";
  if (found === "busy") {
    // Postdate honours Retry-After, so its next attempt comes after the lease.
    const busy = said(503, "Another attempt does this work");
    return { ...busy, headers: { ...busy.headers, "retry-after": String(leaseSeconds) } };
  }
  if (found !== "begun" && found !== "done") {
    throw new TypeError('seen.begin must return "begun", "busy" or "done"');
  }
  if (found === "begun") {
    try {
      await work();
    } catch (error) {
      await released(seen, webhookId, error);
      throw error;
    }
    await seen?.finish(webhookId, keepSeconds);
  }
  return { status: 204, headers: {} };
}

/** If the store fails too, its error must not hide the first one. */
async function released(seen: SeenStore | undefined, id: string, why: unknown): Promise<void> {
  try {
    await seen?.release(id);
  } catch (error) {
    throw new AggregateError([why, error], "The work failed, and so did seen.release");
  }
}

function said(status: number, text: string): Answer {
  return { status, text, headers: { "content-type": "text/plain; charset=utf-8" } };
}

async function bodyOf(request: Request, most: number): Promise<Body> {
  if (request.bodyUsed || request.body?.locked) throw new TypeError(CONSUMED);
  const reader = request.body?.getReader();
  const chunks: Uint8Array[] = [];
  let length = 0;
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    reader?.cancel().catch(() => {}); // which ends the read below
  }, LONGEST_BODY_MS);
  try {
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
      if (done) return late ? "too slow" : joined(chunks);
      chunks.push(value);
      length += value.length;
      if (length > most) {
        await reader?.cancel();
        return "too long";
      }
    }
  } catch {
    return late ? "too slow" : "cut off"; // the client is gone, and reads no answer
  } finally {
    clearTimeout(timer);
  }
}

async function streamed(request: NodeRequest, most: number): Promise<Body> {
  // express.raw() and some cloud platforms keep the bytes.
  for (const kept of [request.rawBody, request.body]) {
    if (ArrayBuffer.isView(kept)) return kept.byteLength > most ? "too long" : kept;
  }
  // A stream that was read emits no further events, so waiting for one would never end.
  if (request.readableDidRead) throw new TypeError(CONSUMED);
  if (request.destroyed) return "cut off";
  const chunks: Uint8Array[] = [];
  let length = 0;
  return new Promise((resolve) => {
    const end = (body: Body) => {
      clearTimeout(timer);
      resolve(body);
      chunks.length = 0;
      length = Infinity;
    };
    const timer = setTimeout(end, LONGEST_BODY_MS, "too slow");
    request.on("data", (chunk: Uint8Array) => {
      length += chunk.length;
      if (length <= most) chunks.push(chunk);
      // Read and drop the rest: some clients read no answer before they have sent everything.
      else end("too long");
    });
    request.on("end", () => end(joined(chunks)));
    for (const event of ["error", "close"]) request.on(event, () => end("cut off"));
  });
}

function joined(chunks: Uint8Array[]): Uint8Array {
  const all = new Uint8Array(chunks.reduce((length, each) => length + each.length, 0));
  let at = 0;
  for (const each of chunks) {
    all.set(each, at);
    at += each.length;
  }
  return all;
}

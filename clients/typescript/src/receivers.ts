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
const CONSUMED =
  "The body was read before the receiver got the request: mount it ahead of body parsers such as " +
  "express.json()";

/**
 * Which webhook ids are being worked on, and which are done: kept outside the process, where all
 * instances of the receiver find it.
 *
 * A process may die at any moment between `begin` and `finish`. So what `begin` notes must end by
 * itself, after `leaseSeconds`: the next attempt then does the work again. A note that stayed would
 * make the receiver drop that attempt, and the work would never be done.
 *
 * So work is done at least once. It is done twice if the process dies after the work and before
 * `finish`, or if it takes longer than the lease. Where that must not be, leave out the store, and
 * insert the webhook id into a table of your database in the transaction that does the work.
 */
export interface SeenStore {
  /**
   * In one atomic step: notes that the work has begun, unless it is noted as begun or done.
   * Returns "begun" if it made the note, and otherwise what it found.
   */
  begin(webhookId: string, leaseSeconds: number): MaybeLater<"begun" | "busy" | "done">;
  /** Notes that the work is done, and keeps that for so long at least. */
  finish(webhookId: string, keepSeconds: number): unknown;
  /** The work failed: removes the note, so that the next attempt begins anew. */
  release(webhookId: string): unknown;
}

export interface ReceiverOptions<R = unknown> {
  /** The account's secrets, or a function that finds them for each request. */
  secrets: Secrets | (() => MaybeLater<Secrets>);
  /** Called with the report of a schedule's end. If it throws, Postdate sends the report again. */
  onCallback?(report: CallbackReport): unknown;
  /** Called with a schedule's own request. If it throws, the attempt has failed with a 500. */
  onRequest?(received: ReceivedRequest<R>): unknown;
  /** Drops repeats. Without it each attempt is passed on. */
  seen?: SeenStore | undefined;
  /**
   * After how long another attempt may do work that has not finished: 60, for Postdate waits 30
   * seconds at most.
   */
  leaseSeconds?: number;
  /**
   * How long what is done is remembered: two weeks; Postdate waits up to one week between two
   * attempts.
   */
  keepSeconds?: number;
  /**
   * The longest body that is read: 1 MiB; Postdate's own limit is 256 KiB unless its operator
   * raised it.
   */
  maxBytes?: number;
}

export interface ReceivedRequest<R = unknown> {
  /** The same in all attempts. */
  webhookId: string;
  /** The signed bytes. */
  body: Uint8Array;
  /** As the server passed it. Only the body and the webhook id are signed, no other header. */
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
type Body = ArrayBufferView | "too long" | "cut off";

/**
 * A handler from `Request` to `Response`: for Hono, Next.js, Workers, Bun and Deno.
 *
 * It answers 204 once the work is done, now or at an earlier attempt; 401 if `verify` refuses the
 * request, 413 if its body is too long, 400 if you gave no function for it, and 503 while another
 * attempt does the work. It throws what your functions and your store throw, which servers answer
 * with a 500.
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
 * A handler for Express, and other servers that pass Node's request and response. It answers as
 * `fetchReceiver`. Errors go to `next`; without one it logs them and answers 500.
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
 * A plugin for Fastify: `app.register(fastifyReceiver({…}), { prefix: "/ended" })`. It answers as
 * `fetchReceiver`. Its scope has no body parsers; those of other routes stay.
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
  if (body === "cut off") return said(400, "The body did not come to its end");
  if (body === "too long") return said(413, `The body has more than ${maxBytes} bytes`);
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
    // Postdate honours Retry-After: its next attempt comes when the lease has ended.
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

/** A store that fails as well must not hide why the work failed. */
async function released(seen: SeenStore | undefined, id: string, why: unknown): Promise<void> {
  try {
    await seen?.release(id);
  } catch (error) {
    throw new AggregateError([why, error], "The work failed, and then the store's release");
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
  try {
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
      if (done) return joined(chunks, length);
      chunks.push(value);
      length += value.length;
      if (length > most) {
        await reader?.cancel();
        return "too long";
      }
    }
  } catch {
    return "cut off"; // by the client, who will not read the answer either
  }
}

async function streamed(request: NodeRequest, most: number): Promise<Body> {
  // express.raw() and the platforms of some clouds keep the bytes.
  for (const kept of [request.rawBody, request.body]) {
    if (ArrayBuffer.isView(kept)) return kept.byteLength > most ? "too long" : kept;
  }
  // Such a stream has no further events: waiting for one would last for ever.
  if (request.readableDidRead) throw new TypeError(CONSUMED);
  if (request.destroyed) return "cut off";
  const chunks: Uint8Array[] = [];
  let length = 0;
  return new Promise((resolve) => {
    request.on("data", (chunk: Uint8Array) => {
      length += chunk.length;
      if (length <= most) chunks.push(chunk);
      // The rest is read as well, and dropped: the client takes the answer once it has sent all.
      else resolve("too long");
    });
    request.on("end", () => resolve(joined(chunks, length)));
    for (const event of ["error", "close"]) request.on(event, () => resolve("cut off"));
  });
}

function joined(chunks: Uint8Array[], length: number): Uint8Array {
  const all = new Uint8Array(length);
  let at = 0;
  for (const each of chunks) {
    all.set(each, at);
    at += each.length;
  }
  return all;
}

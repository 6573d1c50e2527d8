// A service that plays a script, a clock that only timers move, and what both clients share.
import { readFileSync } from "node:fs";
import { Postdate, type Options } from "postdate";

const table = new URL("../../shared.json", import.meta.url);
export const shared = JSON.parse(readFileSync(table, "utf8"));
export const URL_ = "https://example.com/hook";
export const CREATED = {
  scheduleId: "sch_1",
  invocationId: "inv_1",
  triggerAt: "2026-11-20T08:00:00.000Z",
};

export interface Asked {
  method: string;
  path: string;
  query: Record<string, string>;
  headers: Headers;
  text: string;
  body: any;
}

type Step = { status: number; body?: unknown; headers?: Record<string, string> } | Error;

/** Answers by a script, whose last step is repeated; an Error is a connection that fails so. */
export class Service {
  readonly asked: Asked[] = [];
  #script: Step[] = [];

  plays(...steps: Step[]) {
    this.#script = steps;
    return this;
  }

  client(options: Options = {}): Postdate {
    return new Postdate({
      url: "http://postdate.example",
      apiKey: "pd_1",
      fetch: this.fetch,
      ...options,
    });
  }

  fetch = async (input: any, init: any): Promise<Response> => {
    const url = new URL(input);
    const text = init.body ?? "";
    this.asked.push({
      method: init.method,
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      headers: new Headers(init.headers),
      text,
      body: text ? JSON.parse(text) : null,
    });
    const step = this.#script.length > 1 ? this.#script.shift()! : this.#script[0]!;
    if (step instanceof Error) throw step;
    const content = typeof step.body === "string" ? step.body : JSON.stringify(step.body ?? {});
    return new Response(content, { status: step.status, headers: step.headers ?? {} });
  };
}

export const ok = (body: unknown, status = 200, headers = {}): Step => ({ status, body, headers });
export const refusal = (status: number, more: object = {}, headers = {}): Step => ({
  status,
  body: { error: "No", ...more },
  headers,
});
/** As Node's fetch reports it. */
export function failure(code: string, syscall?: string): Error {
  const cause = Object.assign(new Error(`${syscall ?? "read"} ${code}`), { code, syscall });
  return new TypeError("fetch failed", { cause });
}

/** As Node's fetch reports it of a host with several addresses, none of which can be reached. */
export function failures(...errors: TypeError[]): Error {
  const causes = errors.map(({ cause }) => cause);
  const cause = Object.assign(new AggregateError(causes), { code: "ECONNREFUSED" });
  return new TypeError("fetch failed", { cause });
}

/** Time that passes by timers only, each as soon as nothing else happens. */
export class Clock {
  readonly pauses: number[] = [];
  nowMs = 5_000;
  readonly #real = { setTimeout, clearTimeout, now: performance.now };
  readonly #timers = new Map<object, { atMs: number; ms: number; call: () => void }>();
  #running = true;

  constructor() {
    performance.now = () => this.nowMs;
    globalThis.setTimeout = ((call: () => void, ms = 0) => {
      const timer = {};
      this.#timers.set(timer, { atMs: this.nowMs + ms, ms, call });
      return timer;
    }) as any;
    globalThis.clearTimeout = ((timer: object) => void this.#timers.delete(timer)) as any;
    void this.#run();
  }

  async #run() {
    while (this.#running) {
      await new Promise((resolve) => setImmediate(resolve));
      const [next] = [...this.#timers].sort((a, b) => a[1].atMs - b[1].atMs);
      if (!next) continue;
      this.#timers.delete(next[0]);
      this.nowMs = Math.max(this.nowMs, next[1].atMs);
      this.pauses.push(next[1].ms / 1000);
      next[1].call();
    }
  }

  [Symbol.dispose]() {
    this.#running = false;
    globalThis.setTimeout = this.#real.setTimeout;
    globalThis.clearTimeout = this.#real.clearTimeout;
    performance.now = this.#real.now;
  }
}

/** Runs it while only timers move the clock. */
export async function timeless<T>(use: (clock: Clock) => Promise<T>): Promise<T> {
  const clock = new Clock();
  try {
    return await use(clock);
  } finally {
    clock[Symbol.dispose]();
  }
}

export async function errorOf(call: () => unknown): Promise<any> {
  try {
    await call();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

/// <reference lib="esnext.disposable" preserve="true" />
// Many creates, sent together.
import { written } from "./arguments.js";
import type { CallOptions } from "./calls.js";
import type { Postdate } from "./client.js";
import { PostdateError } from "./errors.js";
import { strangeCount } from "./many.js";
import type { Created } from "./nouns.js";
import { Queue, Turns } from "./queue.js";
import type { NewSchedule } from "./schema.js";

const BATCH_ITEMS = 1000;
// The service takes no larger body; its other bytes are `{"schedules": []}`.
const BATCH_BYTES = 16 * 1024 * 1024 - 32;
const WAITING_BYTES = 4 * BATCH_BYTES;
// What stands between two of a batch.
const SEPARATOR_BYTES = 2;

export interface BufferOptions {
  /** A batch goes out so many seconds after its first schedule: 0.005. */
  linger?: number;
  /** A batch has at most so many schedules: 1,000. */
  batchSize?: number;
  /** At most so many batches are on their way at once: 4. */
  inFlight?: number;
  /** At most so many schedules are held: 10,000. */
  waiting?: number;
}

interface Item {
  content: string;
  bytes: number;
  lateAtMs: number;
  /** False once its caller has given up. */
  wanted: boolean;
  resolve(created: Created): void;
  reject(error: unknown): void;
}

/**
 * Collects schedules and sends them in batches; each caller gets its own result.
 *
 * A batch goes `linger` seconds after its first schedule, or once it has `batchSize` of them or 16
 * MiB. Up to `waiting` schedules (or 64 MiB) are held; further callers wait in order. Each batch
 * keeps its idempotency key when it is repeated, so that none costs a second credit.
 */
export class Buffer {
  readonly #postdate: Pick<Postdate, "batch">;
  readonly #lingerMs: number;
  readonly #batchSize: number;
  readonly #mostInFlight: number;
  readonly #mostWaiting: number;
  /** One caller at a time is let in: those behind it hold no memory but their own. */
  readonly #door = new Turns(1);
  readonly #items = new Queue<Item>();
  #waiting = 0;
  #waitingBytes = 0;
  #inFlight = 0;
  readonly #unanswered = new Set<Promise<Created>>();
  /** Above 0, schedules do not linger. */
  #flushes = 0;
  #roomMade = () => {};
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  constructor(postdate: Pick<Postdate, "batch">, options: BufferOptions = {}) {
    const { linger = 0.005, batchSize = BATCH_ITEMS, inFlight = 4, waiting = 10_000 } = options;
    if (!(batchSize >= 1 && batchSize <= BATCH_ITEMS)) {
      throw new RangeError(`batchSize must be 1 to 1,000, not ${batchSize}.`);
    }
    if (!(linger >= 0 && inFlight >= 1 && waiting >= 1)) {
      throw new RangeError("linger must not be negative; inFlight and waiting must be 1 or more.");
    }
    this.#postdate = postdate;
    this.#lingerMs = 1000 * linger;
    this.#batchSize = Math.min(batchSize, waiting);
    this.#mostInFlight = inFlight;
    this.#mostWaiting = waiting;
  }

  /**
   * As `postdate.schedule`, without an idempotency key. Rejects with the error of this schedule, or
   * of its whole batch; if `maybeDone` is true, a repeat may store it twice. A call whose signal
   * aborts stores nothing before it is sent; later it may.
   */
  schedule(request: NewSchedule, { signal }: Pick<CallOptions, "signal"> = {}): Promise<Created> {
    const created = this.#schedule(request, signal);
    this.#unanswered.add(created);
    const answered = () => this.#unanswered.delete(created);
    created.then(answered, answered);
    return created;
  }

  /** Resolves once there is room: a loop that awaits no results gets no further ahead. */
  async ready(): Promise<void> {
    await this.#door.take();
    while (!this.#hasRoom(0)) await this.#room();
    this.#door.give();
  }

  /** Sends what waits without lingering; resolves once all that was given is answered. */
  async flush(): Promise<void> {
    this.#flushes++;
    this.#sendDue(true);
    await Promise.allSettled(this.#unanswered);
    this.#flushes--;
  }

  /** The same, and takes nothing more. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.flush();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #schedule(request: NewSchedule, signal: AbortSignal | undefined): Promise<Created> {
    if (this.#closed) throw new Error("The buffer has been closed.");
    await this.#door.take(signal);
    let item: Item;
    let answer: Promise<Created>;
    try {
      const content = JSON.stringify(written(request));
      const bytes = new TextEncoder().encode(content).length + SEPARATOR_BYTES;
      while (!this.#hasRoom(bytes)) await this.#room();
      signal?.throwIfAborted();
      answer = new Promise((resolve, reject) => {
        item = this.#add(content, bytes, resolve, reject);
      });
    } finally {
      this.#door.give();
    }
    const leave = () => {
      item.reject(signal?.reason);
      this.#forget(item);
    };
    signal?.addEventListener("abort", leave);
    this.#sendDue(false);
    try {
      return await answer;
    } finally {
      signal?.removeEventListener("abort", leave);
    }
  }

  #add(content: string, bytes: number, resolve: Item["resolve"], reject: Item["reject"]): Item {
    const lateAtMs = performance.now() + this.#lingerMs;
    const item = { content, bytes, lateAtMs, wanted: true, resolve, reject };
    this.#items.push(item);
    this.#waiting++;
    this.#waitingBytes += bytes;
    return item;
  }

  /** It waits no longer; safe to repeat. */
  #forget(item: Item) {
    if (!item.wanted) return;
    item.wanted = false;
    this.#waiting--;
    this.#waitingBytes -= item.bytes;
    this.#roomMade();
  }

  /** A schedule larger than all room fits alone. */
  #hasRoom(bytes: number) {
    const fits = this.#waitingBytes + bytes <= WAITING_BYTES;
    return this.#waiting === 0 || (this.#waiting < this.#mostWaiting && fits);
  }

  /** Only who holds the door waits for it. */
  #room(): Promise<void> {
    return new Promise((resolve) => (this.#roomMade = resolve));
  }

  /**
   * Call it after every change. Schedules of one turn of the event loop go together, however long
   * that takes: only the timer sends those that are `late`.
   */
  #sendDue(late: boolean) {
    while (this.#waiting > 0 && this.#inFlight < this.#mostInFlight) {
      while (!this.#items.first!.wanted) this.#items.shift();
      const waitMs = this.#items.first!.lateAtMs - performance.now();
      const full = this.#waiting >= this.#batchSize || this.#waitingBytes >= BATCH_BYTES;
      if (!full && this.#flushes === 0 && !(late && waitMs <= 0)) {
        this.#timer ??= setTimeout(() => {
          this.#timer = undefined;
          this.#sendDue(true);
        }, waitMs);
        return;
      }
      this.#inFlight++;
      void this.#settle(this.#take()).then(() => {
        this.#inFlight--;
        this.#sendDue(false);
      });
    }
    if (this.#waiting === 0) {
      // It would keep a program from ending.
      clearTimeout(this.#timer);
      this.#timer = undefined;
    }
  }

  #take(): Item[] {
    const batch: Item[] = [];
    let leftBytes = BATCH_BYTES;
    while (this.#waiting > 0 && batch.length < this.#batchSize) {
      const item = this.#items.first!;
      if (item.wanted) {
        leftBytes -= item.bytes;
        if (leftBytes < 0 && batch.length > 0) break;
        batch.push(item);
        this.#forget(item);
      }
      this.#items.shift();
    }
    return batch;
  }

  async #settle(batch: Item[]): Promise<void> {
    try {
      const results = await this.#postdate.batch(batch.map((item) => item.content));
      if (results.length !== batch.length) throw strangeCount(results.length);
      results.forEach((result, number) => {
        if (result instanceof PostdateError) batch[number]!.reject(result);
        else batch[number]!.resolve(result);
      });
    } catch (error) {
      if (!(error instanceof PostdateError)) {
        for (const item of batch) item.reject(error);
      } else if (batch.length > 1 && isRefusedAsAWhole(error)) {
        const middle = batch.length >> 1;
        await this.#settle(batch.slice(0, middle));
        await this.#settle(batch.slice(middle));
      } else {
        for (const item of batch) item.reject(ownOf(error));
      }
    }
  }
}

/** For its size, or for one schedule of it: nothing was stored. */
function isRefusedAsAWhole({ status, maybeDone }: PostdateError) {
  return (status === 400 || status === 413) && !maybeDone;
}

/** A copy for each caller, without the batch's key: no caller can repeat with that. */
function ownOf(error: PostdateError): PostdateError {
  const kind = error.constructor as typeof PostdateError;
  const copy = new kind(error.message, { cause: error });
  return Object.assign(copy, error, { idempotencyKey: null });
}

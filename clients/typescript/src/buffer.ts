/// <reference lib="esnext.disposable" preserve="true" />
// Many creates, sent together.
import { written } from "./arguments.js";
import type { CallOptions } from "./calls.js";
import type { Postdate } from "./client.js";
import { PostdateError } from "./errors.js";
import { strangeCount } from "./many.js";
import type { Created } from "./nouns.js";
import { LONGEST_TIMER_MS, Turns } from "./queue.js";
import type { NewSchedule } from "./schema.js";

const BATCH_ITEMS = 1000;
// The service takes no larger body; its other bytes are `{"schedules": []}`.
const BATCH_BYTES = 16 * 1024 * 1024 - 32;
const WAITING_BYTES = 4 * BATCH_BYTES;
// What stands between two of a batch.
const SEPARATOR_BYTES = 2;

export interface BufferOptions {
  /** A batch goes out so many seconds after its first schedule: 0.005. */
  linger?: number | undefined;
  /** A batch has at most so many schedules: 1,000. */
  batchSize?: number | undefined;
  /** At most so many batches are on their way at once: 4. */
  inFlight?: number | undefined;
  /** At most so many schedules are held: 10,000. */
  waiting?: number | undefined;
}

interface Item {
  content: string;
  bytes: number;
  lateAtMs: number;
  resolve(created: Created): void;
  reject(error: unknown): void;
}

/**
 * Collects schedules and sends them in batches; each caller gets its own result.
 *
 * A batch goes `linger` seconds after its first schedule, or once it has `batchSize` of them or 16
 * MiB. Up to `waiting` schedules (or 64 MiB) are let in; further callers wait in order. Each batch
 * keeps its idempotency key when it is repeated, so that none costs a second credit.
 */
export class Buffer {
  readonly #postdate: Pick<Postdate, "batch">;
  readonly #lingerMs: number;
  readonly #batchSize: number;
  readonly #mostInFlight: number;
  readonly #mostWaiting: number;
  /** One caller at a time is let in. */
  readonly #door = new Turns(1);
  readonly #items = new Set<Item>();
  #waitingBytes = 0;
  #inFlight = 0;
  readonly #unanswered = new Set<Promise<void>>();
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
  async schedule(
    request: NewSchedule,
    { signal }: Pick<CallOptions, "signal"> = {},
  ): Promise<Created> {
    let answered = () => {};
    // Not the promise of the caller: of that the runtime reports an error that nobody handles.
    const unanswered = new Promise<void>((resolve) => (answered = resolve));
    this.#unanswered.add(unanswered);
    try {
      return await this.#schedule(request, signal);
    } finally {
      this.#unanswered.delete(unanswered);
      answered();
    }
  }

  /** Resolves once there is room: a loop that awaits no results gets no further ahead. */
  async ready({ signal }: Pick<CallOptions, "signal"> = {}): Promise<void> {
    await this.#letIn(0, signal);
    this.#door.give();
  }

  /** Sends what waits without lingering; resolves once all that was given is answered. */
  async flush(): Promise<void> {
    this.#flushes++;
    this.#sendDue(true);
    await Promise.all(this.#unanswered);
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
    // Before any wait: the caller may change the object for its next schedule.
    const content = JSON.stringify(written(request));
    const bytes = new TextEncoder().encode(content).length + SEPARATOR_BYTES;
    await this.#letIn(bytes, signal);
    this.#door.give();
    signal?.throwIfAborted();
    let leave = () => {};
    const answer = new Promise<Created>((resolve, reject) => {
      const item = this.#add(content, bytes, resolve, reject);
      leave = () => {
        reject(signal?.reason);
        this.#forget(item);
        this.#sendDue(false);
      };
    });
    signal?.addEventListener("abort", leave);
    this.#sendDue(false);
    try {
      return await answer;
    } finally {
      signal?.removeEventListener("abort", leave);
    }
  }

  /** Resolves once there is room, with the door taken; rejects with the signal's reason. */
  async #letIn(bytes: number, signal: AbortSignal | undefined): Promise<void> {
    await this.#door.take(signal);
    try {
      while (!this.#hasRoom(bytes)) {
        await this.#room(signal);
        signal?.throwIfAborted();
      }
    } catch (error) {
      this.#door.give();
      throw error;
    }
  }

  #add(content: string, bytes: number, resolve: Item["resolve"], reject: Item["reject"]): Item {
    const lateAtMs = performance.now() + this.#lingerMs;
    const item = { content, bytes, lateAtMs, resolve, reject };
    this.#items.add(item);
    this.#waitingBytes += bytes;
    return item;
  }

  /** It waits no longer; safe to repeat. */
  #forget(item: Item) {
    if (!this.#items.delete(item)) return;
    this.#waitingBytes -= item.bytes;
    this.#roomMade();
  }

  /** A schedule larger than all room fits alone. */
  #hasRoom(bytes: number) {
    const { size } = this.#items;
    const fits = this.#waitingBytes + bytes <= WAITING_BYTES;
    return size === 0 || (size < this.#mostWaiting && fits);
  }

  /** Resolves after a change of the room, or of the signal. Only who holds the door waits for it. */
  #room(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      this.#roomMade = () => {
        signal?.removeEventListener("abort", this.#roomMade);
        resolve();
      };
      signal?.addEventListener("abort", this.#roomMade);
    });
  }

  #waitMs() {
    const [first] = this.#items;
    return Math.min(first!.lateAtMs - performance.now(), LONGEST_TIMER_MS);
  }

  /**
   * Call it after every change. Schedules of one turn of the event loop go together, however long
   * that takes: only the timer sends those that are `late`.
   */
  #sendDue(late: boolean) {
    while (this.#items.size > 0 && this.#inFlight < this.#mostInFlight) {
      const full = this.#items.size >= this.#batchSize || this.#waitingBytes >= BATCH_BYTES;
      if (!full && this.#flushes === 0 && !(late && this.#waitMs() <= 0)) {
        this.#timer ??= setTimeout(() => {
          this.#timer = undefined;
          this.#sendDue(true);
        }, this.#waitMs());
        return;
      }
      this.#inFlight++;
      void this.#settle(this.#take()).then(() => {
        this.#inFlight--;
        this.#sendDue(false);
      });
    }
    if (this.#items.size === 0) {
      // It would keep a program from ending.
      clearTimeout(this.#timer);
      this.#timer = undefined;
    }
  }

  #take(): Item[] {
    const batch: Item[] = [];
    let leftBytes = BATCH_BYTES;
    for (const item of this.#items) {
      leftBytes -= item.bytes;
      if (batch.length >= this.#batchSize || (leftBytes < 0 && batch.length > 0)) break;
      batch.push(item);
      this.#forget(item);
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

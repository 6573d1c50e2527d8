// Many creates, sent together.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import {
  Buffer,
  ConnectionFailed,
  InvalidRequest,
  PostdateError,
  type Created,
  type NewSchedule,
  type Postdate,
} from "postdate";
import { errorOf, shared, timeless, URL_ } from "./support.ts";

type Answered = (items: string[]) => Promise<(Created | PostdateError)[]>;

/** A client whose batches are answered one by one, as the test says. */
class Batches {
  readonly sent: string[][] = [];
  running = 0;
  most = 0;
  #waiting: (() => void)[] = [];
  #answer: Answered;

  constructor(answer: Answered = async (items) => items.map(created)) {
    this.#answer = answer;
  }

  batch = async (requests: Iterable<NewSchedule | string>) => {
    const items = [...requests] as string[];
    this.sent.push(items);
    this.most = Math.max(this.most, ++this.running);
    if (this.held) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.running--;
    return this.#answer(items);
  };

  held = false;

  release() {
    this.held = false;
    for (const go of this.#waiting.splice(0)) go();
  }

  get sizes() {
    return this.sent.map((each) => each.length);
  }
}

const created = (item: string) =>
  ({ scheduleId: JSON.parse(item).reference, existing: false }) as Created;
const numbered = (n: number): NewSchedule => ({ targetUrl: URL_, delay: "1h", reference: `${n}` });
const range = (count: number) => Array.from({ length: count }, (_, n) => n);
const turn = () => new Promise((resolve) => setTimeout(resolve, 20));
const soon = () => {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 1);
  return controller.signal;
};
setFlagsFromString("--expose-gc");
const collect: () => void = runInNewContext("gc");
const refused = (kind: typeof PostdateError, more: object) => Object.assign(new kind("No"), more);

test("each caller has its own result, and batches are full", async () => {
  const batches = new Batches();
  const buffer = new Buffer(batches);
  const results = await Promise.all(range(2500).map((n) => buffer.schedule(numbered(n))));
  assert.deepEqual(
    results.map((each) => each.scheduleId),
    range(2500).map(String),
  );
  assert.deepEqual(batches.sizes, [1000, 1000, 500]);
});

test("its options have their defaults, and others are refused", async () => {
  const { batchSize, inFlight, linger, waiting } = shared.defaults;
  const batches = new Batches();
  batches.held = true;
  const buffer = new Buffer(batches);
  const given = range(inFlight * batchSize + waiting + 5).map((n) => buffer.schedule(numbered(n)));
  await turn();
  assert.deepEqual(
    batches.sizes,
    range(inFlight).map(() => batchSize),
  );
  const [late, ready] = [buffer.schedule(numbered(1)), buffer.ready()];
  assert.equal(await Promise.race([late, ready, turn().then(() => "later")]), "later");
  batches.release();
  await Promise.all([...given, late, ready]);
  assert.equal(batches.most, inFlight);
  for (const wrong of [
    { batchSize: 0 },
    { batchSize: 1001 },
    { linger: -1 },
    { waiting: 0 },
    { inFlight: 0 },
  ]) {
    assert.throws(() => new Buffer(batches, wrong), RangeError);
  }
  assert.ok(linger < 0.02); // as long as `turn` waits
});

test("a batch lingers, but not where it is flushed", async () => {
  const batches = new Batches();
  const buffer = new Buffer(batches, { linger: 60 });
  const both = [buffer.schedule(numbered(1)), buffer.schedule(numbered(2))];
  await turn();
  assert.deepEqual(batches.sizes, []);
  await buffer.flush();
  assert.deepEqual(batches.sizes, [2]);
  await Promise.all(both);
  const last = buffer.schedule(numbered(3));
  await buffer[Symbol.asyncDispose]();
  assert.ok(!process.getActiveResourcesInfo().includes("Timeout"));
  assert.equal((await last).scheduleId, "3");
  assert.match((await errorOf(() => buffer.schedule(numbered(4)))).message, /has been closed/);
});

test("the bytes of a batch are bounded", async () => {
  const batches = new Batches();
  const buffer = new Buffer(batches);
  const large = (n: number) => ({ ...numbered(n), body: "ü".repeat(1_500_000) });
  await Promise.all(range(12).map((n) => buffer.schedule(large(n))));
  assert.deepEqual(batches.sizes, [5, 5, 2]);
});

test("a bad schedule harms no other", async () => {
  const answer: Answered = async (items) => {
    if (items.some((item) => created(item).scheduleId === "7")) {
      throw refused(InvalidRequest, { status: 413, idempotencyKey: "k" });
    }
    return items.map((item) =>
      created(item).scheduleId === "3" ? refused(InvalidRequest, { status: 400 }) : created(item),
    );
  };
  const batches = new Batches(answer);
  const buffer = new Buffer(batches);
  const results = await Promise.allSettled(range(20).map((n) => buffer.schedule(numbered(n))));
  const lost = results.flatMap((each, n) => (each.status === "rejected" ? [n] : []));
  assert.deepEqual(lost, [3, 7]);
  const error = await errorOf(() => buffer.schedule({ ...numbered(1), body: [1] }));
  assert.ok(error instanceof TypeError);
});

test("a lost batch is an error for each of its callers, without the batch's key", async () => {
  const whole = refused(ConnectionFailed, { maybeDone: true, idempotencyKey: "k" });
  const buffer = new Buffer(new Batches(() => Promise.reject(whole)));
  const errors = await Promise.all(
    range(2).map((n) => errorOf(() => buffer.schedule(numbered(n)))),
  );
  assert.notEqual(errors[0], errors[1]);
  for (const error of errors) {
    assert.ok(error instanceof ConnectionFailed);
    assert.deepEqual([error.maybeDone, error.idempotencyKey, error.cause], [true, null, whole]);
  }
  const bug = new RangeError("a bug");
  const broken = new Buffer(new Batches(() => Promise.reject(bug)));
  assert.equal(await errorOf(() => broken.schedule(numbered(1))), bug);
  const short = new Buffer(new Batches(async () => []));
  assert.ok((await errorOf(() => short.schedule(numbered(1)))).maybeDone);
});

test("a caller that gives up stores nothing before it is sent, and harms no other", async () => {
  const batches = new Batches();
  batches.held = true;
  const buffer = new Buffer(batches, { waiting: 2, inFlight: 1 });
  const controllers = range(6).map(() => new AbortController());
  const all = controllers.map(({ signal }, n) => buffer.schedule(numbered(n), { signal }));
  await turn();
  // Two are on their way, two wait, two are not let in.
  const gone = [0, 2, 4];
  const errors = gone.map((n) => errorOf(() => all[n]));
  for (const n of gone) controllers[n]!.abort(new Error(`gone ${n}`));
  assert.deepEqual(
    (await Promise.all(errors)).map((each) => each.message),
    gone.map((n) => `gone ${n}`),
  );
  batches.release();
  for (const n of [1, 3, 5]) assert.equal((await all[n])!.scheduleId, `${n}`);
  const sent = batches.sent.flat().map((item) => created(item).scheduleId);
  assert.deepEqual(sent, ["0", "1", "3", "5"]);
  await buffer.close();
});

test("it sends what it was given, though the caller changes the object later", async () => {
  const batches = new Batches();
  const buffer = new Buffer(batches);
  const request = { targetUrl: URL_, delay: "1h", reference: "" };
  const all = range(3).map((n) => {
    request.reference = `${n}`;
    return buffer.schedule(request);
  });
  assert.deepEqual(
    (await Promise.all(all)).map((each) => each.scheduleId),
    ["0", "1", "2"],
  );
});

test("a signal ends the wait for room, and what has left takes none", async () => {
  const batches = new Batches();
  batches.held = true;
  const buffer = new Buffer(batches, { waiting: 1, inFlight: 1 });
  const first = buffer.schedule(numbered(0));
  const second = buffer.schedule(numbered(1));
  await turn();
  for (const wait of [
    (signal: AbortSignal) => buffer.schedule(numbered(2), { signal }),
    (signal: AbortSignal) => buffer.ready({ signal }),
  ]) {
    for (const signal of [soon(), AbortSignal.abort()]) {
      assert.equal(await errorOf(() => wait(signal)), signal.reason);
    }
  }
  const third = buffer.schedule(numbered(3));
  batches.release();
  await Promise.all([first, second, third]);
  const sent = batches.sent.flat().map((item) => created(item).scheduleId);
  assert.deepEqual(sent, ["0", "1", "3"]);
});

test("a schedule that was given up leaves no memory and no timer behind", async () => {
  const buffer = new Buffer(new Batches(), { linger: 60 });
  const controller = new AbortController();
  const gone = buffer.schedule(numbered(1), { signal: controller.signal });
  await turn();
  controller.abort();
  await errorOf(() => gone);
  assert.ok(!process.getActiveResourcesInfo().includes("Timeout"));
  const held = new Batches();
  held.held = true;
  const stuck = new Buffer(held, { inFlight: 1, linger: 0 });
  const body = "a".repeat(1_000_000);
  const sent = stuck.schedule(numbered(0));
  await turn();
  collect();
  const before = process.memoryUsage().heapUsed;
  for (const n of range(40)) {
    await errorOf(() => stuck.schedule({ ...numbered(n), body }, { signal: soon() }));
  }
  collect();
  assert.ok(process.memoryUsage().heapUsed - before < 20_000_000);
  held.release();
  await sent;
});

test("a very long linger is none of a millisecond", async () => {
  const batches = new Batches();
  const pauses = await timeless(async (clock) => {
    const buffer = new Buffer(batches, { linger: Infinity, batchSize: 2 });
    const both = [buffer.schedule(numbered(1)), buffer.schedule(numbered(2))];
    await Promise.all(both);
    const one = buffer.schedule(numbered(3));
    await buffer.close();
    await one;
    return clock.pauses;
  });
  assert.ok(pauses.every((each) => each > 1_000_000));
});

test("all callers know their answers when a flush ends", async () => {
  const buffer = new Buffer(new Batches());
  const known: string[] = [];
  for (const n of range(3)) void buffer.schedule(numbered(n)).then(() => known.push(`${n}`));
  await buffer.flush();
  assert.deepEqual(known, ["0", "1", "2"]);
});

test("the runtime reports an error that nobody handles", async (context) => {
  const whole = refused(InvalidRequest, { status: 401 });
  const buffer = new Buffer(new Batches(() => Promise.reject(whole)));
  const reported: unknown[] = [];
  const listeners = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection");
  context.after(() => listeners.forEach((each) => process.on("unhandledRejection", each)));
  process.once("unhandledRejection", (error: Error) => reported.push(error.cause));
  void buffer.schedule(numbered(1));
  await buffer.close();
  await turn();
  assert.deepEqual(reported, [whole]);
});

test("a postdate is a client for it", () => {
  const use = (postdate: Postdate) => new Buffer(postdate, { linger: 0 });
  assert.equal(use.length, 1);
});

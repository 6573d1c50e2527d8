// Uses each method of the TypeScript SDK once, with the job that it gets as JSON: {url, token, target}.
// Runs in a folder whose node_modules have the SDK; prints the ids of the messages that it sent.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const { Client } = createRequire(`${process.cwd()}/`)("@upstash/qstash");
const { url: baseUrl, token, target } = JSON.parse(process.argv[2]);
const later = 3600;
const called = new Set();

/** The client, whose calls are noted. What it makes a noun from is no call. */
function noting(inner, noun) {
  return new Proxy(inner, {
    get(_, name) {
      const found = inner[name];
      if (typeof found === "object") return noting(found, found.constructor.name);
      return (...given) => {
        const result = found.apply(inner, given);
        if (!(result instanceof Promise)) return noting(result, result.constructor.name);
        called.add(`${noun}.${name}`);
        return result;
      };
    },
  });
}

const real = new Client({ baseUrl, token, retry: false });
const client = noting(real, "Client");

const until = async (look) => {
  for (let left = 300; left > 0; left--) {
    const found = await look();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 100));
  }
  assert.fail(`never: ${look}`);
};
const refuses = (call, status, text = "") =>
  assert.rejects(call, (error) => error.status === status && error.message.includes(text));

async function messages() {
  const { messageId } = await client.publish({
    url: `${target}/published`,
    method: "PATCH",
    body: "as it is",
    headers: { "X-Own": "yes", "Content-Type": "text/x-own" },
    label: ["a", "b"],
  });
  const filter = { label: ["b", "never"], state: "DELIVERED" };
  const { logs } = await until(async () => {
    const found = await client.logs({ filter });
    return found.logs.length > 0 && found;
  });
  assert.deepEqual(
    logs.map((each) => [each.messageId, each.label, each.labels, each.url]),
    [[messageId, "a", ["a", "b"], `${target}/published`]],
  );
  const { events, cursor } = await client.events({ messageIds: [messageId] });
  assert.equal(cursor, undefined);
  assert.ok(events.some((each) => each.state === "CREATED"));

  const waiting = await client.publishJSON({
    url: `${target}/later?a=b`,
    body: { ü: "😀" },
    delay: later,
    retries: 5,
    retryDelay: "pow(retried, 2) * 1000",
    callback: `${target}/back`,
    failureCallback: `${target}/failed`,
    headers: { "Upstash-Callback-Forward-X-Back": "1" },
    timeout: "20s",
    flowControl: { key: "flow", parallelism: 3, rate: 5, period: "1d" },
  });
  const seen = await client.messages.get(waiting.messageId);
  assert.equal(seen.url, `${target}/later?a=b`);
  assert.equal(seen.body, '{"ü":"😀"}');
  assert.deepEqual(seen.header, { "Content-Type": ["application/json"] });
  assert.equal(seen.retryDelayExpression, "pow(retried, 2) * 1000");
  assert.deepEqual([seen.maxRetries, seen.callback], [5, `${target}/back`]);
  assert.deepEqual(
    [seen.flowControlKey, seen.parallelism, seen.rate, seen.ratePerSecond, seen.period],
    ["flow", 3, 5, 5, 86_400],
  );
  assert.deepEqual(await client.messages.cancel(waiting.messageId), { cancelled: 1 });
  await refuses(() => client.messages.cancel("msg_never"), 404);

  const batch = [1, 2, 3].map((n) => ({ url: `${target}/${n}`, delay: later, label: `n${n}` }));
  const made = await client.batchJSON(batch.map((each) => ({ ...each, body: { n: 1 } })));
  const more = await client.batch(batch);
  assert.deepEqual([made.length, more.length], [3, 3]);
  await client.messages.delete(made[0].messageId);
  assert.equal(await client.messages.deleteMany([made[1].messageId, made[0].messageId]), 1);
  const some = { filter: { path: ["/1", "/2"], host: new URL(target).host } };
  assert.deepEqual(await client.messages.cancel(some), { cancelled: 2 });
  assert.deepEqual(await client.messages.cancel({ all: true, count: 1 }), { cancelled: 1 });
  assert.equal(await client.messages.deleteAll(), 1);
  return messageId;
}

async function queues() {
  const queue = client.queue({ queueName: "q" });
  await queue.upsert({ parallelism: 2, paused: true });
  const sent = [
    await queue.enqueue({ url: `${target}/queued`, body: "1" }),
    await queue.enqueueJSON({ url: `${target}/queued`, body: 2 }),
  ];
  const { name, parallelism, paused, lag } = await queue.get();
  assert.deepEqual([name, parallelism, paused, lag], ["q", 2, true, 2]);
  await queue.resume();
  assert.equal((await queue.get()).paused, false);
  await until(async () => (await queue.get()).lag === 0);
  await queue.pause();
  assert.deepEqual((await client.queue().list()).map((each) => each.name), ["q"]);
  await queue.delete();
  assert.deepEqual(await client.queue().list(), []);
  return sent.map((each) => each.messageId);
}

async function schedules() {
  const { scheduleId } = await client.schedules.create({
    destination: target,
    cron: "0 0 1 1 * ",
    delay: 10,
    queueName: "yearly",
    headers: { "test-header": "1" },
    label: "yearly",
  });
  const seen = await client.schedules.get(scheduleId);
  assert.deepEqual(
    [seen.destination, seen.cron, seen.delay, seen.queueName, seen.label, seen.isPaused],
    [target, "0 0 1 1 *", 10, "yearly", "yearly", false],
  );
  assert.deepEqual(seen.header, { "Content-Type": ["application/json"], "Test-Header": ["1"] });
  await client.schedules.pause({ schedule: scheduleId });
  assert.equal((await client.schedules.get(scheduleId)).isPaused, true);
  await client.schedules.resume({ schedule: scheduleId });
  assert.deepEqual((await client.schedules.list()).map((each) => each.isPaused), [false]);
  await client.schedules.delete(scheduleId);
  await refuses(() => client.schedules.get(scheduleId), 404);
}

async function flowControl() {
  const flow = client.flowControl;
  await flow.pin("flow", { parallelism: 7, rate: 20, period: 120 });
  const { parallelismMax, rateMax, ratePeriod } = await flow.get("flow");
  assert.deepEqual([parallelismMax, rateMax, ratePeriod], [7, 20, 120]);
  await flow.pause("flow");
  assert.equal((await flow.get("flow")).isPaused, true);
  await flow.resume("flow");
  await flow.resetRate("flow");
  await flow.unpin("flow", { rate: true });
  const { isPaused, isPinnedRate, isPinnedParallelism, rateCount } = await flow.get("flow");
  assert.deepEqual([isPaused, isPinnedRate, isPinnedParallelism, rateCount], [false, false, true, 0]);
}

async function deadLetters() {
  for (const n of [1, 2, 3]) {
    await client.publish({ url: `${target}/gone?n=${n}`, retries: 0, label: "dead" });
  }
  const { messages } = await until(async () => {
    const found = await client.dlq.listMessages({ filter: { label: "dead" } });
    return found.messages.length === 3 && found;
  });
  const [first, second, third] = messages;
  assert.deepEqual([first.responseStatus, first.responseBody], [404, "404 Not Found"]);
  const [one] = (await client.dlq.listMessages({ dlqIds: [first.dlqId] })).messages;
  assert.deepEqual(one, first);
  const retried = await client.dlq.retry(first.dlqId);
  assert.deepEqual([retried.responses.length, retried.cursor], [1, undefined]);
  assert.deepEqual((await client.dlq.retry({ filter: { responseStatus: 999 } })).responses, []);
  await refuses(() => client.dlq.delete({ filter: { labeel: "dead" } }), 400, "labeel");
  assert.deepEqual(await client.dlq.delete(second.dlqId), { deleted: 1 });
  await refuses(() => client.dlq.delete(second.dlqId), 404);
  assert.equal((await client.dlq.deleteMany({ dlqIds: [third.dlqId] })).deleted, 1);
}

/** What is not offered is a 501 that says so. The nouns of these are no part of the door. */
async function others() {
  const says = "not offered; see docs/come-over/qstash";
  await refuses(() => client.publish({ urlGroup: "group", body: "1" }), 501, says);
  await refuses(() => client.urlGroups.list(), 501, says);
  await refuses(() => client.flowControl.getGlobalParallelism(), 501, says);
}

const sent = [await messages(), ...(await queues())];
await schedules();
await flowControl();
await deadLetters();
await others();

const nouns = ["messages", "dlq", "schedules", "flowControl"].map((name) => real[name]);
for (const noun of [real, real.queue(), ...nouns]) {
  const methods = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(noun));
  for (const [name, { value }] of Object.entries(methods)) {
    const isCall = value && !["constructor", "queue", "chat"].includes(name);
    const whole = `${noun.constructor.name}.${name}`;
    assert.ok(!isCall || called.has(whole), `${whole} was not used`);
  }
}
console.log(JSON.stringify(sent));
process.exit();

"use strict";
// BullMQ: `work` fires due jobs, `add` stores them. See plan.py for the plan.

const { Queue, Worker } = require("bullmq");
const { Pool } = require("undici");

// One by default; a thousand were a quarter slower here.
const CONCURRENCY = Number(process.env.CONCURRENCY || 100);
const BULK = 1000;

const [role, given] = process.argv.slice(2);
const plan = { count: 0, due_ms: 0, every_us: 0, bulk: false, lanes: 64, ...JSON.parse(given) };
const connection = { path: plan.socket };

function work() {
  const pool = new Pool(new URL(plan.url).origin, { connections: CONCURRENCY, pipelining: 1 });
  const send = async ({ data }) => {
    const { pathname } = new URL(data.url);
    const { headers, body } = data;
    const answer = await pool.request({ method: "POST", path: pathname, headers, body });
    await answer.body.dump();
    if (answer.statusCode !== 200) throw new Error(String(answer.statusCode));
  };
  const worker = new Worker("requests", send, {
    connection,
    concurrency: CONCURRENCY,
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 0 },
  });
  worker.on("ready", () => console.log("ready"));
  process.on("SIGTERM", () => worker.close().then(() => process.exit(0)));
}

function request(number) {
  const now = Date.now();
  const due = plan.due_ms + Math.floor((number * plan.every_us) / 1000);
  const url = plan.url + String(number).padStart(8, "0");
  const data = { url, headers: plan.headers, body: plan.body };
  return { name: "send", data, opts: { delay: Math.max(0, due - now), timestamp: now } };
}

async function add() {
  const queue = new Queue("requests", { connection });
  await queue.waitUntilReady();
  const began = performance.now();
  if (plan.bulk) {
    for (let first = 0; first < plan.count; first += BULK) {
      const most = Math.min(BULK, plan.count - first);
      await queue.addBulk(Array.from({ length: most }, (_, n) => request(first + n)));
    }
  } else {
    let next = 0;
    const lane = async () => {
      while (next < plan.count) {
        const { name, data, opts } = request(next++);
        await queue.add(name, data, opts);
      }
    };
    await Promise.all(Array.from({ length: plan.lanes }, lane));
  }
  const took_s = (performance.now() - began) / 1000;
  console.log(JSON.stringify({ count: plan.count, took_s }));
  await queue.close();
}

if (role === "work") work();
else add();

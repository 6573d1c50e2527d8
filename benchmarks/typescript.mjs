// Measures what benchmarks/typescript.py says, with the job that it gives as JSON.
import assert from "node:assert/strict";
import { Buffer, Postdate } from "../clients/typescript/dist/index.js";
import undici from "../clients/typescript/node_modules/undici/index.js";

const { url, apiKey, targetHeaders, creates, rounds, concurrent } = JSON.parse(process.argv[2]);
const request = () => ({
  targetUrl: "https://example.com/webhooks/orders",
  triggerAt: new Date(Date.now() + 30 * 86_400_000),
  targetMethod: "POST",
  targetHeaders,
  targetBody: { order: "ord_8412", action: "remind", attempt: 1 },
});
const postdate = new Postdate({ url, apiKey });
const buffer = new Buffer(postdate);

/** What the client sends, with nothing of what makes it one. */
async function bare() {
  const answer = await undici.fetch(`${url}/schedule`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "x-api-key": apiKey,
      "idempotency-key": crypto.randomUUID(),
    },
    body: JSON.stringify(request()),
  });
  assert.equal(answer.status, 201);
  assert.ok((await answer.json()).scheduleId);
}

/** Each way to create a schedule, and how many callers use it at once. */
const ways = {
  "undici's fetch": [bare, concurrent],
  Postdate: [() => postdate.schedule(request()), concurrent],
  Buffer: [() => buffer.schedule(request()), concurrent],
  "Buffer, all": [() => buffer.schedule(request()), creates],
};

async function round(create, callers, count) {
  let left = count;
  const caller = async () => {
    while (left-- > 0) await create();
  };
  const [beganMs, cpu] = [performance.now(), process.cpuUsage()];
  await Promise.all(Array.from({ length: callers }, caller));
  const { user, system } = process.cpuUsage(cpu);
  return { rate: (1000 * count) / (performance.now() - beganMs), cpuUs: (user + system) / count };
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
const line = (name, { rate, cpuUs }) =>
  `${name.padEnd(18)}${Math.round(rate).toString().padStart(8)}/s  ` +
  `${Math.round(cpuUs).toString().padStart(5)} us CPU each`;

const found = {};
for (const [create, callers] of Object.values(ways)) await round(create, callers, callers);
for (let number = 1; number <= rounds; number++) {
  for (const [name, [create, callers]] of Object.entries(ways)) {
    const measured = await round(create, callers, creates);
    (found[name] ??= []).push(measured);
    console.log(`round ${number}  ${line(name, measured)}`);
  }
}
const medianOf = (name, what) => median(found[name].map((each) => each[what]));
console.log(`\n${concurrent} concurrent callers, medians:`);
for (const name of Object.keys(ways)) {
  const [rate, cpuUs] = [medianOf(name, "rate"), medianOf(name, "cpuUs")];
  const ratio = rate / medianOf("undici's fetch", "rate");
  console.log(`${line(name, { rate, cpuUs })}  ratio ${ratio.toFixed(2).padStart(5)}`);
}

// Measures one client for benchmarks/qstash.py, with the job that it gives as JSON; prints the rate
// and the CPU of each create.
import { createRequire } from "node:module";
import { Postdate } from "../clients/typescript/dist/index.js";

const require = createRequire(new URL("../clients/typescript/", import.meta.url));
const { Client } = require("@upstash/qstash");
const { url, key, target, headers, body, way, creates, concurrent } = JSON.parse(process.argv[2]);

const postdate = new Postdate({ url, apiKey: key });
const qstash = new Client({ baseUrl: `${url}/qstash`, token: key, retry: false });
const ways = {
  Postdate: () =>
    postdate.schedule({
      targetUrl: target,
      delay: "30d",
      targetMethod: "POST",
      targetHeaders: headers,
      body: JSON.parse(body),
    }),
  QStash: () => qstash.publish({ url: target, body, headers, delay: "30d" }),
};

const create = ways[way];
let left = creates;
async function caller() {
  while (left-- > 0) await create();
}
await create(); // compiles
const [beganMs, cpu] = [performance.now(), process.cpuUsage()];
await Promise.all(Array.from({ length: concurrent }, caller));
const { user, system } = process.cpuUsage(cpu);
const rate = (1000 * creates) / (performance.now() - beganMs);
console.log(JSON.stringify({ rate, cpu_us: (user + system) / creates }));
process.exit();

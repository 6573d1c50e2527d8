/** A target that logs its work to a file. With a fourth argument it dies in the middle of the work. */

import { appendFileSync } from "node:fs";
import { createServer } from "node:http";

import { nodeReceiver } from "postdate";

import { redis, seen } from "./seen.js"; // from the README

const [port, secrets, file, dies] = process.argv.slice(2) as [string, string, string, string?];

function work({ webhookId }: { webhookId: string }): void {
  appendFileSync(file, `${webhookId} began\n`);
  if (dies) process.kill(process.pid, "SIGKILL");
  appendFileSync(file, `${webhookId} ended\n`);
}

await redis.connect();
const options = { secrets, seen, leaseSeconds: 3, onCallback: work, onRequest: work };
createServer(nodeReceiver(options)).listen(Number(port), "127.0.0.1");

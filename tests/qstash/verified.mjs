// Verifies messages by the receiver of the TypeScript SDK. Stdin has the keys that it knows, and each
// message's signature, body and URL; stdout how many were good.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const { Receiver } = createRequire(join(process.cwd(), "package.json"))("@upstash/qstash");
const { current, next, messages } = JSON.parse(readFileSync(0, "utf8"));
const receiver = new Receiver({ currentSigningKey: current, nextSigningKey: next });
let good = 0;
for (const each of messages) good += (await receiver.verify(each)) ? 1 : 0;
console.log(good);

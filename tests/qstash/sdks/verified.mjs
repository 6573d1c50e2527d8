// Verifies messages by the receiver of the TypeScript SDK. The file that it is given has the keys that
// it knows, and each message's signature, body and URL. Prints how many were good.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const { Receiver } = createRequire(`${process.cwd()}/`)("@upstash/qstash");
const { current, next, messages } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const receiver = new Receiver({ currentSigningKey: current, nextSigningKey: next });
let good = 0;
for (const each of messages) good += (await receiver.verify(each)) ? 1 : 0;
console.log(good);

// Gives what a target got to the SDK's verification, as Next.js and others would. The job, as JSON:
// {keys: {current, next}, sent: [{url, method, headers, body}]}. Prints the outcomes of each.
import { createRequire } from "node:module";
import { Readable } from "node:stream";

const require = createRequire(`${process.cwd()}/`);
const { Receiver } = require("@upstash/qstash");
const next = require("@upstash/qstash/nextjs");
const { keys, sent } = JSON.parse(process.argv[2]);
const config = { currentSigningKey: keys.current, nextSigningKey: keys.next };

const route = next.verifySignatureAppRouter(async (request) => {
  return Response.json(await request.json(), { status: 201 });
}, config);
const edge = next.verifySignatureEdge(() => new Response("", { status: 202 }), config);
const page = next.verifySignature((_, response) => response.status(203), config);
const receiver = new Receiver(config);

const request = ({ url, method, headers, body }) => new Request(url, { method, headers, body });

/** A request of the pages router: a stream with small-letter headers. */
async function pageStatus({ headers, body }) {
  let found = 0;
  const asked = Object.assign(Readable.from([Buffer.from(body)]), { headers });
  await page(asked, { status: (status) => (found = status), send: () => {}, end: () => {} });
  return found;
}

const outcome = (work) => work().catch((error) => error.name);
const told = [];
for (const each of sent) {
  const signature = each.headers["upstash-signature"];
  told.push([
    await outcome(() => receiver.verify({ signature, body: each.body, url: each.url })),
    await outcome(async () => (await route(request(each))).status),
    await outcome(async () => (await edge(request(each))).status),
    await outcome(() => pageStatus(each)),
  ]);
}
console.log(JSON.stringify(told));

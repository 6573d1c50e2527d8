// What the client makes of real connections that fail.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { test } from "node:test";
import { Conflict, ConnectionFailed, Postdate, PostdateError } from "postdate";
import { errorOf, URL_ } from "./support.ts";

const whole = new Set<string | null>();
const answer = (status: number, body: unknown, headers = "") => {
  const content = JSON.stringify(body);
  const text = `HTTP/1.1 ${status} Reason\r\nContent-Length: ${content.length}\r\n${headers}\r\n${content}`;
  whole.add(text);
  return text;
};
const CREDITS = answer(200, { creditsRemaining: 7 });
const ACCEPTED = answer(201, { scheduleId: "sch_1" });
const CUT = "";
const SILENT = null;

/** Plays a step for each request, the last one over and over; a cut answer ends the connection. */
async function line(steps: (string | null)[], use: (line: Line) => Promise<void>) {
  const requests: string[] = [];
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createServer((socket) => {
    connections++;
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("data", (bytes) => {
      const first = /^(GET|POST|DELETE) .*/.exec(String(bytes));
      if (!first) return;
      requests.push(first[0].trim());
      const step = steps.length > 1 ? steps.shift()! : steps[0]!;
      if (step === SILENT) return;
      if (whole.has(step)) socket.write(step);
      else socket.end(step);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const counted = { url, requests, connections: () => connections };
  try {
    await use({ ...counted, client: new Postdate({ url, apiKey: "pd_1", retryFor: 0 }) });
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
}

/** Makes a connection, which the next call uses. */
async function kept(client: Postdate) {
  await client.credits();
  await new Promise((resolve) => setTimeout(resolve, 20));
}

interface Line {
  url: string;
  requests: string[];
  client: Postdate;
  connections(): number;
}

test("a lost answer may have been carried out", async () => {
  for (const lost of [
    CUT,
    SILENT,
    ACCEPTED.slice(0, -5),
    ACCEPTED.slice(0, 20),
    "SSH-2.0-OpenSSH_9.2\r\n",
  ]) {
    await line([CREDITS, lost], async ({ client, requests, connections }) => {
      await kept(client);
      const request = { targetUrl: URL_, delay: 5 };
      const error = await errorOf(() => client.schedule(request, { timeout: 0.3 }));
      assert.ok(error instanceof ConnectionFailed);
      assert.match(error.message, /^http:\S+ did not answer: ./);
      assert.ok(error.maybeDone);
      assert.ok(error.idempotencyKey);
      assert.deepEqual([requests.length, connections()], [2, 1]);
    });
  }
});

test("nothing below repeats a lost cancel unseen", async () => {
  await line([CREDITS, CUT, answer(409, { error: "No" })], async ({ client, requests }) => {
    await kept(client);
    const error = await errorOf(() => client.schedules.cancel("sch_1", { retryFor: 5 }));
    assert.ok(error instanceof Conflict && error.maybeDone);
    assert.deepEqual(
      requests.map((each) => each.split(" ")[0]),
      ["GET", "DELETE", "DELETE"],
    );
  });
});

test("a redirect is not followed", async () => {
  const elsewhere = answer(302, { error: "Elsewhere" }, "Location: /x\r\n");
  await line([elsewhere], async ({ client, requests }) => {
    const error = await errorOf(() => client.credits());
    assert.ok(error instanceof PostdateError);
    assert.deepEqual([error.message, error.status, requests.length], ["Elsewhere", 302, 1]);
  });
});

test("where no connection was made nothing was done, and the reason is told", async () => {
  let refusing = "";
  await line([CREDITS], async ({ url }) => void (refusing = url));
  await line([CREDITS], async ({ url }) => {
    for (const [address, reason] of [
      [refusing, /ECONNREFUSED/],
      ["http://postdate.invalid", /ENOTFOUND|EAI_AGAIN/],
    ] as const) {
      const client = new Postdate({ url: address, apiKey: "pd_1", retryFor: 0 });
      const error = await errorOf(() => client.credits());
      assert.match(error.message, new RegExp(`^${address} cannot be reached: .*${reason.source}`));
      assert.ok(!error.maybeDone);
    }
    // Not HTTP below: whether it was carried out is not known.
    const tls = new Postdate({ url: url.replace("http:", "https:"), apiKey: "pd_1", retryFor: 0 });
    assert.ok((await errorOf(() => tls.credits({ timeout: 1 }))) instanceof ConnectionFailed);
  });
});

/** Receivers in each kind of server. */

import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { createServer, request as send, type IncomingMessage, type Server } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { setImmediate } from "node:timers/promises";

import { getRequestListener, serve } from "@hono/node-server";
import express from "express";
import Fastify from "fastify";
import { Hono } from "hono";
import { Webhook } from "standardwebhooks";

import {
  fastifyReceiver,
  fetchReceiver,
  nodeReceiver,
  type ReceiverOptions,
  type SeenStore,
} from "postdate";

const SECRET = `whsec_${btoa("s".repeat(32))}`;
const REPORT = {
  type: "schedule.completed",
  timestamp: "2026-11-23T12:00:00.000Z",
  data: {
    scheduleId: "sch_1",
    invocationId: "inv_1",
    targetUrl: "https://example.com/hook",
    targetMethod: "POST",
    triggerAt: "2026-11-23T12:00:00.000Z",
    executedAt: "2026-11-23T12:00:00.000Z",
    status: "completed",
    statusCode: 200,
    responseTimeMs: 41,
    errorMessage: "",
    attempts: 1,
    reference: "order-17",
  },
};

function signed(body: string, id: string): RequestInit & { body: string } {
  const now = new Date();
  const headers = {
    "content-type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(now.getTime() / 1000)),
    "webhook-signature": new Webhook(SECRET).sign(id, now, body),
  };
  return { method: "POST", headers, body };
}

const callback = (id = "cbk_1") => signed(JSON.stringify(REPORT), id);

/** Each server has a receiver with these options at /ended. */
const SERVERS: Record<string, (options: ReceiverOptions<any>) => Promise<Server>> = {
  node: async (options) => createServer(nodeReceiver(options)).listen(0),
  fetch: async (options) => createServer(getRequestListener(fetchReceiver(options))).listen(0),
  express: async (options) => express().all("/ended", nodeReceiver(options)).listen(0),
  fastify: async (options) => {
    const app = Fastify();
    app.register(fastifyReceiver(options), { prefix: "/ended" });
    app.post("/parsed", async (request) => request.body);
    await app.listen({ port: 0 });
    return app.server;
  },
  hono: async (options) => {
    const receive = fetchReceiver(options);
    const app = new Hono().all("/ended", (context) => receive(context.req.raw));
    return serve({ fetch: app.fetch, port: 0 }) as Server;
  },
};

async function started(context: TestContext, server: Server): Promise<string> {
  if (!server.listening) await once(server, "listening");
  context.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/ended`;
}

/** The status of a request with so many chunks and no Content-Length. */
async function streamed(url: string, chunks: number): Promise<number> {
  const sent = send(url, { method: "POST" });
  const answered = once(sent, "response") as Promise<[IncomingMessage]>;
  for (let left = chunks; left > 0; left -= 1) sent.write("0123456789".repeat(1000));
  sent.end();
  const [answer] = await answered;
  answer.resume();
  return answer.statusCode!;
}

class Seen implements SeenStore {
  readonly notes = new Map<string, "busy" | "done">();
  readonly told: unknown[] = [];

  begin(id: string, leaseSeconds: number) {
    const found = this.notes.get(id);
    if (!found) this.notes.set(id, "busy");
    this.told.push(leaseSeconds);
    return found ?? ("begun" as const);
  }

  async finish(id: string, keepSeconds: number) {
    this.told.push(keepSeconds);
    this.notes.set(id, "done");
  }

  async release(id: string) {
    this.notes.delete(id);
  }
}

for (const [name, serverOf] of Object.entries(SERVERS)) {
  test(`${name}: accepts signed requests once, and refuses others`, async (context) => {
    const got: unknown[] = [];
    const seen = new Seen();
    const url = await started(
      context,
      await serverOf({
        secrets: async () => [SECRET],
        seen,
        maxBytes: 600,
        onCallback: async (report) => {
          await setImmediate();
          got.push(report.type === "schedule.completed" && report.data.reference);
        },
        onRequest: ({ webhookId, body, request }) => {
          got.push([webhookId, new TextDecoder().decode(body), typeof request.headers]);
        },
      }),
    );
    const answers = async (init: RequestInit, status: number, says = "") => {
      const answer = await fetch(url, init);
      assert.deepEqual([await answer.text(), answer.status], [says, status]);
    };
    await answers(callback(), 204);
    await answers(callback(), 204);
    const own = { ...signed('{ "as": "it was" }', "inv_2"), method: "PUT" };
    await answers(own, 204);
    await answers({ ...signed("", "inv_3"), method: "GET", body: null }, 204);
    assert.deepEqual(got, [
      "order-17",
      ["inv_2", '{ "as": "it was" }', "object"],
      ["inv_3", "", "object"],
    ]);
    assert.deepEqual([...new Set(seen.told)], [60, 14 * 86400]);

    await answers({ method: "POST", body: "{}" }, 401, "There is no header webhook-id");
    await answers({ ...callback(), body: "{}" }, 401, "No signature fits");
    await answers(signed("{}", "cbk_2"), 401, "It is signed, but is no report of a schedule's end");
    await answers(signed("a".repeat(600), "inv_4"), 204);
    const tooLong = "The body has more than 600 bytes";
    await answers(signed("a".repeat(601), "inv_5"), 413, tooLong);
    assert.equal(await streamed(url, 100), 413);
    seen.notes.set("cbk_6", "busy");
    await answers(callback("cbk_6"), 503, "Another attempt does this work");
    assert.equal((await fetch(url, callback("cbk_6"))).headers.get("retry-after"), "60");
    assert.equal(got.length, 4);
  });

  test(`${name}: the next attempt repeats work that failed`, async (context) => {
    context.mock.method(console, "error", () => {});
    let left = 1;
    const seen = new Seen();
    const onCallback = () => {
      if (left-- > 0) throw new Error("the database is away");
    };
    const url = await started(context, await serverOf({ secrets: SECRET, seen, onCallback }));
    assert.equal((await fetch(url, callback())).status, 500);
    assert.deepEqual([...seen.notes], []);
    assert.equal((await fetch(url, callback())).status, 204);
    assert.deepEqual([...seen.notes], [["cbk_1", "done"]]);
    assert.equal((await fetch(url, signed("own", "inv_1"))).status, 400);
  });
}

for (const [name, serverOf] of Object.entries(SERVERS)) {
  test(`${name}: waits for a slow body for 30 seconds`, async (context) => {
    const onRequest = () => assert.fail("it was incomplete");
    const server = await serverOf({ secrets: SECRET, onRequest });
    const url = new URL(await started(context, server));
    context.mock.timers.enable({ apis: ["setTimeout"] });
    const socket = connect(Number(url.port), "127.0.0.1");
    socket.write("POST /ended HTTP/1.1\r\nhost: a\r\ncontent-length: 99\r\n\r\nhalf");
    await once(server, "request");
    let answer = "";
    socket.on("data", (bytes) => (answer += bytes));
    const closed = once(socket, "close");
    for (let n = 0; n < 5; n += 1) await setImmediate();
    context.mock.timers.tick(29_999);
    await setImmediate();
    assert.equal(answer, "");
    context.mock.timers.tick(1);
    await closed; // the server ends the connection
    assert.match(answer, /^HTTP\/1.1 408 [^]*The body took more than 30 seconds/);
  });
}

test("stops reading an endless body", async () => {
  let left = true;
  const pull = (controller: ReadableStreamDefaultController) => {
    controller.enqueue(new Uint8Array(1000));
  };
  const body = new ReadableStream({ pull, cancel: () => void (left = false) });
  const endless = new Request("http://a/", { method: "POST", body, duplex: "half" } as RequestInit);
  const answer = await fetchReceiver({ secrets: SECRET, onRequest: () => {} })(endless);
  assert.deepEqual([answer.status, left], [413, false]);
});

test("reports the errors of a store", async () => {
  const fails = (text: string) => () => Promise.reject(new Error(text));
  let works: unknown[] = [];
  const receive = (changes: Partial<Record<keyof SeenStore, unknown>>, work: () => unknown) => {
    const seen = Object.assign(new Seen(), changes);
    works = [];
    const onCallback = () => (works.push(1), work());
    return fetchReceiver({ secrets: SECRET, seen, onCallback })(
      new Request("http://a/", callback()),
    );
  };
  const nothing = () => {};
  await assert.rejects(receive({ begin: fails("begin") }, nothing), /begin/);
  assert.deepEqual(works, []);
  await assert.rejects(receive({ begin: () => true }, nothing), /"begun", "busy" or "done"/);
  assert.deepEqual(works, []);
  await assert.rejects(receive({ finish: fails("finish") }, nothing), /finish/);
  await assert.rejects(receive({ release: fails("release") }, fails("work")), (error) => {
    assert(error instanceof AggregateError);
    assert.deepEqual(error.errors.map(String), ["Error: work", "Error: release"]);
    return true;
  });
});

test("reports mistakes of the developer", async (context) => {
  const options = { secrets: SECRET, onRequest: () => {} };
  for (const make of [fetchReceiver, nodeReceiver, fastifyReceiver] as any[]) {
    assert.throws(() => make({ secrets: SECRET }), /Give onCallback, onRequest, or both/);
  }
  const request = new Request("http://a/", callback());
  await assert.rejects(
    fetchReceiver({ ...options, secrets: undefined as any })(request.clone()),
    /secrets must be a string or several, not undefined/,
  );
  const reader = request.clone();
  reader.body!.getReader();
  await assert.rejects(fetchReceiver(options)(reader), /mount the receiver before body parsers/);
  await request.text();
  await assert.rejects(fetchReceiver(options)(request), /mount the receiver before body parsers/);

  const parsed = express().use(express.json()).post("/ended", nodeReceiver(options));
  const errors: string[] = [];
  parsed.use(((error, _request, response, _next) => {
    errors.push(error.message);
    response.sendStatus(500);
  }) as express.ErrorRequestHandler);
  const url = await started(context, parsed.listen(0));
  assert.equal((await fetch(url, callback())).status, 500);
  assert.match(errors[0]!, /before body parsers such as express.json\(\)/);

  const app = Fastify();
  app.post("/ended", nodeReceiver(options) as any);
  const answer = await app.inject({ method: "POST", url: "/ended", payload: { a: 1 } });
  assert.match(answer.json().message, /in Fastify use fastifyReceiver/);
  await app.close();
});

test("accepts the bytes that a body parser kept", async (context) => {
  const options = { secrets: SECRET, maxBytes: 600, onCallback: () => {} };
  const app = express();
  app.post("/raw", express.raw({ type: "*/*" }), nodeReceiver(options));
  const verify = (request: IncomingMessage, _: unknown, bytes: Buffer) => {
    Object.assign(request, { rawBody: bytes });
  };
  app.post("/json", express.json({ verify }), nodeReceiver(options));
  const url = await started(context, app.listen(0));
  for (const path of ["/raw", "/json"]) {
    assert.equal((await fetch(new URL(path, url), callback())).status, 204);
    const tooLong = signed(JSON.stringify({ a: "a".repeat(600) }), "cbk_2");
    assert.equal((await fetch(new URL(path, url), tooLong)).status, 413);
  }
});

test("does not wait for a client that has left", async (context) => {
  const onRequest = () => assert.fail("it was incomplete");
  const receive = nodeReceiver({ secrets: SECRET, onRequest });
  for (const before of [true, false]) {
    const handled = new EventEmitter();
    const url = await started(
      context,
      createServer(async (request, response) => {
        handled.emit("begun");
        if (before) await new Promise((go) => request.socket.once("close", go));
        await receive(request, response);
        handled.emit("ended", response.statusCode);
      }).listen(0),
    );
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    socket.write("POST /ended HTTP/1.1\r\nhost: a\r\ncontent-length: 99\r\n\r\nhalf");
    await once(handled, "begun");
    socket.destroy();
    assert.deepEqual(await once(handled, "ended"), [400]);
  }
});

/** Uses the package, in any runtime. */

import { fetchReceiver, Postdate, VerificationError, verify } from "postdate";

/** Requests of a real Postdate, and its address. */
export interface Given {
  url: string;
  apiKey: string;
  secret: string;
  sent: { headers: Record<string, string>; body: string }[];
}

export async function use({ url, apiKey, secret, sent }: Given): Promise<unknown[]> {
  const told: unknown[] = [];
  const receive = fetchReceiver({
    secrets: secret,
    onCallback: ({ type, data }) => told.push(type, data.reference),
    onRequest: ({ body }) => told.push(new TextDecoder().decode(body)),
  });
  for (const { headers, body } of sent) {
    for (const each of [body, `${body} `]) {
      const request = new Request("http://localhost/", { method: "POST", headers, body: each });
      const { status } = await receive(request);
      const found = await verify(headers, each, [secret]).catch((error: unknown) => error);
      const kind = found instanceof VerificationError ? found.message : typeof found;
      told.push(status, kind);
    }
  }
  const postdate = new Postdate({ url, apiKey });
  const created = await postdate.schedule({ targetUrl: "https://example.com/", delay: "1h" });
  const { targetUrl } = await postdate.schedules.get(created.scheduleId);
  await postdate.schedules.cancel(created.scheduleId);
  told.push(targetUrl);
  return told;
}

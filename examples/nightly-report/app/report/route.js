/* Make a report each night at two, and learn of it if none of five attempts succeeds. Next.js.
 *
 *     npm install postdate next react react-dom
 *     npx next build && npx next start --port 9000
 *     curl -X PUT 127.0.0.1:9000/report
 */
import { fetchReceiver, Postdate } from "postdate";

export const dynamic = "force-dynamic";

const url = `${process.env.OWN_URL ?? "http://127.0.0.1:9000"}/report`;
const postdate = new Postdate(); // reads POSTDATE_URL and POSTDATE_API_KEY

/** Call it after each deploy: the rule has a name, so that it is there once, and what is so already
 * stays as it is. */
export async function PUT() {
  const rule = await postdate.recurring.put("nightly-report", {
    cron: "0 2 * * *",
    timeZone: "Europe/Berlin",
    targetUrl: url,
    targetMethod: "POST",
    retries: 5,
    callbackUrl: url,
    callbackOn: "failed",
  });
  return Response.json({ next: rule.nextAt, unchanged: rule.unchanged });
}

export const POST = fetchReceiver({
  secrets: async () => (await postdate.signing.get()).map((each) => each.secret),
  async onRequest({ webhookId }) {
    // All attempts of one night have the same id: use it as the report's.
    console.log(`Report ${webhookId}: ${await makeReport()} orders`);
  },
  onCallback({ data }) {
    console.log(`No report of ${data.triggerAt}: ${data.errorMessage}`);
  },
});

async function makeReport() {
  const answer = await fetch(process.env.ORDERS_URL ?? "http://127.0.0.1:9001/orders");
  if (!answer.ok) throw new Error(`The orders answered ${answer.status}`);
  return (await answer.json()).length;
}

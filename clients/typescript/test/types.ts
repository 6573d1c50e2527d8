// Judged by the compiler alone: what it must take, and what it must not.
import {
  Postdate,
  PostdateError,
  type Created,
  type LogEntry,
  type NewSchedule,
  type Schedule,
} from "postdate";

declare const postdate: Postdate;
const targetUrl = "https://example.com/hook";

interface Order {
  order: number;
}
declare const order: Order;
declare const perhaps: string | undefined;

export const taken: NewSchedule[] = [
  { targetUrl, delay: "1h30m", body: order },
  { targetUrl, delay: 60, body: "text", retryDelays: [1, "1m"] },
  { targetUrl, triggerAt: new Date(), body: new Uint8Array(), callbackUrl: null },
  { targetUrl, triggerAt: "2026-11-20T08:00:00Z", delay: null, onExisting: "replace" },
  { targetUrl, delay: 1, triggerAt: undefined, lane: perhaps, body: undefined },
  // @ts-expect-error: one of both says when
  { targetUrl },
  // @ts-expect-error: not both
  { targetUrl, delay: 1, triggerAt: new Date() },
  // @ts-expect-error: a URL is required
  { delay: 1 },
  // @ts-expect-error: JSON that is no object has no field of its own
  { targetUrl, delay: 1, body: 5 },
  // @ts-expect-error: a misspelt field
  { targetUrl, delay: 1, retry: 5 },
  // @ts-expect-error: another word
  { targetUrl, delay: 1, delivery: "once" },
];

export async function answers(): Promise<[string, Schedule, LogEntry | undefined]> {
  const [result] = await postdate.batch(taken);
  // @ts-expect-error: it may be an error, or none
  result.scheduleId;
  if (!result || result instanceof PostdateError) throw result;
  const created: Created = result;
  const found = await postdate.schedules.get(created.scheduleId);
  for await (const entry of postdate.logs({ status: ["failed", "completed"] })) {
    return [found.etag ?? found.triggerAt, found, entry];
  }
  await postdate.schedules.change("sch_1", { body: null, lane: null }, { ifMatch: "1" });
  // @ts-expect-error: a cancel takes no idempotency key
  await postdate.schedules.cancel("sch_1", { idempotencyKey: "k" });
  // @ts-expect-error: null is no filter, it would mean all
  await postdate.schedules.cancelMany({ reference: null });
  // @ts-expect-error: nor is undefined
  await postdate.schedules.cancelMany({ reference: perhaps });
  // @ts-expect-error: nor is a Promise, or a list
  await postdate.schedules.cancelMany(Promise.resolve(["sch_1"]));
  // @ts-expect-error: it says what is chosen
  await postdate.schedules.cancelMany();
  new Postdate({ url: perhaps, apiKey: perhaps, timeout: undefined, fetch: undefined });
  await postdate.recurring.preview({ every: 60, endsAt: undefined });
  await postdate.logs({ lane: perhaps }, { signal: undefined, retryFor: undefined }).page();
  await postdate.recurring.put(
    "a",
    { targetUrl, every: "1h", lane: perhaps },
    { ifMatch: perhaps },
  );
  const { occurrencesLeft, length } = await postdate.schedules.cancelMany({});
  return [`${occurrencesLeft + length}`, found, undefined];
}

// Carries out creates, one for each line of JSON: [url, apiKey, create, ids]. Prints the new ids.
import { createInterface } from "node:readline";
import { Buffer, Postdate } from "postdate";

const targetUrl = "https://example.com/hook";
const delay = "9d";
const requests = [0, 1, 2].map((number) => ({ targetUrl: `${targetUrl}/${number}`, delay }));
const rule = { targetUrl, cron: "0 0 1 1 *" };

/** Each resolves to what was made: one, or several. */
const creates = {
  schedule: (postdate) => postdate.schedule({ targetUrl, delay }),
  batch: (postdate) => postdate.batch(requests),
  buffer: async (postdate) => {
    const buffer = new Buffer(postdate);
    return Promise.all(requests.map((each) => buffer.schedule(each)));
  },
  replay: (postdate, [id]) => postdate.schedules.replay(id),
  replayMany: (postdate, ids) => postdate.schedules.replayMany(ids),
  recurring: (postdate) => postdate.recurring.create(rule),
  trigger: (postdate, [id]) => postdate.recurring.trigger(id),
};

for await (const line of createInterface({ input: process.stdin })) {
  const [url, apiKey, create, ids] = JSON.parse(line);
  const postdate = new Postdate({ url, apiKey, timeout: 2, retryFor: 60 });
  try {
    const made = [await creates[create](postdate, ids)].flat();
    console.log(JSON.stringify({ ids: made.map((each) => each.scheduleId) }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}

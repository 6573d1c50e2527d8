import { queried } from "./arguments.js";
import { Calls, type CallOptions, type CreateOptions, type Options } from "./calls.js";
import { strangeAnswer } from "./errors.js";
import { List } from "./list.js";
import { resultsOf, type Result } from "./many.js";
import {
  AccountSettings,
  Callbacks,
  created,
  json,
  Lanes,
  RecurringSchedules,
  Schedules,
  Signing,
  type Created,
} from "./nouns.js";
import type * as api from "./schema.js";

/** A client of one Postdate and API key. */
export class Postdate {
  readonly #calls: Calls;
  readonly schedules: Schedules;
  readonly callbacks: Callbacks;
  readonly lanes: Lanes;
  readonly recurring: RecurringSchedules;
  readonly account: AccountSettings;
  readonly signing: Signing;

  constructor(options: Options = {}, of?: Postdate) {
    const calls = (this.#calls = new Calls(options, of && of.#calls));
    this.schedules = new Schedules(calls);
    this.callbacks = new Callbacks(calls);
    this.lanes = new Lanes(calls);
    this.recurring = new RecurringSchedules(calls);
    this.account = new AccountSettings(calls);
    this.signing = new Signing(calls);
  }

  /** A copy with other options, over the same connections; `headers` are added to this client's. */
  withOptions(options: Omit<Options, "url">): Postdate {
    return new Postdate(options, this);
  }

  /**
   * Calls `targetUrl` at a chosen time, for one credit. Give the time as `triggerAt`, or a `delay`,
   * which counts by the service's clock.
   */
  async schedule(request: api.NewSchedule, options: CreateOptions = {}): Promise<Created> {
    const asked = { body: json(request), once: true };
    return created(await this.#calls.call("POST", "/schedule", options, asked));
  }

  /**
   * Schedules 1 to 1,000 at once; a string is the JSON of one. Returns for each, in order, what
   * `schedule` would have returned, or the error that it would have thrown.
   */
  async batch(
    requests: Iterable<api.NewSchedule | string>,
    options: CreateOptions = {},
  ): Promise<Result<Created>[]> {
    const items = Array.from(requests, (each) => (typeof each === "string" ? each : json(each)));
    const asked = { body: `{"schedules": [${items.join(", ")}]}`, once: true };
    const answer = await this.#calls.call("POST", "/schedule/batch", options, asked);
    return resultsOf({ existing: false }, answer);
  }

  /** Lists the log, newest first unless `order` is "asc" or `scheduleId` names a schedule. */
  logs(filter: api.LogFilter = {}, options: CallOptions = {}): List<api.LogEntry> {
    return new List(this.#calls, "/stats/logs", "logs", filter, options);
  }

  /** Counts executions, of the last 30 days by default. */
  async stats(period: api.Period = {}, options: CallOptions = {}): Promise<api.Stats> {
    const query = queried(period);
    return (await this.#calls.call("GET", "/stats", options, { query })).body;
  }

  /** Reads how many credits are left. */
  async credits(options: CallOptions = {}): Promise<number> {
    const { body } = await this.#calls.call("GET", "/stats/remaining-credits", options);
    if (typeof body.creditsRemaining !== "number") throw strangeAnswer("it has no credits");
    return body.creditsRemaining;
  }
}

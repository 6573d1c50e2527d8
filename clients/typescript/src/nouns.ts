// What a client has, by the nouns of the API.
import { part, queried, written } from "./arguments.js";
import type {
  Answer,
  Calls,
  CallOptions,
  CreateOptions,
  MatchOptions,
  SetOptions,
} from "./calls.js";
import { strangeAnswer } from "./errors.js";
import { List } from "./list.js";
import { each, type Result } from "./many.js";
import type * as api from "./schema.js";

/** An answer with its `etag`, for `ifMatch`. */
export type Tagged<T> = T & { etag: string | null };
/** `replayed`: an earlier call with the same idempotency key got this answer first. */
export type Once<T> = T & { replayed: boolean };
/** `existing`: the schedule waited already, and was kept or replaced, for no credit. */
export type Created = Once<Omit<api.Created, "message"> & { message?: string; existing: boolean }>;
/** One of many that were cancelled. */
export type CancelledItem = api.CancelledItem & { creditsRemaining: number };
/** `occurrencesLeft`: how many next occurrences of recurring schedules were left out. */
export type CancelledMany = Result<CancelledItem>[] & { occurrencesLeft: number };
/** `created`: there was none with this name before. */
export type PutRecurring = Tagged<api.PutRecurring> & { created: boolean };

export function created({ body, replayed }: Answer): Created {
  if (typeof body.scheduleId !== "string") throw strangeAnswer("it has no scheduleId", true);
  return { existing: false, ...body, replayed };
}
const once = <T>({ body, replayed }: Answer): Once<T> => ({ ...body, replayed });
const tagged = <T>({ body, etag }: Answer): Tagged<T> => ({ ...body, etag });
export const json = (request: object) => JSON.stringify(written(request));

class Noun {
  protected readonly calls: Calls;

  constructor(calls: Calls) {
    this.calls = calls;
  }
}

const CANCEL = { path: "/schedule/cancel", idName: "scheduleId", listed: { status: "scheduled" } };
const REPLAY = { path: "/schedule/replay", idName: "replayOf", listed: { status: "failed" } };
const RESEND = { path: "/schedule/callback", idName: "scheduleId", listed: { callback: "failed" } };

export class Schedules extends Noun {
  /** Reads a schedule. Throws NotFound once it is no longer kept, a day after its end. */
  async get(scheduleId: string, options: MatchOptions = {}): Promise<Tagged<api.Schedule>> {
    return tagged(await this.calls.call("GET", schedulePath(scheduleId), options));
  }

  /**
   * Lists waiting schedules by trigger time; with `held`, only due ones that something keeps from
   * starting. The status "failed" lists failed schedules that were not replayed. Any other status,
   * or several, lists all schedules with them that are kept.
   */
  list(filter: api.ScheduleFilter = {}, options: CallOptions = {}): List<api.Schedule> {
    return new List(this.calls, "/schedule", "schedules", filter, options);
  }

  /** Changes the given fields, each as a whole; null clears one. The id stays. */
  async change(
    scheduleId: string,
    change: api.ChangeRequest,
    options: MatchOptions = {},
  ): Promise<Tagged<api.Schedule>> {
    const asked = { body: json(change) };
    return tagged(await this.calls.call("PATCH", schedulePath(scheduleId), options, asked));
  }

  /**
   * Cancels a schedule and refunds its credit once. If it was attempted, it is stopped as failed,
   * without a refund. Throws Conflict if it was executed or a worker has it.
   */
  async cancel(scheduleId: string, options: MatchOptions = {}): Promise<api.Cancelled> {
    return (await this.calls.call("DELETE", schedulePath(scheduleId), options)).body;
  }

  /**
   * Cancels the schedules with these ids, however many, or all that wait and match a filter; `{}`
   * means all. Returns the result or the error of each, in order. A filter without `recurringId`
   * leaves out the next occurrences of recurring schedules, and `occurrencesLeft` counts them.
   */
  async cancelMany(
    chosen: Iterable<string> | api.CancelFilter,
    options: CallOptions = {},
  ): Promise<CancelledMany> {
    const done = await each<CancelledItem>(this.calls, CANCEL, chosen, options);
    return Object.assign(done.results, { occurrencesLeft: done.occurrencesLeft });
  }

  /**
   * Makes a new schedule of one that has ended, due now, for one credit. Given fields replace the
   * old ones, as in `change`.
   */
  async replay(
    scheduleId: string,
    change: api.ReplayRequest = {},
    options: CreateOptions = {},
  ): Promise<Once<api.Replay>> {
    const asked = { body: json(change), once: true };
    return once(
      await this.calls.call("POST", schedulePath(scheduleId) + "/replay", options, asked),
    );
  }

  /**
   * Replays the schedules with these ids, however many, each at most once. Or all that have failed
   * up to now and match a filter, the oldest first. Returns the result or the error of each, in
   * order.
   */
  async replayMany(
    chosen: Iterable<string> | api.ReplayFilter,
    options: CreateOptions = {},
  ): Promise<Result<Once<api.Replayed>>[]> {
    return (await each<Once<api.Replayed>>(this.calls, { ...REPLAY, once: true }, chosen, options))
      .results;
  }
}

export class Callbacks extends Noun {
  /**
   * Reports once more how a schedule ended: to `callbackUrl` ("default": the account's), or where
   * it was to go. Throws Conflict with the reason "callback_pending" while a report is on its way.
   */
  async resend(
    scheduleId: string,
    request: api.CallbackRequest = {},
    options: CallOptions = {},
  ): Promise<api.Callback> {
    const path = schedulePath(scheduleId) + "/callback";
    return (await this.calls.call("POST", path, options, { body: json(request) })).body;
  }

  /**
   * Reports once more how the schedules with these ids ended, or all that match a filter and whose
   * callback has failed; with `callback: "delivered"`, those whose callback was delivered. 50 go
   * out a second. Returns the result or the error of each, in order: RateLimited for ids beyond the
   * next 20 seconds.
   */
  async resendMany(
    chosen: Iterable<string> | api.ResendFilter,
    options: CallOptions = {},
  ): Promise<Result<api.Resent>[]> {
    return (await each<api.Resent>(this.calls, RESEND, chosen, options)).results;
  }
}

export class Lanes extends Noun {
  /** Reads a lane's settings and state. Settings that it does not have are null. */
  async get(lane: string, options: MatchOptions = {}): Promise<Tagged<api.Lane>> {
    return tagged(await this.calls.call("GET", lanePath(lane), options));
  }

  /** Lists by name the lanes that are set, paused or calm, or have schedules. */
  list(filter: api.LaneFilter = {}, options: CallOptions = {}): List<api.Lane> {
    return new List(this.calls, "/lanes", "lanes", filter, options);
  }

  /** Sets limits and note, all at once: a limit that is left out is removed. A pause stays. */
  async set(
    lane: string,
    limits: api.LaneRequest,
    options: SetOptions = {},
  ): Promise<Tagged<api.Lane>> {
    const asked = { body: json(limits) };
    return tagged(await this.calls.call("PUT", lanePath(lane), options, asked));
  }

  /** Changes the given settings; with `paused` it pauses the lane or resumes it. */
  async change(
    lane: string,
    change: api.LaneChangeRequest,
    options: MatchOptions = {},
  ): Promise<Tagged<api.Lane>> {
    const asked = { body: json(change) };
    return tagged(await this.calls.call("PATCH", lanePath(lane), options, asked));
  }

  /** Pauses the lane until it is resumed, or until the given end. Running requests end. */
  async pause(
    lane: string,
    pause: api.PauseRequest = {},
    options: MatchOptions = {},
  ): Promise<Tagged<api.Lane>> {
    const asked = { body: json(pause) };
    return tagged(await this.calls.call("POST", lanePath(lane) + "/pause", options, asked));
  }

  /** Ends the pause. Due schedules go out in their order, at the lane's rate. */
  async resume(lane: string, options: MatchOptions = {}): Promise<Tagged<api.Lane>> {
    return tagged(await this.calls.call("POST", lanePath(lane) + "/resume", options));
  }

  /** Removes limits, pause and calm. Waiting schedules go on without limits. */
  async clear(lane: string, options: MatchOptions = {}): Promise<api.ClearedLane> {
    return (await this.calls.call("DELETE", lanePath(lane), options)).body;
  }
}

/** A `recurringId` may be "name:report", for the recurring schedule with this name. */
export class RecurringSchedules extends Noun {
  /** Calls `targetUrl` again and again, for one credit each time. */
  async create(
    request: api.RecurringRequest,
    options: CreateOptions = {},
  ): Promise<Once<api.CreatedRecurring>> {
    const asked = { body: json(request), once: true };
    return once(await this.calls.call("POST", "/recurring", options, asked));
  }

  /**
   * Creates the recurring schedule of this name, or replaces all its settings. If they are the same
   * already, nothing changes, and it is `unchanged`. For deploys.
   */
  async put(
    name: string,
    request: Omit<api.RecurringRequest, "name">,
    options: SetOptions = {},
  ): Promise<PutRecurring> {
    const path = "/recurring/by-name/" + part("name", name);
    const answer = await this.calls.call("PUT", path, options, { body: json(request) });
    return { ...tagged<api.PutRecurring>(answer), created: answer.status === 201 };
  }

  /** Reads a recurring schedule, with its next five times. */
  async get(recurringId: string, options: MatchOptions = {}): Promise<Tagged<api.Recurring>> {
    return tagged(await this.calls.call("GET", recurringPath(recurringId), options));
  }

  /** Lists all in the order of their creation, or the one with this name. */
  list(filter: api.RecurringFilter = {}, options: CallOptions = {}): List<api.Recurring> {
    return new List(this.calls, "/recurring", "recurring", filter, options);
  }

  /**
   * Changes the given settings, each as a whole; null clears one. The waiting occurrence changes
   * too; if a worker has it already, the one after it does.
   */
  async change(
    recurringId: string,
    change: api.RecurringChangeRequest,
    options: MatchOptions = {},
  ): Promise<Tagged<api.Recurring>> {
    const asked = { body: json(change) };
    return tagged(await this.calls.call("PATCH", recurringPath(recurringId), options, asked));
  }

  /**
   * Cancels and refunds the waiting occurrence, and makes none until it is resumed, or until the
   * given end.
   */
  async pause(
    recurringId: string,
    pause: api.PauseRequest = {},
    options: MatchOptions = {},
  ): Promise<Tagged<api.Recurring>> {
    const path = recurringPath(recurringId) + "/pause";
    return tagged(await this.calls.call("POST", path, options, { body: json(pause) }));
  }

  /** Makes the next occurrence. Times during the pause are left out. */
  async resume(recurringId: string, options: MatchOptions = {}): Promise<Tagged<api.Recurring>> {
    return tagged(await this.calls.call("POST", recurringPath(recurringId) + "/resume", options));
  }

  /** Sends its request once now, besides its own times, for one credit. */
  async trigger(recurringId: string, options: CreateOptions & MatchOptions = {}): Promise<Created> {
    const path = recurringPath(recurringId) + "/trigger";
    return created(await this.calls.call("POST", path, options, { once: true }));
  }

  /** Deletes it, and cancels and refunds the waiting occurrence. */
  async delete(recurringId: string, options: MatchOptions = {}): Promise<api.DeletedRecurring> {
    return (await this.calls.call("DELETE", recurringPath(recurringId), options)).body;
  }

  /** Shows the next ten times of a rule, and the rule in words. Stores nothing. */
  async preview(rule: api.PreviewRequest, options: CallOptions = {}): Promise<api.Preview> {
    const query = queried(rule);
    return (await this.calls.call("GET", "/recurring/preview", options, { query })).body;
  }
}

export class AccountSettings extends Noun {
  /** Reads the account: its pause, its default callback, its plan and what it has. */
  async get(options: MatchOptions = {}): Promise<Tagged<api.Account>> {
    return tagged(await this.calls.call("GET", "/account", options));
  }

  /** Pauses or resumes all schedules, and sets where the ends of schedules are reported. */
  async change(
    change: api.AccountRequest,
    options: MatchOptions = {},
  ): Promise<Tagged<api.Account>> {
    return tagged(await this.calls.call("PATCH", "/account", options, { body: json(change) }));
  }

  /** Pauses the account until it is resumed, or until the given end. Running requests end. */
  async pause(
    pause: api.PauseRequest = {},
    options: MatchOptions = {},
  ): Promise<Tagged<api.Account>> {
    return tagged(await this.calls.call("POST", "/account/pause", options, { body: json(pause) }));
  }

  /** Ends the pause of the account. Lanes that are paused stay so. */
  async resume(options: MatchOptions = {}): Promise<Tagged<api.Account>> {
    return tagged(await this.calls.call("POST", "/account/resume", options));
  }
}

export class Signing extends Noun {
  /** Reads the secrets that sign requests, the newest first. */
  async get(options: CallOptions = {}): Promise<api.SigningSecret[]> {
    return secrets(await this.calls.call("GET", "/signing", options));
  }

  /** Makes a new secret and returns all, the newest first. Older ones stay valid for `keepFor`. */
  async rotate(
    request: api.RotationRequest = {},
    options: CreateOptions = {},
  ): Promise<api.SigningSecret[]> {
    const asked = { body: json(request), once: true };
    return secrets(await this.calls.call("POST", "/signing/rotate", options, asked));
  }
}

function secrets({ body }: Answer): api.SigningSecret[] {
  if (!Array.isArray(body.secrets)) throw strangeAnswer("it has no secrets");
  return body.secrets;
}

const schedulePath = (scheduleId: string) => "/schedule/" + part("scheduleId", scheduleId);
const lanePath = (lane: string) => "/lanes/" + part("lane", lane);
const recurringPath = (recurringId: string) => "/recurring/" + part("recurringId", recurringId);

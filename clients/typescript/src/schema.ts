// Types of requests, filters and answers. `make schema` writes them from the OpenAPI document.

/** A moment; a string is ISO 8601. */
export type Moment = Date | string;
/** How long: "1h30m", "250ms", or a number of seconds. */
export type Duration = string | number;
export type OneOrMore<T> = T | readonly T[];
export type JsonObject = { [name: string]: unknown };
/** An object goes out as JSON, a string as text, and any Uint8Array or ArrayBuffer as it is. */
export type Body = object | string;
/** When a schedule is due: one of both. */
export type When =
  | { triggerAt: Moment; delay?: null | undefined }
  | { delay: Duration; triggerAt?: null | undefined };
/** A request, and when it is to be performed. */
export type NewSchedule = ScheduleRequest & When;

/** Fields that take a Duration. */
export const DURATIONS = [
  "delay",
  "every",
  "expiresAfter",
  "keepFor",
  "maxWait",
  "per",
  "retryDelays",
  "timeout",
];

/** A request, and when it is sent. Null is the same as absent, but for `callbackUrl`. */
export interface ScheduleRequest {
  /**
   * Where the request goes: an absolute http or https URL without user name, password, spaces,
   * control characters or backslashes. An address that this installation does not allow is refused
   * now, a name when the request goes out.
   */
  targetUrl: string;
  /**
   * When the request goes out, unless `delay` says so. At most 24 hours in the past (then it is due
   * at once), and five years ahead unless this installation says otherwise. Parts of a millisecond
   * round up.
   */
  triggerAt?: Moment | null | undefined;
  /**
   * Instead of `triggerAt`: how long from now the request goes out, by the clock of the store; at
   * most as far ahead as `triggerAt`.
   */
  delay?: Duration | null | undefined;
  /** In any letter case. If it is left out, POST with a body, GET without. */
  targetMethod?: TargetMethod | null | undefined;
  /**
   * Headers to send, 16 KiB in all. Refused are `Host`, `Content-Length`, `Transfer-Encoding`,
   * `Connection`, `Keep-Alive`, `TE`, `Trailer`, `Upgrade`, `Expect`, `Proxy-*`, `Postdate-*` and
   * `webhook-*`.
   */
  targetHeaders?: Record<string, string> | null | undefined;
  /**
   * A JSON object, sent exactly as it was written, with `Content-Type: application/json` unless a
   * header says otherwise.
   */
  targetBody?: object | null | undefined;
  /**
   * Instead of `targetBody`: text, sent as UTF-8, at most 192 KiB, with Content-Type: text/plain;
   * charset=utf-8 unless a header says otherwise.
   */
  targetBodyText?: string | null | undefined;
  /**
   * Instead of `targetBody`: any bytes, in base64 with padding (RFC 4648), at most 192 KiB of them,
   * with Content-Type: application/octet-stream unless a header says otherwise.
   */
  targetBodyBase64?: string | null | undefined;
  /**
   * Instead of those three, and sent as one of them: an object as `targetBody`, a string as
   * `targetBodyText`, bytes as `targetBodyBase64`.
   */
  body?: Body | null | undefined;
  /**
   * If a worker is lost while it has the request: at-least-once (the default) sends it again,
   * at-most-once gives it up as failed.
   */
  delivery?: Delivery | null | undefined;
  /**
   * The last moment at which it may still be sent, after triggerAt; later it ends as failed,
   * `Expired before execution`. A retry that would come later is not made.
   */
  expiresAt?: Moment | null | undefined;
  /**
   * How often it is sent again after no answer, or after 408, 409, 425, 429 or 5xx; 0 if it is left
   * out. Any other answer is final, unless `retryOn` is `any`. A retry costs no credit.
   */
  retries?: number | null | undefined;
  /**
   * The waits before the retries in turn, each from 1s to 7d; the last one counts for all others.
   * The default is 10s, 1m, 10m, 1h, 6h. Each is lengthened at random by up to a fifth.
   */
  retryDelays?: readonly Duration[] | null | undefined;
  /**
   * After which answers it is sent again: `transient` (the default): 408, 409, 425, 429 and 5xx;
   * `any`: each answer that is not 2xx, redirects too. After no answer it is sent again either way.
   * It needs `retries`.
   */
  retryOn?: RetryOn | null | undefined;
  /**
   * How long one attempt may take, from resolving the name to the last byte: whole seconds from 1s
   * to 30s, the default.
   */
  timeout?: Duration | null | undefined;
  /**
   * The URL that gets a report of how the schedule ended; it is judged as `targetUrl` is.
   * `default`, as in a create without it: the account's `callbackUrl`; null: no report. Costs no
   * credit.
   */
  callbackUrl?: "default" | string | null | undefined;
  /**
   * Which ends are reported: `executed` (the default): completed and failed ones; or `failed`. A
   * cancellation is not reported. Without `callbackUrl`, this holds for the account's, and null
   * leaves it to the account.
   */
  callbackOn?: CallbackOn | null | undefined;
  /**
   * The URL that gets the report if the schedule failed, instead of `callbackUrl`; it is judged as
   * `targetUrl` is. With `callbackUrl` null, only failures are reported. Null: it has none. An
   * account has no default for it.
   */
  failureCallbackUrl?: string | null | undefined;
  /**
   * With `response`, the report has the target's last answer: its headers, up to 16 KiB, and its
   * body, up to 64 KiB unless this installation says otherwise. It counts as stored until the
   * report has arrived. Null: nothing.
   */
  callbackInclude?: CallbackInclude | null | undefined;
  /**
   * The lane whose rate, parallelism and pause it keeps to. Letters, digits, `.`, `_`, `:` and `-`,
   * first a letter or a digit. It is stored unencrypted.
   */
  lane?: string | null | undefined;
  /**
   * An id of your own, by which lists and the log find it. Visible ASCII without spaces, and
   * without a `*` at its end. Need not be unique. It is stored unencrypted.
   */
  reference?: string | null | undefined;
  /**
   * Words of your own, by which lists and the log find it: up to 8, each of 1 to 64 characters.
   * Printable ASCII without commas, and without a space at either end. A label that is given twice
   * counts once.
   */
  labels?: readonly string[] | null | undefined;
  /**
   * With `reference`, if one schedule waits with it: `keep` leaves that one as it is, `replace`
   * gives it this request and time, for no credit. If none waits, a new one is stored.
   */
  onExisting?: "keep" | "replace" | null | undefined;
  /**
   * With `replace`: how long after its creation the schedule is due at the latest, however often it
   * is replaced.
   */
  maxWait?: Duration | null | undefined;
}

/**
 * The fields to change, each replaced as a whole; null clears it. Fields that are left out stay as
 * they are. A masked value is accepted if the whole field is as GET shows it, and then stays. In
 * the result, `expiresAt` must be after `triggerAt`. If `targetUrl` moves to another origin,
 * headers that look like secrets must be given again.
 */
export interface ChangeRequest extends Omit<ScheduleRequest, "targetUrl" | "onExisting" | "maxWait">
  {
  /**
   * Where the request goes: an absolute http or https URL without user name, password, spaces,
   * control characters or backslashes. An address that this installation does not allow is refused
   * now, a name when the request goes out.
   */
  targetUrl?: string | undefined;
}

/**
 * The fields to change; each is replaced as a whole and judged as in a change. Without `triggerAt`
 * and `delay` the replay is due now.
 */
export interface ReplayRequest extends ChangeRequest {}

export interface CallbackRequest {
  /**
   * The URL that gets the report from now on, judged as `targetUrl` is; `default` means the
   * account's. If it is left out, the report goes where it would have gone.
   */
  callbackUrl?: "default" | string | undefined;
}

/**
 * A request, and the rule by which it is sent. Null is the same as absent, but for `callbackUrl`.
 */
export interface RecurringRequest extends Omit<ChangeRequest, "targetUrl" | "triggerAt" | "delay" |
  "expiresAt"> {
  /**
   * A name of your own, unique in the account: a letter or digit, and up to 63 more, or `.`, `_`,
   * `:`, `-`. It is stored unencrypted.
   */
  name?: string | null | undefined;
  /**
   * When, on the clock of `timeZone`: minute, hour, day of the month, month and day of the week, as
   * `0 9 * * 1-5`; with names, ranges, steps, lists, `L`, `LW`, `5L` and `MON#2`.
   */
  cron?: string | null | undefined;
  /** Instead of `cron`: at intervals from `startsAt` on, or from the creation; 1s to 366d. */
  every?: Duration | null | undefined;
  /** The zone of `cron`, as the IANA database names it; UTC if it is left out. */
  timeZone?: string | null | undefined;
  /** Never before this. */
  startsAt?: Moment | null | undefined;
  /** Never after this. */
  endsAt?: Moment | null | undefined;
  /**
   * How long after its time an occurrence may still be sent; then it ends as failed, `Expired
   * before execution`.
   */
  expiresAfter?: Duration | null | undefined;
  /**
   * Where the request goes: an absolute http or https URL without user name, password, spaces,
   * control characters or backslashes. An address that this installation does not allow is refused
   * now, a name when the request goes out.
   */
  targetUrl: string;
}

/**
 * The fields to change, each as a whole, judged as in a change of a schedule; null clears it.
 * Fields that are left out stay as they are.
 */
export interface RecurringChangeRequest extends Omit<RecurringRequest, "targetUrl"> {
  /**
   * Where the request goes: an absolute http or https URL without user name, password, spaces,
   * control characters or backslashes. An address that this installation does not allow is refused
   * now, a name when the request goes out.
   */
  targetUrl?: string | undefined;
  /** While it is paused nothing starts: due schedules wait, and go out afterwards. */
  paused?: boolean | undefined;
  /** When the pause ends by itself; null: it has no end. */
  pausedUntil?: Moment | null | undefined;
  /** Why it is paused. It goes when the pause ends. */
  pauseNote?: string | null | undefined;
}

/** The limits of a lane, as a whole. Null is the same as absent: no limit. */
export interface LaneRequest {
  /** At most so many starts `per`. */
  rate?: number | null | undefined;
  /** The time in which there are at most `rate` starts: 1s to 1d. */
  per?: Duration | null | undefined;
  /**
   * At most so many may start at once after a while without any; 1 if it is left out, and no more
   * than `rate`.
   */
  burst?: number | null | undefined;
  /** At most so many run at a time. */
  parallelism?: number | null | undefined;
  /** For people. It is stored unencrypted. */
  note?: string | null | undefined;
}

/** The settings to change. Settings that are left out stay as they are; null clears one. */
export interface LaneChangeRequest extends LaneRequest {
  /** While it is paused nothing starts: due schedules wait, and go out afterwards. */
  paused?: boolean | undefined;
  /** When the pause ends by itself; null: it has no end. */
  pausedUntil?: Moment | null | undefined;
  /** Why it is paused. It goes when the pause ends. */
  pauseNote?: string | null | undefined;
  /**
   * Null ends the calm that a target asked for with Retry-After. Any other value must be the one
   * that it has.
   */
  calmUntil?: Moment | null | undefined;
}

/** The pause as a whole. Null is the same as absent: it has no end, or no note. */
export interface PauseRequest {
  /** When the pause ends by itself; null: it has no end. */
  pausedUntil?: Moment | null | undefined;
  /** Why it is paused. It goes when the pause ends. */
  pauseNote?: string | null | undefined;
}

/** The settings to change. Settings that are left out stay as they are; null clears one. */
export interface AccountRequest {
  /** While it is paused nothing starts: due schedules wait, and go out afterwards. */
  paused?: boolean | undefined;
  /** When the pause ends by itself; null: it has no end. */
  pausedUntil?: Moment | null | undefined;
  /** Why it is paused. It goes when the pause ends. */
  pauseNote?: string | null | undefined;
  /** The URL that gets reports of schedules that name no `callbackUrl`; null: none. */
  callbackUrl?: string | null | undefined;
  /** Which ends: `executed`, if it is left out, or `failed`. */
  callbackOn?: "executed" | "failed" | null | undefined;
}

export interface RotationRequest {
  /** How long the earlier secrets stay valid: 0s to 7d; a day, if it is left out. */
  keepFor?: Duration | null | undefined;
}

export interface ScheduleFilter {
  /**
   * Only schedules with these statuses, separated by commas; `executed` means `completed,failed`.
   * `failed` alone leaves out those that were replayed.
   */
  status?: OneOrMore<"scheduled" | "completed" | "failed" | "cancelled" | "executed"> | undefined;
  /**
   * Only schedules whose callback has this status; `status` is `executed` by default. Pending ones
   * are ordered by their next attempt, failed ones by when the callback failed; `from` and `to`
   * mean that moment.
   */
  callback?: "pending" | "delivered" | "failed" | undefined;
  /** Only schedules with this exact URL. */
  targetUrl?: string | undefined;
  /** Only schedules of this lane. */
  lane?: string | undefined;
  /**
   * Only schedules with this reference; with `*` at its end, those whose reference begins so.
   * Waiting schedules and dead letters then come by reference, and `from` and `to` only filter.
   */
  reference?: string | undefined;
  /** Only schedules with this label, exactly. */
  label?: string | undefined;
  /** Only occurrences of this recurring schedule. */
  recurringId?: string | undefined;
  /** From this moment on. */
  from?: Moment | undefined;
  /** Before this moment; not before `from`. */
  to?: Moment | undefined;
  /**
   * `true`: only due schedules that cannot start, for the cause in `heldBy`; `false`: only other
   * waiting schedules.
   */
  held?: boolean | undefined;
  /**
   * `asc`: oldest first, the default for waiting schedules, for dead letters by `reference`, and
   * for pending callbacks; `desc`: newest first, the default for all others.
   */
  order?: "asc" | "desc" | undefined;
  /** At most so many in all, however many calls that takes. */
  limit?: number | undefined;
}

export interface LogFilter extends Pick<ScheduleFilter, "from" | "to" | "limit"> {
  /**
   * Only entries of these statuses, a list with commas. `retrying` are attempts that will be
   * repeated, `skipped` are missed times of recurring schedules; `executed` means
   * `completed,failed`, `all` every one.
   */
  status?: OneOrMore<"scheduled" | "retrying" | "completed" | "failed" | "cancelled" | "skipped" |
    "executed" | "all"> | undefined;
  /** Only ends of schedules that are kept and whose callback has this status. */
  callback?: "pending" | "delivered" | "failed" | undefined;
  /**
   * Only the entries of this schedule: its attempts, in order, each with `phases`, and the last
   * with `responseBody`, while they are kept.
   */
  scheduleId?: string | undefined;
  /** Only entries with this exact URL. */
  targetUrl?: string | undefined;
  /** Only entries of this lane. */
  lane?: string | undefined;
  /** Only entries with this reference; with `*` at its end, those whose reference begins so. */
  reference?: string | undefined;
  /** Only entries with this label, exactly. */
  label?: string | undefined;
  /** Only entries of this recurring schedule, `skipped` times included. */
  recurringId?: string | undefined;
  /**
   * `asc`: oldest first, the default with `scheduleId`; `desc`: newest first, the default without.
   */
  order?: "asc" | "desc" | undefined;
}

export interface Period {
  /** From this moment on. */
  from?: Moment | undefined;
  /** Before this moment; not before `from`. */
  to?: Moment | undefined;
}

export interface LaneFilter {
  /** At most so many in all, however many calls that takes. */
  limit?: number | undefined;
}

export interface RecurringFilter {
  /** Only the one of this name. */
  name?: string | undefined;
  /** Only those in this state. */
  state?: "active" | "paused" | "blocked" | "ended" | undefined;
  /** At most so many in all, however many calls that takes. */
  limit?: number | undefined;
}

export interface PreviewRequest {
  /** As in a create. */
  cron?: string | undefined;
  /** Instead of `cron`: a duration, or a number of seconds. */
  every?: Duration | undefined;
  /** The zone of `cron`; UTC if it is left out. */
  timeZone?: string | undefined;
  /** Never before this; without it `every` begins now. */
  startsAt?: Moment | undefined;
  /** Never after this. */
  endsAt?: Moment | undefined;
}

/** Matching schedules that wait; `from` and `to` mean their `triggerAt`. */
export interface CancelFilter {
  /** Only schedules with this exact URL. */
  targetUrl?: string;
  /** Only schedules of this lane. */
  lane?: string;
  /**
   * Only schedules with this reference; with `*` at its end, those whose reference begins so.
   * Waiting schedules and dead letters then come by reference, and `from` and `to` only filter.
   */
  reference?: string;
  /** Only schedules with this label, exactly. */
  label?: string;
  /** Only occurrences of this recurring schedule. */
  recurringId?: string;
  /** From this moment on. */
  from?: Moment;
  /** Before this moment; not before `from`. */
  to?: Moment;
  /** At most so many in all, however many calls that takes. */
  limit?: number;
  /**
   * `true`: only due schedules that cannot start, for the cause in `heldBy`; `false`: only other
   * waiting schedules.
   */
  held?: boolean;
}

/** Dead letters that match, the oldest first; `from` and `to` mean their end. */
export interface ReplayFilter extends Omit<CancelFilter, "held"> {}

/**
 * Matching schedules whose callback has failed or was delivered. `from` and `to` mean the moment
 * when it failed, or the end of a schedule whose callback was delivered.
 */
export interface ResendFilter extends ReplayFilter {
  /** The list that the filter searches. It must be given, unless `ids` are. */
  callback?: "failed" | "delivered";
}

/**
 * A schedule as it was created, and its state. Its outcome is null until an attempt was made; while
 * it waits for another attempt, it is that of the last one.
 */
export interface Schedule {
  /** The id of the schedule. */
  scheduleId: string;
  /** The id that the target sees, the same in every attempt. */
  invocationId: string;
  /** Its status. All but `scheduled` are final. */
  status: Status;
  /** When it was created. */
  createdAt: string;
  /** Where the request goes. Secrets in its query are masked. */
  targetUrl: string;
  /** When it is due. */
  triggerAt: string;
  /** The method of the request. */
  targetMethod: TargetMethod;
  /** The headers that were given. Values of secret ones are masked. */
  targetHeaders: Record<string, string>;
  /** The body, if it was given as a JSON object. */
  targetBody: JsonObject | null;
  /** The body, if it was given as text. */
  targetBodyText: string | null;
  /** The body, if it was given in base64. */
  targetBodyBase64: string | null;
  /** Whether it is sent again if a worker is lost with it, or given up. */
  delivery: Delivery;
  /** The last moment at which it may be sent; null: there is none. */
  expiresAt: string | null;
  /** How often it may be sent again after a failed attempt. */
  retries: number;
  /** The waits before the retries, given or by default; null without `retries`. */
  retryDelays: string[] | null;
  /** After which answers it is sent again. */
  retryOn: RetryOn;
  /** How long one attempt may take. */
  timeout: string;
  /** The URL to which its end is reported; `default`: the account's; null: none. */
  callbackUrl: "default" | string | null;
  /** The ends that are reported; null leaves it to the account. */
  callbackOn: CallbackOn | null;
  /** The URL to which a failure is reported instead; null: there is none. */
  failureCallbackUrl: string | null;
  /** Whether the report has the target's answer (`response`); null: it has not. */
  callbackInclude: CallbackInclude | null;
  /** Its lane. */
  lane: string | null;
  /** Your own id of it. */
  reference: string | null;
  /** Your own words for it. */
  labels: string[];
  /** When the outcome was recorded; null before, and if it was cancelled. */
  executedAt: string | null;
  /** The status of the last answer; 0 without an answer, null without an attempt. */
  statusCode: number | null;
  /** How long the last attempt took. */
  responseTimeMs: number | null;
  /** Why the last attempt failed, or what was odd in its answer; otherwise empty. */
  errorMessage: string | null;
  /**
   * The beginning of the target's answer, as text, if the attempt failed with a body. Bytes that
   * are not UTF-8 are replaced.
   */
  responseBody: string | null;
  /** The type of that body; empty if the target named none. */
  responseContentType: string | null;
  /** The parts of the response time of the last attempt; null if nothing was tried. */
  phases: Phases | null;
  /** How many attempts were made. */
  attempts: number;
  /** When the next attempt is due, after one that failed; otherwise null. */
  nextAttemptAt: string | null;
  /**
   * The cause that keeps it from starting although it is due; null if there is none, and while a
   * worker has it.
   */
  heldBy: HeldBy | null;
  /** The report of its end; null before the end, and if it is not reported. */
  callback: Callback | null;
  /** The recurring schedule that it is an occurrence of. */
  recurringId: string | null;
  /**
   * The time of the rule for which this occurrence was made; null if it was triggered or is a
   * replay.
   */
  slot: string | null;
  /** The schedule that this one replays. */
  replayOf: string | null;
  /** Its last replay. */
  replayedAs: string | null;
  /** Whether it can be replayed. */
  replayable: boolean;
  /** Why it cannot be replayed: it has not ended, or it was cancelled and its body is not kept. */
  notReplayableReason: "body_not_kept" | "not_ended" | null;
}

export interface Created {
  /** The id of the schedule. */
  scheduleId: string;
  /** The id that the target sees, the same in every attempt. */
  invocationId: string;
  /** When it is due. */
  triggerAt: string;
  /** The result, as a sentence for people. */
  message: string;
}

/** The status is `cancelled`; or `failed`, with the outcome of the last attempt, if any. */
export interface Cancelled {
  /** The id of the schedule. */
  scheduleId: string;
  /** The credits that the account has left. */
  creditsRemaining: number;
  /** The result, as a sentence for people. */
  message: string;
  /** `cancelled`; or `failed`, if it was stopped after an attempt. */
  status: Status;
  /** The status of the last answer; 0 without an answer, null without an attempt. */
  statusCode?: number;
  /** How long the last attempt took. */
  responseTimeMs?: number;
  /** Why the last attempt failed, or what was odd in its answer; otherwise empty. */
  errorMessage?: string;
  /** How many attempts were made. */
  attempts?: number;
}

/** One of many that were cancelled, or stopped after an attempt: then its status is `failed`. */
export interface CancelledItem {
  /** The id of the schedule. */
  scheduleId: string;
  /** `cancelled`; or `failed`, if it was stopped after an attempt. */
  status: Status;
}

/** A new schedule, and the one that it replays. */
export interface Replay extends Created {
  /** The schedule that this one replays. */
  replayOf: string;
}

/** One of many that were replayed. */
export interface Replayed {
  /** The id of the schedule. */
  scheduleId: string;
  /** The id that the target sees, the same in every attempt. */
  invocationId: string;
  /** When it is due. */
  triggerAt: string;
  /** The schedule that this one replays. */
  replayOf: string;
}

/**
 * The state of a report. Status code and error are those of the last attempt, and null before the
 * first; the status code is 0 without an answer.
 */
export interface Callback {
  /** `delivered` after a 2xx, `failed` after the last attempt. */
  status: CallbackStatus;
  /** How many attempts were made. */
  attempts: number;
  /** The status of the last answer; 0 without an answer, null without an attempt. */
  statusCode: number | null;
  /** Why the last attempt failed, or what was odd in its answer; otherwise empty. */
  errorMessage: string | null;
  /** When it is sent next; null unless it is pending. */
  nextAttemptAt: string | null;
}

/** The callback of one of many, which is pending again; `nextAttemptAt` is when it is sent. */
export interface Resent {
  /** The id of the schedule. */
  scheduleId: string;
  /** The report of its end; null before the end, and if it is not reported. */
  callback: Callback;
}

/** The end of a schedule, or one attempt; a `skipped` entry belongs to no schedule. */
export interface LogEntry {
  /** The id that the target sees; empty in a `skipped` entry. */
  invocationId: string;
  /** The schedule; empty in a `skipped` entry. */
  scheduleId: string;
  /** When the schedule was created. */
  createdAt: string;
  /** The schedule's `triggerAt`; in a `skipped` entry the first missed time. */
  scheduledAt: string;
  /** When the outcome was recorded; null if there is none. */
  executedAt: string | null;
  /** Where the request goes. Secrets in its query are masked. */
  targetUrl: string;
  /** The method of the request. */
  targetMethod: string;
  /**
   * A status of schedules; or `retrying`, an attempt that will be repeated; or `skipped`, missed
   * times of a recurring schedule.
   */
  status: LogStatus;
  /** The status of the answer; 0 without an answer. */
  statusCode: number;
  /** How long the attempt took. */
  responseTimeMs: number;
  /**
   * Why the attempt failed, what was odd in its answer, or why times were skipped; otherwise empty.
   */
  errorMessage: string;
  /** Which attempt it was, counted from 1. */
  attempt: number;
  /** When the next attempt is due, after one that failed; otherwise null. */
  nextAttemptAt: string | null;
  /** Time from the due time to the first byte sent; null if none was sent. */
  latenessMs: number | null;
  /** The parts of the response time, while they are kept. */
  phases: Phases | null;
  /**
   * With `scheduleId`: the beginning of the answer to the last attempt, if it failed, while the
   * schedule is kept.
   */
  responseBody: string | null;
  /** Its lane. */
  lane: string | null;
  /** Your own id of it. */
  reference: string | null;
  /** Your own words for it. */
  labels: string[];
  /** The recurring schedule, if it belongs to one. */
  recurringId: string | null;
  /** How many times were missed, in a `skipped` entry; otherwise 0. */
  missed: number;
}

export interface Stats {
  /** Schedules that were executed. */
  totalInvocations: number;
  /** Schedules that completed. */
  successfulInvocations: number;
  /** Schedules that failed. */
  failedInvocations: number;
  /** The mean response time, in milliseconds. */
  averageResponseTime: number;
  /** The period that was counted. */
  timeRange: TimeRange;
}

/** A signing secret. */
export interface SigningSecret {
  /** The id of the secret. */
  secretId: string;
  /** The secret: `whsec_` and base64. */
  secret: string;
  /** When it was created. */
  createdAt: string;
  /** When it stops being valid; null until a newer one replaces it. */
  expiresAt: string | null;
}

/** The settings of a lane, null where there is no limit, and its state. */
export interface Lane {
  /** The name of the lane. */
  lane: string;
  /** How many may start in each `per`; null: no limit. */
  rate: number | null;
  /** The time in which `rate` may start. */
  per: string | null;
  /** How many may start at once after a rest. */
  burst: number | null;
  /** How many may run at a time; null: no limit. */
  parallelism: number | null;
  /** Your note. */
  note: string | null;
  /** True: nothing starts. */
  paused: boolean;
  /** When the pause ends by itself; null: it has no end, or there is no pause. */
  pausedUntil: string | null;
  /** The name of the API key that began the pause, or `dashboard`. */
  pausedBy: string | null;
  /** Why it is paused. */
  pauseNote: string | null;
  /** When the calm ends that a target's `Retry-After` began; null: there is none. */
  calmUntil: string | null;
  /**
   * The first cause that keeps due schedules from starting: a pause, a calm, `parallelism` (`full`)
   * or `rate` (`limited`). `open`: there is none.
   */
  state: LaneState;
  /** How many schedules wait in it. */
  waiting: number;
  /** How many of these are due. */
  due: number;
  /** How many schedules workers have. */
  running: number;
  /** When the oldest due schedule became due; null: none is due. */
  oldestDueAt: string | null;
  /**
   * An estimate of when all waiting schedules will have started at this rate; null without a rate,
   * without schedules, and in a pause.
   */
  emptyAt: string | null;
}

/** The schedules that wait in the lane go on without limits. */
export interface ClearedLane {
  /** The name of the lane. */
  lane: string;
  /** How many schedules wait in it. */
  waiting: number;
  /** The result, as a sentence for people. */
  message: string;
}

/** The account's pause and callback, its plan, and what it has. */
export interface Account {
  /** True: nothing starts. */
  paused: boolean;
  /** When the pause ends by itself; null: it has no end, or there is no pause. */
  pausedUntil: string | null;
  /** The name of the API key that began the pause, or `dashboard`. */
  pausedBy: string | null;
  /** Why it is paused. */
  pauseNote: string | null;
  /** The callback of schedules that name none. Secrets in its query are masked. */
  callbackUrl: string | null;
  /** The ends that are reported there; null without a URL. */
  callbackOn: CallbackOn | null;
  /** The account's plan. */
  plan: string;
  /** The requests a second that the plan allows; null: no limit. */
  requestsPerSecond: number | null;
  /** The bytes that the account has stored. */
  storedBytes: number;
  /** The bytes that the plan allows; null: no limit. */
  storedBytesLimit: number | null;
  /** The credits that the account has left. */
  creditsRemaining: number;
  /** How many lanes are set, paused or calm, or have schedules. */
  lanes: number;
  /** How many recurring schedules there are. */
  recurring: number;
}

/** A recurring schedule: its rule, its state, and the request of its occurrences. */
export interface Recurring extends Pick<Schedule, "createdAt" | "targetUrl" | "targetMethod" |
  "targetHeaders" | "targetBody" | "targetBodyText" | "targetBodyBase64" | "delivery" | "retries" |
  "retryDelays" | "retryOn" | "timeout" | "callbackUrl" | "callbackOn" | "failureCallbackUrl" |
  "callbackInclude" | "lane" | "reference" | "labels"> {
  /** The id of the recurring schedule. */
  recurringId: string;
  /** Its name. */
  name: string | null;
  /**
   * Its state: `blocked` if the next occurrence could not be stored, `ended` if no time is left.
   */
  state: RecurringState;
  /** Why it is blocked; otherwise null. */
  reason: string | null;
  /** True: nothing starts. */
  paused: boolean;
  /** When the pause ends by itself; null: it has no end, or there is no pause. */
  pausedUntil: string | null;
  /** The name of the API key that began the pause, or `dashboard`. */
  pausedBy: string | null;
  /** Why it is paused. */
  pauseNote: string | null;
  /** The cron expression; null with `every`. */
  cron: string | null;
  /** The interval; null with `cron`. */
  every: string | null;
  /** The zone of `cron`. */
  timeZone: string;
  /** No occurrence comes before this. */
  startsAt: string | null;
  /** No occurrence comes after this. */
  endsAt: string | null;
  /** How late an occurrence may still be sent. */
  expiresAfter: string | null;
  /** The rule in words. */
  description: string;
  /** The time of the next occurrence; null if there is none. */
  nextAt: string | null;
  /** The occurrence that waits for `nextAt`; null if there is none. */
  scheduleId: string | null;
  /** How many times have passed without an occurrence since it was last blocked. */
  missed: number;
  /** The next five times; null in a list. */
  next: string[] | null;
}

/** The recurring schedule as it is now. */
export interface PutRecurring extends Recurring {
  /** True: all settings were the same before, and nothing changed. */
  unchanged: boolean;
}

/** A recurring schedule that was stored, with its first occurrence. */
export interface CreatedRecurring {
  /** The id of the recurring schedule. */
  recurringId: string;
  /** The first occurrence, due at `nextAt`. */
  scheduleId: string | null;
  /** The time of the next occurrence; null if there is none. */
  nextAt: string | null;
  /** The result, as a sentence for people. */
  message: string;
}

export interface DeletedRecurring {
  /** The id of the recurring schedule. */
  recurringId: string;
  /** The credits that the account has left. */
  creditsRemaining: number;
  /** The result, as a sentence for people. */
  message: string;
}

/** The next ten times, or as many as there are, and the rule in words. */
export interface Preview {
  /** The next ten times, or as many as there are. */
  next: string[];
  /** The rule in words. */
  description: string;
}

/** One bad field of a payload or query, and its fault. */
export interface FieldError {
  /** The name of the field. */
  field: string;
  /** The fault of the field, in a sentence. */
  message: string;
}

/** The report of a schedule's end: the same in all attempts to send it. */
export interface ScheduleEnded {
  /** The event. */
  type: "schedule.completed" | "schedule.failed";
  /** When the outcome was recorded. */
  timestamp: string;
  /** The schedule and its outcome. */
  data: EndedSchedule;
}

/**
 * The parts of the response time, in milliseconds and in this order. A part is null if it did not
 * occur or was not reached: the attempt ended in the last one that is not null.
 */
export interface Phases {
  /** True: an open connection was used, and the next three parts are null. */
  connectionReused: boolean;
  /**
   * Time to resolve the host's name; null for an address, or for a name that was resolved a moment
   * before.
   */
  resolveMs: number | null;
  /** Time to connect, including addresses that did not answer. */
  connectMs: number | null;
  /** Time for the TLS handshake; null over http. */
  tlsMs: number | null;
  /**
   * Time from the request to the first byte of the answer; the whole response time if an open
   * connection answered within a second.
   */
  firstByteMs: number | null;
  /** Time for the rest of the answer; 0 if it came in one piece, null if `firstByteMs` is all. */
  lastByteMs: number | null;
}

/**
 * The cause that keeps a due schedule from starting. Of several causes, it is the first of the
 * list: causes that somebody has to end come before causes that end by themselves.
 */
export interface HeldBy {
  /** The first cause that holds it; wider causes come before narrower ones. */
  cause: HoldCause;
  /** The lane, if the cause is one of a lane. */
  lane: string | null;
  /** When this cause ends; null if nobody knows. */
  until: string | null;
  /** True: `until` is an estimate, by the lane's rate. */
  estimated: boolean;
  /** How many schedules of the lane go first, if the cause is one of a lane. */
  ahead: number | null;
}

/** `from` is inclusive, `to` exclusive. */
export interface TimeRange {
  /** Its beginning. */
  from: string;
  /** Its end, which is not counted. */
  to: string;
}

/**
 * How a schedule ended. `recurringId`, `lane`, `reference` and `labels` are there if it has them;
 * `statusCode` is 0 without an answer, and `errorMessage` says why it failed. Secrets in
 * `targetUrl` are masked. With `callbackInclude` it has the target's answer, if one came; with
 * `responseDropped`, one came and is not kept.
 */
export interface EndedSchedule {
  /** The id of the schedule. */
  scheduleId: string;
  /** The id that the target sees, the same in every attempt. */
  invocationId: string;
  /** The recurring schedule, if it belongs to one. */
  recurringId?: string;
  /** Its lane, if it has one. */
  lane?: string;
  /** Your own id of it, if it has one. */
  reference?: string;
  /** Your own words for it, if it has any. */
  labels?: string[];
  /** Where the request goes. Secrets in its query are masked. */
  targetUrl: string;
  /** The method of the request. */
  targetMethod: string;
  /** When it is due. */
  triggerAt: string;
  /** When the outcome was recorded. */
  executedAt: string;
  /** How it ended. */
  status: "completed" | "failed";
  /** The status of the last answer; 0 without an answer. */
  statusCode: number;
  /** How long the last attempt took. */
  responseTimeMs: number;
  /** Why the last attempt failed, or what was odd in its answer; otherwise empty. */
  errorMessage: string;
  /** How many attempts were made. */
  attempts: number;
  /**
   * The headers of the target's answer: the values of each, in their order, by its name in small
   * letters.
   */
  responseHeaders?: Record<string, string>;
  /** The body of the target's answer, unpacked if it was sent as gzip or deflate. */
  responseBody?: string;
  /** `utf-8`: `responseBody` is the body; `base64`: it has the body so, as that is not UTF-8. */
  responseBodyEncoding?: "utf-8" | "base64";
  /** True: the answer has more than is reported. */
  responseCut?: boolean;
  /**
   * True: an answer came, and is not kept. The account had no room for it, the schedule ended
   * between two attempts, or the report had arrived before it was sent again.
   */
  responseDropped?: boolean;
}

/** Why a request was refused, for programs. The sentence beside it may change; this does not. */
export type Reason = "already_ended" | "already_replayed" | "already_started" | "body_not_kept" |
  "callback_pending" | "damaged" | "destination_not_allowed" | "draining" | "insufficient_credits" |
  "internal_error" | "invalid_field" | "keeps_changing" | "key_reused" | "malformed_request" |
  "method_not_allowed" | "misdirected" | "not_ended" | "not_found" | "outcome_unknown" |
  "overloaded" | "precondition_failed" | "quota_exceeded" | "rate_limited" | "recurring_name_taken"
  | "searches_limited" | "several_waiting" | "store_unavailable" | "suspended" | "timeout" |
  "too_large" | "too_many_lanes" | "too_many_recurring" | "too_many_secrets" | "unauthorized" |
  "unknown_account" | "unknown_recurring" | "unknown_schedule" | "unsupported_encoding" |
  "unsupported_method";

export type TargetMethod = "DELETE" | "GET" | "HEAD" | "OPTIONS" | "PATCH" | "POST" | "PUT";

export type Delivery = "at-least-once" | "at-most-once";

export type RetryOn = "transient" | "any";

/** Which ends a callback reports: all executions, or those that failed. */
export type CallbackOn = "executed" | "failed";

export type CallbackInclude = "response";

/** The status of a schedule. All but `scheduled` are final. */
export type Status = "cancelled" | "completed" | "failed" | "scheduled";

export type CallbackStatus = "delivered" | "failed" | "pending";

/**
 * The status of a log entry. `retrying` is an attempt that failed and is made again; `skipped`
 * stands for times of a recurring schedule at which it had no occurrence.
 */
export type LogStatus = "cancelled" | "completed" | "failed" | "retrying" | "scheduled" | "skipped";

/** Why a lane does not start due schedules: the first reason that fits. */
export type LaneState = "calm" | "full" | "limited" | "open" | "paused";

/** Whether a rule has an occurrence that waits: only an active one has. */
export type RecurringState = "active" | "blocked" | "ended" | "paused";

/**
 * The first cause that keeps a due schedule from starting. Causes that somebody has to end come
 * before causes that end by themselves, and wider causes before narrower ones.
 */
export type HoldCause = "account_paused" | "account_suspended" | "lane_calm" | "lane_parallelism" |
  "lane_paused" | "lane_rate" | "no_worker" | "service_hold";

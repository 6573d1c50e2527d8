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

/** A request, and when it is to be performed. Null is the same as absent, but for `callbackUrl`. */
export interface ScheduleRequest {
  /**
   * Where the request goes: an absolute http or https URL with a host, without user name or
   * password, spaces, control characters or backslashes. An address that this installation does not
   * allow is refused here, a name when the request goes out.
   */
  targetUrl: string;
  /**
   * When the request goes out, unless `delay` says so: ISO 8601. An offset is honoured, no zone
   * means UTC; finer than a millisecond rounds up. At most 24 hours in the past (then it is due at
   * once), and at most five years ahead unless this installation says otherwise.
   */
  triggerAt?: Moment | null;
  /**
   * Instead of `triggerAt`: how long from now the request goes out, by the clock of the store. In
   * `ms`, `s`, `m`, `h` and `d`, as 1h30m, or a whole number of seconds; at most as far ahead as
   * `triggerAt`.
   */
  delay?: Duration | null;
  /** In any letter case. If it is left out, POST with a body, GET without. */
  targetMethod?: TargetMethod | null;
  /**
   * Headers to send, 16 KiB in all. Those of the connection (Host, Content-Length,
   * Transfer-Encoding, Connection, Keep-Alive, TE, Trailer, Upgrade, Expect, Proxy-*) and
   * Postdate-* are refused.
   */
  targetHeaders?: Record<string, string> | null;
  /**
   * Sent as the very JSON text that comes in, with Content-Type: application/json unless a header
   * says otherwise.
   */
  targetBody?: object | null;
  /**
   * Instead of `targetBody`: text, sent as UTF-8, at most 192 KiB, with Content-Type: text/plain;
   * charset=utf-8 unless a header says otherwise.
   */
  targetBodyText?: string | null;
  /**
   * Instead of `targetBody`: any bytes, in base64 with padding (RFC 4648), at most 192 KiB of them,
   * with Content-Type: application/octet-stream unless a header says otherwise.
   */
  targetBodyBase64?: string | null;
  /**
   * Instead of those three, and sent as one of them: an object as `targetBody`, a string as
   * `targetBodyText`, bytes as `targetBodyBase64`.
   */
  body?: Body | null;
  /**
   * If a worker is lost while it has the request: at-least-once (the default) sends it again,
   * at-most-once gives it up as failed.
   */
  delivery?: Delivery | null;
  /**
   * The last moment at which it may still be sent, after triggerAt; later it ends as failed,
   * `Expired before execution`. A retry that would come later is not made.
   */
  expiresAt?: Moment | null;
  /**
   * How often it is sent again after an attempt that failed for now: no answer, or 408, 409, 425,
   * 429 or 5xx. Not at all (0) if it is left out. Any other answer is final. Costs no credit.
   */
  retries?: number | null;
  /**
   * How long after an attempt the next one comes, for each in turn, the last for all others; 10s,
   * 1m, 10m, 1h, 6h if it is left out. Each from 1s to 7d, and lengthened at random by a fifth at
   * most. A 429 or 503 may ask for more, up to a day, with Retry-After. Needs `retries`.
   */
  retryDelays?: readonly Duration[] | null;
  /**
   * How long one attempt may take, from resolving the name to the last byte: whole seconds from 1s
   * to 30s, the default.
   */
  timeout?: Duration | null;
  /**
   * The URL that gets a report of how the schedule ended; it is judged as `targetUrl` is.
   * `default`, as in a create without it: the account's `callbackUrl`; null: no report. Costs no
   * credit.
   */
  callbackUrl?: "default" | string | null;
  /**
   * Which ends are reported: `executed` (the default): completed and failed ones; or `failed`. A
   * cancellation is not reported. Without `callbackUrl`, this holds for the account's, and null
   * leaves it to the account.
   */
  callbackOn?: CallbackOn | null;
  /**
   * The lane that it goes out in. All schedules of a lane together keep to its rate, parallelism
   * and pause. A letter or digit, and up to 63 more, or `.`, `_`, `:`, `-`. It is stored
   * unencrypted.
   */
  lane?: string | null;
  /**
   * An id of your own, by which lists and the log find it; several may have the same one. Visible
   * ASCII without spaces and without a `*` at its end. The request carries it as the header
   * Postdate-Reference. It is stored unencrypted.
   */
  reference?: string | null;
  /**
   * With `reference`: if one schedule waits with that reference, the answer is a 200 with
   * `existing: true`, and costs no credit. `keep` leaves the waiting one as it is, `replace` gives
   * it this request and its time. If none waits, a new one is stored as usual.
   */
  onExisting?: "keep" | "replace" | null;
  /**
   * With `replace`: how long after its creation the schedule is due at the latest, however often it
   * is replaced.
   */
  maxWait?: Duration | null;
}

/**
 * The fields to change, each replaced as a whole; null clears it. Fields that are left out stay as
 * they are. A masked value is accepted if the whole field is as GET shows it, and then stays.
 * Besides the given fields, it is judged whether expiresAt is after triggerAt, and whether headers
 * that look like secrets are given anew where targetUrl moves to another origin.
 */
export interface ChangeRequest extends Omit<ScheduleRequest, "targetUrl" | "onExisting" | "maxWait">
  {
  /**
   * Where the request goes: an absolute http or https URL with a host, without user name or
   * password, spaces, control characters or backslashes. An address that this installation does not
   * allow is refused here, a name when the request goes out.
   */
  targetUrl?: string;
}

/**
 * The fields to change; each is replaced as a whole and judged as in a change. Without `triggerAt`
 * and `delay` the replay is due now.
 */
export interface ReplayRequest extends ChangeRequest {}

export interface CallbackRequest {
  /**
   * The URL that gets the report from now on, judged as `targetUrl` is; `default`: the account's.
   * If it is left out, the report goes where it would have gone.
   */
  callbackUrl?: "default" | string;
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
  name?: string | null;
  /**
   * When, on the clock of `timeZone`: minute, hour, day of the month, month and day of the week, as
   * `0 9 * * 1-5`; with names, ranges, steps, lists, `L` (the last day), `LW`, `5L` and `MON#2`. If
   * both days are restricted, either is enough, unless one begins with `*`. A time that the clock
   * skips comes right after the gap, and a time that it shows twice comes once, unless the minute
   * or the hour begins with `*`: then each time that the clock shows counts, and no other.
   */
  cron?: string | null;
  /** Instead of `cron`: at intervals from `startsAt` on, or from the creation; 1s to 366d. */
  every?: Duration | null;
  /** The zone of `cron`, as the IANA database names it; UTC if it is left out. */
  timeZone?: string | null;
  /** Never before this. */
  startsAt?: Moment | null;
  /** Never after this. */
  endsAt?: Moment | null;
  /**
   * How long after its time an occurrence may still be sent; then it ends as failed, `Expired
   * before execution`.
   */
  expiresAfter?: Duration | null;
  /**
   * Where the request goes: an absolute http or https URL with a host, without user name or
   * password, spaces, control characters or backslashes. An address that this installation does not
   * allow is refused here, a name when the request goes out.
   */
  targetUrl: string;
}

/**
 * The fields to change, each as a whole, judged as in a change of a schedule; null clears it.
 * Fields that are left out stay as they are.
 */
export interface RecurringChangeRequest extends Omit<RecurringRequest, "targetUrl"> {
  /**
   * Where the request goes: an absolute http or https URL with a host, without user name or
   * password, spaces, control characters or backslashes. An address that this installation does not
   * allow is refused here, a name when the request goes out.
   */
  targetUrl?: string;
  /** While it is paused nothing starts: due schedules wait, and go out afterwards. */
  paused?: boolean;
  /** When the pause ends by itself; null: it has no end. */
  pausedUntil?: Moment | null;
  /** Why it is paused. It goes when the pause ends. */
  pauseNote?: string | null;
}

/** The limits of a lane, as a whole. Null is the same as absent: no limit. */
export interface LaneRequest {
  /** At most so many starts `per`. */
  rate?: number | null;
  /** The time in which there are at most `rate` starts: 1s to 1d. */
  per?: Duration | null;
  /**
   * At most so many may start at once after a while without any; 1 if it is left out, and no more
   * than `rate`.
   */
  burst?: number | null;
  /** At most so many run at a time. */
  parallelism?: number | null;
  /** For people. It is stored unencrypted. */
  note?: string | null;
}

/** The settings to change. Those that are left out stay as they are; null clears one. */
export interface LaneChangeRequest extends LaneRequest {
  /** While it is paused nothing starts: due schedules wait, and go out afterwards. */
  paused?: boolean;
  /** When the pause ends by itself; null: it has no end. */
  pausedUntil?: Moment | null;
  /** Why it is paused. It goes when the pause ends. */
  pauseNote?: string | null;
  /**
   * Null ends the calm that a target asked for with Retry-After. Any other value must be the one
   * that it has.
   */
  calmUntil?: Moment | null;
}

/** The pause as a whole. Null is the same as absent: it has no end, or no note. */
export interface PauseRequest {
  /** When the pause ends by itself; null: it has no end. */
  pausedUntil?: Moment | null;
  /** Why it is paused. It goes when the pause ends. */
  pauseNote?: string | null;
}

/** The settings to change. Those that are left out stay as they are; null clears one. */
export interface AccountRequest {
  /** While it is paused nothing starts: due schedules wait, and go out afterwards. */
  paused?: boolean;
  /** When the pause ends by itself; null: it has no end. */
  pausedUntil?: Moment | null;
  /** Why it is paused. It goes when the pause ends. */
  pauseNote?: string | null;
  /** The URL that gets reports of schedules that name no `callbackUrl`; null: none. */
  callbackUrl?: string | null;
  /** Which ends: `executed`, if it is left out, or `failed`. */
  callbackOn?: "executed" | "failed" | null;
}

export interface RotationRequest {
  /** How long the earlier secrets stay valid: 0s to 7d; a day, if it is left out. */
  keepFor?: Duration | null;
}

export interface ScheduleFilter {
  /**
   * Only schedules in these statuses, a list with commas; `executed` means `completed,failed`.
   * `failed` alone leaves out those that were replayed.
   */
  status?: OneOrMore<"scheduled" | "completed" | "failed" | "cancelled" | "executed">;
  /**
   * Only those whose callback stands so; `status` then is `executed`, if it is left out. Pending
   * ones come by when they are sent next, failed ones by when the callback has failed, and `from`
   * and `to` mean that moment.
   */
  callback?: "pending" | "delivered" | "failed";
  /** Only those of this very URL. */
  targetUrl?: string;
  /** Only those of this lane. */
  lane?: string;
  /**
   * Only those of this reference or, with `*` at its end, of all that begin so. Waiting schedules
   * and dead letters come by reference, then by id; `from` and `to` only filter then.
   */
  reference?: string;
  /** Only those of this recurring schedule. */
  recurringId?: string;
  /** From this moment on. It must not be after `to`. */
  from?: Moment;
  /** Up to this moment, which is left out. */
  to?: Moment;
  /**
   * true: only due schedules that something keeps from starting, which `heldBy` names; false: only
   * others. Of those that wait.
   */
  held?: boolean;
  /**
   * `asc`: oldest first, the default for waiting schedules, for dead letters by `reference`, and
   * for pending callbacks; `desc`: newest first, the default for all others.
   */
  order?: "asc" | "desc";
  /** At most so many in all, however many calls that takes. */
  limit?: number;
}

export interface LogFilter extends Pick<ScheduleFilter, "from" | "to" | "limit"> {
  /**
   * Only entries of these statuses, a list with commas; `retrying` are attempts that failed and are
   * made again, `skipped` are times of a recurring schedule without an occurrence; `executed` means
   * `completed,failed`, and `all` every one, also those that are added later.
   */
  status?: OneOrMore<"scheduled" | "retrying" | "completed" | "failed" | "cancelled" | "skipped" |
    "executed" | "all">;
  /** Only ends of schedules that are kept, and whose callback stands so by now. */
  callback?: "pending" | "delivered" | "failed";
  /**
   * Only the entries of this schedule: its attempts, in order, each with `phases`, and the last
   * with `responseBody`, while they are kept.
   */
  scheduleId?: string;
  /** Only entries of this very URL. */
  targetUrl?: string;
  /** Only entries of this lane. */
  lane?: string;
  /** Only entries with this reference or, with `*` at its end, with one that begins so. */
  reference?: string;
  /** Only entries of this recurring schedule, `skipped` times included. */
  recurringId?: string;
  /**
   * `asc`: oldest first, the default with `scheduleId`; `desc`: newest first, the default without.
   */
  order?: "asc" | "desc";
}

export interface Period {
  /** From this moment on. It must not be after `to`. */
  from?: Moment;
  /** Up to this moment, which is left out. */
  to?: Moment;
}

export interface LaneFilter {
  /** At most so many in all, however many calls that takes. */
  limit?: number;
}

export interface RecurringFilter {
  /** Only the one of this name. */
  name?: string;
  /** Only those in this state. */
  state?: "active" | "paused" | "blocked" | "ended";
  /** At most so many in all, however many calls that takes. */
  limit?: number;
}

export interface PreviewRequest {
  /** As in a create. */
  cron?: string;
  /** Instead of `cron`: a duration, or a number of seconds. */
  every?: string;
  /** The zone of `cron`; UTC if it is left out. */
  timeZone?: string;
  /** Never before this; without it `every` begins now. */
  startsAt?: Moment;
  /** Never after this. */
  endsAt?: Moment;
}

/** Matching schedules that wait; `from` and `to` mean their `triggerAt`. */
export interface CancelFilter {
  /** Only those of this very URL. */
  targetUrl?: string | null;
  /** Only those of this lane. */
  lane?: string | null;
  /**
   * Only those of this reference or, with `*` at its end, of all that begin so. Waiting schedules
   * and dead letters come by reference, then by id; `from` and `to` only filter then.
   */
  reference?: string | null;
  /** Only those of this recurring schedule. */
  recurringId?: string | null;
  /** From this moment on. It must not be after `to`. */
  from?: Moment | null;
  /** Up to this moment, which is left out. */
  to?: Moment | null;
  /** At most so many in all, however many calls that takes. */
  limit?: number | null;
  /**
   * true: only due schedules that something keeps from starting, which `heldBy` names; false: only
   * others. Of those that wait.
   */
  held?: boolean | null;
}

/** Dead letters that match, the oldest first; `from` and `to` mean their end. */
export interface ReplayFilter extends Omit<CancelFilter, "held"> {}

/**
 * Schedules that match and whose callback has failed, `from` and `to` mean when, or was delivered:
 * then they mean the end of the schedule.
 */
export interface ResendFilter extends ReplayFilter {
  callback?: "failed" | "delivered";
}

/**
 * A schedule as it was asked for, and its state. The fields of its outcome are null until it has
 * been executed, or an attempt has failed that is made again: then they are that attempt's, and
 * nextAttemptAt is the time of the next one. heldBy says what keeps it from starting though it is
 * due; null if nothing does, and while a worker has it. replayOf is the schedule that it replays,
 * replayedAs its own last replay. responseBody is the beginning of the target's answer, if it
 * failed with a body; bytes that are not UTF-8 are replaced. phases is null if nothing was tried.
 * notReplayableReason says why replayable is false: it has not ended, or was cancelled and its body
 * was not kept. callbackUrl is default where the account's counts, and null if no end is reported;
 * callbackOn is null where the account says which ends. callback is null until the end, and if that
 * is not reported. recurringId is the recurring schedule that it is an occurrence of, slot the time
 * by its rule, null if it was triggered or is a replay.
 */
export interface Schedule {
  scheduleId: string;
  invocationId: string;
  status: Status;
  createdAt: string;
  targetUrl: string;
  triggerAt: string;
  targetMethod: TargetMethod;
  targetHeaders: Record<string, string>;
  targetBody: JsonObject | null;
  targetBodyText: string | null;
  targetBodyBase64: string | null;
  delivery: Delivery;
  expiresAt: string | null;
  retries: number;
  retryDelays: string[] | null;
  timeout: string;
  callbackUrl: "default" | string | null;
  callbackOn: CallbackOn | null;
  lane: string | null;
  reference: string | null;
  executedAt: string | null;
  statusCode: number | null;
  responseTimeMs: number | null;
  errorMessage: string | null;
  responseBody: string | null;
  responseContentType: string | null;
  phases: Phases | null;
  attempts: number;
  nextAttemptAt: string | null;
  heldBy: HeldBy | null;
  callback: Callback | null;
  recurringId: string | null;
  slot: string | null;
  replayOf: string | null;
  replayedAs: string | null;
  replayable: boolean;
  notReplayableReason: "body_not_kept" | "not_ended" | null;
}

export interface Created {
  scheduleId: string;
  invocationId: string;
  triggerAt: string;
  message: string;
}

/** The status is `cancelled`; or `failed`, with the outcome of the last attempt, if any. */
export interface Cancelled {
  scheduleId: string;
  creditsRemaining: number;
  message: string;
  status: Status;
  statusCode?: number;
  responseTimeMs?: number;
  errorMessage?: string;
  attempts?: number;
}

/** One of many that were cancelled; or stopped after an attempt, then its status is `failed`. */
export interface CancelledItem {
  scheduleId: string;
  status: Status;
}

/** A new schedule, and what it is a replay of. */
export interface Replay extends Created {
  replayOf: string;
}

/** One of many that were replayed. */
export interface Replayed {
  scheduleId: string;
  invocationId: string;
  triggerAt: string;
  replayOf: string;
}

/**
 * The status of the callback: delivered, once its URL has answered with a 2xx; failed after the
 * last attempt. statusCode, 0 without an answer, and errorMessage are those of the last attempt,
 * and null before the first. nextAttemptAt is null unless it is pending.
 */
export interface Callback {
  status: CallbackStatus;
  attempts: number;
  statusCode: number | null;
  errorMessage: string | null;
  nextAttemptAt: string | null;
}

/** The callback of one of many, which is pending again; `nextAttemptAt` is when it is sent. */
export interface Resent {
  scheduleId: string;
  callback: Callback;
}

/**
 * latenessMs counts from the due time to the first byte sent, and is null if none was. Attempts of
 * a schedule that was retried have phases. With scheduleId, the last attempt also has the phases
 * and the responseBody that GET /schedule/{scheduleId} shows, while they are kept. A skipped entry
 * belongs to no schedule: its ids are empty, missed counts the times of the recurring schedule that
 * had no occurrence, scheduledAt is the first of them, and errorMessage says why.
 */
export interface LogEntry {
  invocationId: string;
  scheduleId: string;
  createdAt: string;
  scheduledAt: string;
  executedAt: string | null;
  targetUrl: string;
  targetMethod: string;
  status: LogStatus;
  statusCode: number;
  responseTimeMs: number;
  errorMessage: string;
  attempt: number;
  nextAttemptAt: string | null;
  latenessMs: number | null;
  phases: Phases | null;
  responseBody: string | null;
  lane: string | null;
  reference: string | null;
  recurringId: string | null;
  missed: number;
}

export interface Stats {
  totalInvocations: number;
  successfulInvocations: number;
  failedInvocations: number;
  averageResponseTime: number;
  timeRange: TimeRange;
}

/** A signing secret; `expiresAt` is null until a newer one replaces it. */
export interface SigningSecret {
  secretId: string;
  secret: string;
  createdAt: string;
  expiresAt: string | null;
}

/**
 * The settings of a lane, null where there is no limit, and its state. state is the first of these
 * that keeps due schedules from starting: paused; calm, until calmUntil, because a target asked for
 * it with Retry-After; full, as many run as parallelism allows; limited by the rate; or open. Of
 * the schedules that wait in it, waiting are all and due those that are due, the oldest since
 * oldestDueAt; running are those that workers have. pausedBy is the name of an API key, or
 * dashboard. emptyAt is an estimate of when all waiting schedules will have started at this rate:
 * null without a rate, without schedules, and in a pause.
 */
export interface Lane {
  lane: string;
  rate: number | null;
  per: string | null;
  burst: number | null;
  parallelism: number | null;
  note: string | null;
  paused: boolean;
  pausedUntil: string | null;
  pausedBy: string | null;
  pauseNote: string | null;
  calmUntil: string | null;
  state: LaneState;
  waiting: number;
  due: number;
  running: number;
  oldestDueAt: string | null;
  emptyAt: string | null;
}

/** `waiting` schedules go on without limits. */
export interface ClearedLane {
  lane: string;
  waiting: number;
  message: string;
}

/**
 * Whether the account is paused, until when (null: no end), and the name of the API key that paused
 * it. callbackUrl and callbackOn are for schedules that name no callbackUrl; null: none. A value in
 * the query of the URL that looks like a secret is masked. plan is the account's, and
 * requestsPerSecond and storedBytesLimit are what it allows; null: no limit. lanes counts those
 * that are set, paused, calm or have something waiting or running, and recurring the recurring
 * schedules.
 */
export interface Account {
  paused: boolean;
  pausedUntil: string | null;
  pausedBy: string | null;
  pauseNote: string | null;
  callbackUrl: string | null;
  callbackOn: CallbackOn | null;
  plan: string;
  requestsPerSecond: number | null;
  storedBytes: number;
  storedBytesLimit: number | null;
  creditsRemaining: number;
  lanes: number;
  recurring: number;
}

/**
 * A recurring schedule: its rule, its state, and the request of its occurrences. description is the
 * rule in words. scheduleId is the occurrence that waits for nextAt, null while there is none.
 * state is active; paused; blocked, if the next occurrence could not be stored, for the reason
 * given; or ended, if no time is left. pausedBy is the name of an API key, or dashboard. missed
 * counts the times that went by since it was blocked last. next are the next five times, of one
 * that is read by its id, else null. Values that look like secrets, in the headers or in the query
 * of a URL, are masked.
 */
export interface Recurring extends Pick<Schedule, "createdAt" | "targetUrl" | "targetMethod" |
  "targetHeaders" | "targetBody" | "targetBodyText" | "targetBodyBase64" | "delivery" | "retries" |
  "retryDelays" | "timeout" | "callbackUrl" | "callbackOn" | "lane" | "reference"> {
  recurringId: string;
  name: string | null;
  state: RecurringState;
  reason: string | null;
  paused: boolean;
  pausedUntil: string | null;
  pausedBy: string | null;
  pauseNote: string | null;
  cron: string | null;
  every: string | null;
  timeZone: string;
  startsAt: string | null;
  endsAt: string | null;
  expiresAfter: string | null;
  description: string;
  nextAt: string | null;
  scheduleId: string | null;
  missed: number;
  next: string[] | null;
}

/** The recurring schedule as it is now; unchanged: it was so before, and nothing moved. */
export interface PutRecurring extends Recurring {
  unchanged: boolean;
}

/** `scheduleId` is the first occurrence, due at `nextAt`. */
export interface CreatedRecurring {
  recurringId: string;
  scheduleId: string | null;
  nextAt: string | null;
  message: string;
}

export interface DeletedRecurring {
  recurringId: string;
  creditsRemaining: number;
  message: string;
}

/** The next ten times, or as many as there are, and the rule in words. */
export interface Preview {
  next: string[];
  description: string;
}

/** One bad field of a payload or query, and its fault. */
export interface FieldError {
  field: string;
  message: string;
}

/** The report of a schedule's end: the same in all attempts to send it. */
export interface ScheduleEnded {
  type: "schedule.completed" | "schedule.failed";
  timestamp: string;
  data: EndedSchedule;
}

/**
 * How long each phase of the last attempt took, in milliseconds. A phase is null if it did not
 * occur or was not reached. The phases follow on one another in this order; the attempt ended in
 * the last that is not null. resolveMs is null if the host is an address, or was looked up a moment
 * before. resolveMs, connectMs and tlsMs are null if connectionReused is true. firstByteMs counts
 * from the request, lastByteMs from the first byte of the answer. If a request completed within a
 * second over a kept connection, firstByteMs is the whole response time, and lastByteMs is null.
 */
export interface Phases {
  connectionReused: boolean;
  resolveMs: number | null;
  connectMs: number | null;
  tlsMs: number | null;
  firstByteMs: number | null;
  lastByteMs: number | null;
}

/**
 * What keeps a due schedule from starting. Of several causes it is the first of the list: what
 * somebody has to end comes before what ends by itself. until is when this cause ends, null where
 * nobody knows; estimated says that it is no more than an estimate, by the lane's rate. Of the
 * causes in a lane, lane is its name, and ahead is how many of it go first.
 */
export interface HeldBy {
  cause: HoldCause;
  lane: string | null;
  until: string | null;
  estimated: boolean;
  ahead: number | null;
}

/** `from` is inclusive, `to` exclusive. */
export interface TimeRange {
  from: string;
  to: string;
}

/**
 * How a schedule ended. `recurringId`, `lane` and `reference` are there if it has them;
 * `statusCode` is 0 without an answer, and `errorMessage` says why it failed. Secrets in
 * `targetUrl` are masked.
 */
export interface EndedSchedule {
  scheduleId: string;
  invocationId: string;
  recurringId?: string;
  lane?: string;
  reference?: string;
  targetUrl: string;
  targetMethod: string;
  triggerAt: string;
  executedAt: string;
  status: "completed" | "failed";
  statusCode: number;
  responseTimeMs: number;
  errorMessage: string;
  attempts: number;
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

/** Which ends a callback reports: all executions, or those that failed. */
export type CallbackOn = "executed" | "failed";

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
 * What keeps a due schedule from starting: the first that holds. What somebody has to end comes
 * before what ends by itself, and in both the wider before the narrower.
 */
export type HoldCause = "account_paused" | "account_suspended" | "lane_calm" | "lane_parallelism" |
  "lane_paused" | "lane_rate" | "no_worker" | "service_hold";

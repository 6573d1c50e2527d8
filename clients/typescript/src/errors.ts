import type { FieldError, Reason, Status } from "./schema.js";

/**
 * Base of all errors; `message` is the service's sentence. Thrown itself where no subclass fits, as
 * for a 500.
 */
export class PostdateError extends Error {
  override name = "PostdateError";
  /** The HTTP status; null without an answer. */
  status: number | null = null;
  /** The service's word for programs; null without an answer of its own. */
  reason: Reason | null = null;
  /** The bad fields. */
  details: FieldError[] = [];
  /** By which the operator of the service finds the request in its log. */
  requestId: string | null = null;
  /** The schedule's status, where that is the reason of a Conflict. */
  scheduleStatus: Status | null = null;
  /** In seconds, of RateLimited and Unavailable; null if the service did not say. */
  retryAfter: number | null = null;
  /** Set in the result for one of many. */
  scheduleId: string | null = null;
  /** With this a repeat of a create or replay costs no second credit. */
  idempotencyKey: string | null = null;
  /** The call may have been carried out, or a part of it. */
  maybeDone = false;
}

/** The service refuses the request; `details` has the bad fields. Nothing was stored. */
export class InvalidRequest extends PostdateError {
  override name = "InvalidRequest";
}

/** The API key is missing, unknown or inactive. */
export class Unauthorized extends PostdateError {
  override name = "Unauthorized";
}

/** The account has too few credits; none was taken. */
export class InsufficientCredits extends PostdateError {
  override name = "InsufficientCredits";
}

/** An operator has suspended the account; due schedules wait until it is resumed. */
export class Suspended extends PostdateError {
  override name = "Suspended";
}

/** There is no such schedule, or it is another account's, or it ended long ago. */
export class NotFound extends PostdateError {
  override name = "NotFound";
}

/** It has ended, or a worker has it, as `scheduleStatus` says; otherwise `reason` says why. */
export class Conflict extends PostdateError {
  override name = "Conflict";
}

/**
 * It is not as `ifMatch` or `ifNoneMatch` asks for; nothing was changed. With `maybeDone` an
 * earlier attempt of this call may have changed it, whose answer was lost.
 */
export class PreconditionFailed extends PostdateError {
  override name = "PreconditionFailed";
}

/** More requests than the plan allows. */
export class RateLimited extends PostdateError {
  override name = "RateLimited";
}

/** The service cannot serve at the moment. */
export class Unavailable extends PostdateError {
  override name = "Unavailable";
}

/** No answer: the service cannot be reached, or the connection was lost. */
export class ConnectionFailed extends PostdateError {
  override name = "ConnectionFailed";
}

const KINDS: Record<number, typeof PostdateError> = {
  400: InvalidRequest,
  401: Unauthorized,
  402: InsufficientCredits,
  403: Suspended,
  404: NotFound,
  409: Conflict,
  412: PreconditionFailed,
  413: InvalidRequest,
  415: InvalidRequest,
  422: InvalidRequest,
  429: RateLimited,
  // 502 and 504 are how a proxy says that a connection was lost.
  502: Unavailable,
  503: Unavailable,
  504: Unavailable,
};

interface Refusal {
  error?: unknown;
  reason?: Reason;
  requestId?: string;
  details?: FieldError[];
  status?: Status | null;
}

/** The error of an answer; `body` is its JSON, whatever that is. */
export function errorOf(status: number, body: unknown, phrase = "", retryAfter?: number | null) {
  const said = (typeof body === "object" && body ? body : {}) as Refusal;
  // A proxy's error may be an object.
  const sentence = typeof said.error === "string" ? said.error : "";
  const kind = KINDS[status] ?? PostdateError;
  const error = new kind(sentence || `The server answered ${status} ${phrase}`.trimEnd());
  error.status = status;
  error.reason = said.reason ?? null;
  error.requestId = said.requestId ?? null;
  if (Array.isArray(said.details)) error.details = said.details;
  if (error instanceof Conflict) error.scheduleStatus = said.status ?? null;
  error.retryAfter = retryAfter ?? null;
  // A proxy gives no reason: it cannot know.
  const nothingDone = said.reason === "overloaded" || said.reason === "store_unavailable";
  error.maybeDone = error instanceof Unavailable && !nothingDone;
  return error;
}

/** For an answer that cannot be the service's. */
export function strangeAnswer(why: string, maybeDone = false) {
  const error = new PostdateError(`The answer does not come from Postdate: ${why}`);
  error.maybeDone = maybeDone;
  return error;
}

/**
 * The TypeScript client of Postdate: HTTP requests, performed at a chosen future time.
 *
 *     const postdate = new Postdate({ url: "http://127.0.0.1:8000", apiKey });
 *     await postdate.schedule({ targetUrl: "https://example.com/hook", delay: "1h" });
 */
export { Buffer, type BufferOptions } from "./buffer.js";
export * from "./client.js";
export {
  type CallOptions,
  type CreateOptions,
  type MatchOptions,
  type Options,
  type SetOptions,
} from "./calls.js";
export {
  Conflict,
  ConnectionFailed,
  InsufficientCredits,
  InvalidRequest,
  NotFound,
  PostdateError,
  PreconditionFailed,
  RateLimited,
  Suspended,
  Unauthorized,
  Unavailable,
} from "./errors.js";
export type { List, Page } from "./list.js";
export type { Result } from "./many.js";
export type {
  Account,
  AccountRequest,
  Callback,
  CallbackOn,
  CallbackRequest,
  CallbackStatus,
  Cancelled,
  CancelFilter,
  ChangeRequest,
  ClearedLane,
  CreatedRecurring,
  DeletedRecurring,
  Delivery,
  Duration,
  FieldError,
  HeldBy,
  HoldCause,
  Lane,
  LaneChangeRequest,
  LaneRequest,
  LaneState,
  LogEntry,
  LogFilter,
  LogStatus,
  Moment,
  NewSchedule,
  PauseRequest,
  Period,
  Phases,
  Preview,
  PreviewRequest,
  Reason,
  Recurring,
  RecurringChangeRequest,
  RecurringFilter,
  RecurringRequest,
  RecurringState,
  Replay,
  ReplayFilter,
  ReplayRequest,
  Replayed,
  ResendFilter,
  Resent,
  RotationRequest,
  Schedule,
  ScheduleEnded,
  ScheduleFilter,
  SigningSecret,
  Stats,
  Status,
} from "./schema.js";

"""What each member of an answer, and of a report, says: the descriptions of the document."""

from __future__ import annotations

from api.schema.field import Schema

# By a member's name in all bodies, or by the body and the name where it says something else there.
_MEANINGS = {
    "scheduleId": "The id of the schedule.",
    "invocationId": "The id that the target sees, the same in every attempt.",
    "triggerAt": "When it is due.",
    "message": "The result, as a sentence for people.",
    "nextCursor": "The `cursor` of the next page; null at the end.",
    "creditsRemaining": "The credits that the account has left.",
    "error": "A sentence for people. It may change.",
    "reason": "A word for programs.",
    "requestId": "The id of this request, as in the header `Postdate-Request-Id`.",
    "code": "The status that this item would have got in a call of its own.",
    "status": "Its status. All but `scheduled` are final.",
    "schedules": "An item for each schedule, in order.",
    "existing": "True: a schedule with this reference waited, and was kept or replaced.",
    "replayOf": "The schedule that this one replays.",
    "createdAt": "When it was created.",
    # A request, as it was given.
    "targetUrl": "Where the request goes. Secrets in its query are masked.",
    "targetMethod": "The method of the request.",
    "targetHeaders": "The headers that were given. Values of secret ones are masked.",
    "targetBody": "The body, if it was given as a JSON object.",
    "targetBodyText": "The body, if it was given as text.",
    "targetBodyBase64": "The body, if it was given in base64.",
    "delivery": "Whether it is sent again if a worker is lost with it, or given up.",
    "expiresAt": "The last moment at which it may be sent; null: there is none.",
    "retries": "How often it may be sent again after a failed attempt.",
    "retryDelays": "The waits before the retries, given or by default; null without `retries`.",
    "timeout": "How long one attempt may take.",
    "callbackUrl": "The URL to which its end is reported; `default`: the account's; null: none.",
    "callbackOn": "The ends that are reported; null leaves it to the account.",
    "failureCallbackUrl": "The URL to which a failure is reported instead; null: there is none.",
    "callbackInclude": "Whether the report has the target's answer (`response`); null: it has not.",
    "lane": "Its lane.",
    "reference": "Your own id of it.",
    # A schedule.
    "executedAt": "When the outcome was recorded; null before, and if it was cancelled.",
    "statusCode": "The status of the last answer; 0 without an answer, null without an attempt.",
    "responseTimeMs": "How long the last attempt took.",
    "errorMessage": "Why the last attempt failed, or what was odd in its answer; otherwise empty.",
    "responseBody": "The beginning of the target's answer, as text, if the attempt failed with a "
    "body. Bytes that are not UTF-8 are replaced.",
    "responseContentType": "The type of that body; empty if the target named none.",
    "phases": "The parts of the response time of the last attempt; null if nothing was tried.",
    "attempts": "How many attempts were made.",
    "nextAttemptAt": "When the next attempt is due, after one that failed; otherwise null.",
    "heldBy": "The cause that keeps it from starting although it is due; null if there is none, "
    "and while a worker has it.",
    "callback": "The report of its end; null before the end, and if it is not reported.",
    "recurringId": "The recurring schedule that it is an occurrence of.",
    "slot": "The time of the rule for which this occurrence was made; null if it was triggered or "
    "is a replay.",
    "replayedAs": "Its last replay.",
    "replayable": "Whether it can be replayed.",
    "notReplayableReason": "Why it cannot be replayed: it has not ended, or it was cancelled and "
    "its body is not kept.",
    "connectionReused": "True: an open connection was used, and the next three parts are null.",
    "resolveMs": "Time to resolve the host's name; null for an address, or for a name that was "
    "resolved a moment before.",
    "connectMs": "Time to connect, including addresses that did not answer.",
    "tlsMs": "Time for the TLS handshake; null over http.",
    "firstByteMs": "Time from the request to the first byte of the answer; the whole response time "
    "if an open connection answered within a second.",
    "lastByteMs": "Time for the rest of the answer; 0 if it came in one piece, null if "
    "`firstByteMs` is all.",
    "HeldByBody.cause": "The first cause that holds it; wider causes come before narrower ones.",
    "HeldByBody.lane": "The lane, if the cause is one of a lane.",
    "until": "When this cause ends; null if nobody knows.",
    "estimated": "True: `until` is an estimate, by the lane's rate.",
    "ahead": "How many schedules of the lane go first, if the cause is one of a lane.",
    "CallbackBody.status": "`delivered` after a 2xx, `failed` after the last attempt.",
    "CallbackBody.nextAttemptAt": "When it is sent next; null unless it is pending.",
    "CancelledBody.status": "`cancelled`; or `failed`, if it was stopped after an attempt.",
    "CancelledItemBody.status": "`cancelled`; or `failed`, if it was stopped after an attempt.",
    "UncancelledBody.status": "The status of the schedule, with the code 409; otherwise null.",
    "UnsentBody.status": "The status of the schedule, with the code 409; otherwise null.",
    "ConflictBody.status": "The status of the schedule, if the conflict is about one.",
    "occurrencesLeft": "How many next occurrences of recurring schedules matched and were left "
    "out.",
    # The log and the statistics.
    "logs": "The entries of this page.",
    "LogEntryBody.scheduleId": "The schedule; empty in a `skipped` entry.",
    "LogEntryBody.invocationId": "The id that the target sees; empty in a `skipped` entry.",
    "LogEntryBody.createdAt": "When the schedule was created.",
    "LogEntryBody.status": "A status of schedules; or `retrying`, an attempt that will be "
    "repeated; or `skipped`, missed times of a recurring schedule.",
    "scheduledAt": "The schedule's `triggerAt`; in a `skipped` entry the first missed time.",
    "LogEntryBody.executedAt": "When the outcome was recorded; null if there is none.",
    "LogEntryBody.statusCode": "The status of the answer; 0 without an answer.",
    "LogEntryBody.responseTimeMs": "How long the attempt took.",
    "LogEntryBody.errorMessage": "Why the attempt failed, what was odd in its answer, or why times "
    "were skipped; otherwise empty.",
    "attempt": "Which attempt it was, counted from 1.",
    "latenessMs": "Time from the due time to the first byte sent; null if none was sent.",
    "LogEntryBody.phases": "The parts of the response time, while they are kept.",
    "LogEntryBody.responseBody": "With `scheduleId`: the beginning of the answer to the last "
    "attempt, if it failed, while the schedule is kept.",
    "LogEntryBody.recurringId": "The recurring schedule, if it belongs to one.",
    "LogEntryBody.missed": "How many times were missed, in a `skipped` entry; otherwise 0.",
    "totalInvocations": "Schedules that were executed.",
    "successfulInvocations": "Schedules that completed.",
    "failedInvocations": "Schedules that failed.",
    "averageResponseTime": "The mean response time, in milliseconds.",
    "timeRange": "The period that was counted.",
    "TimeRangeBody.from": "Its beginning.",
    "TimeRangeBody.to": "Its end, which is not counted.",
    # Signing secrets.
    "secrets": "The valid secrets, newest first.",
    "secretId": "The id of the secret.",
    "secret": "The secret: `whsec_` and base64.",
    "SecretBody.expiresAt": "When it stops being valid; null until a newer one replaces it.",
    # Lanes, the account and their pauses.
    "lanes": "The lanes of this page.",
    "LaneBody.lane": "The name of the lane.",
    "ClearedLaneBody.lane": "The name of the lane.",
    "rate": "How many may start in each `per`; null: no limit.",
    "per": "The time in which `rate` may start.",
    "burst": "How many may start at once after a rest.",
    "parallelism": "How many may run at a time; null: no limit.",
    "note": "Your note.",
    "paused": "True: nothing starts.",
    "pausedUntil": "When the pause ends by itself; null: it has no end, or there is no pause.",
    "pausedBy": "The name of the API key that began the pause, or `dashboard`.",
    "pauseNote": "Why it is paused.",
    "calmUntil": "When the calm ends that a target's `Retry-After` began; null: there is none.",
    "LaneBody.state": "The first cause that keeps due schedules from starting: a pause, a calm, "
    "`parallelism` (`full`) or `rate` (`limited`). `open`: there is none.",
    "waiting": "How many schedules wait in it.",
    "due": "How many of these are due.",
    "running": "How many schedules workers have.",
    "oldestDueAt": "When the oldest due schedule became due; null: none is due.",
    "emptyAt": "An estimate of when all waiting schedules will have started at this rate; null "
    "without a rate, without schedules, and in a pause.",
    "AccountBody.callbackUrl": "The callback of schedules that name none. Secrets in its query "
    "are masked.",
    "AccountBody.callbackOn": "The ends that are reported there; null without a URL.",
    "plan": "The account's plan.",
    "requestsPerSecond": "The requests a second that the plan allows; null: no limit.",
    "storedBytes": "The bytes that the account has stored.",
    "storedBytesLimit": "The bytes that the plan allows; null: no limit.",
    "AccountBody.lanes": "How many lanes are set, paused or calm, or have schedules.",
    "AccountBody.recurring": "How many recurring schedules there are.",
    # Recurring schedules.
    "recurring": "The recurring schedules of this page.",
    "RecurringBody.recurringId": "The id of the recurring schedule.",
    "CreatedRecurringBody.recurringId": "The id of the recurring schedule.",
    "DeletedRecurringBody.recurringId": "The id of the recurring schedule.",
    "name": "Its name.",
    "RecurringBody.state": "Its state: `blocked` if the next occurrence could not be stored, "
    "`ended` if no time is left.",
    "RecurringBody.reason": "Why it is blocked; otherwise null.",
    "cron": "The cron expression; null with `every`.",
    "every": "The interval; null with `cron`.",
    "timeZone": "The zone of `cron`.",
    "startsAt": "No occurrence comes before this.",
    "endsAt": "No occurrence comes after this.",
    "expiresAfter": "How late an occurrence may still be sent.",
    "description": "The rule in words.",
    "nextAt": "The time of the next occurrence; null if there is none.",
    "RecurringBody.scheduleId": "The occurrence that waits for `nextAt`; null if there is none.",
    "CreatedRecurringBody.scheduleId": "The first occurrence, due at `nextAt`.",
    "RecurringBody.missed": "How many times have passed without an occurrence since it was last "
    "blocked.",
    "RecurringBody.next": "The next five times; null in a list.",
    "PreviewBody.next": "The next ten times, or as many as there are.",
    "unchanged": "True: all settings were the same before, and nothing changed.",
    # The report of an end, and the rest.
    "HealthBody.status": "`ok`, or `ready`.",
    "ScheduleEnded.type": "The event.",
    "ScheduleEnded.timestamp": "When the outcome was recorded.",
    "ScheduleEnded.data": "The schedule and its outcome.",
    "EndedSchedule.recurringId": "The recurring schedule, if it belongs to one.",
    "EndedSchedule.lane": "Its lane, if it has one.",
    "EndedSchedule.reference": "Your own id of it, if it has one.",
    "EndedSchedule.status": "How it ended.",
    "EndedSchedule.statusCode": "The status of the last answer; 0 without an answer.",
    "EndedSchedule.executedAt": "When the outcome was recorded.",
    "responseHeaders": "The headers of the target's answer: the values of each, in their order, by "
    "its name in small letters.",
    "EndedSchedule.responseBody": "The body of the target's answer, unpacked if it was sent as "
    "gzip or deflate.",
    "responseBodyEncoding": "`utf-8`: `responseBody` is the body; `base64`: it has the body so, as "
    "that is not UTF-8.",
    "responseCut": "True: the answer has more than is reported.",
    "responseDropped": "True: an answer came, and is not kept. The account had no room for it, the "
    "schedule ended between two attempts, or the report had arrived before it was sent again.",
    "FieldError.field": "The name of the field.",
    "FieldError.message": "The fault of the field, in a sentence.",
}
# A body that has all members of another one.
_AS = {"SetRecurringBody": "RecurringBody"}


def describe(name: str, schema: Schema) -> None:
    """Gives each member of the body of this name its description, unless it has one."""
    for member, each in schema.get("properties", {}).items():
        if "description" not in each:
            own = _MEANINGS.get(f"{_AS.get(name, name)}.{member}")
            each["description"] = own or _MEANINGS[member]

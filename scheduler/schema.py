"""The fields of a schedule, in one table: how each is named, written, bounded and described. The
API, its document, the forms of the dashboard, the command line and the Python client derive from
it. Pure, and quick to import.

A field that the target alone needs is a row here, an attribute of `scheduler.models.Request`, and
`make schema`. A text, a duration and a field that Postdate itself uses also need a rule of their
own in `api.schema.fields`.
"""

from __future__ import annotations

from scheduler.durations import DAY_MS, format_duration
from scheduler.field_rows import FieldRow, Group, Kind
from scheduler.lanes import LANE_PATTERN, LONGEST_LANE
from scheduler.references import LABEL_PATTERN, LONGEST_REFERENCE, MOST_LABELS, REFERENCE_PATTERN
from scheduler.target.http import METHODS

LONGEST_URL = 8192
# What clients write as `callbackUrl` for the URL of the account.
DEFAULT = "default"
LONGEST_TIMEOUT_S = 30
MOST_RAW_BODY_BYTES = 192 * 1024
MOST_RETRIES = 20
MOST_DELAYS = 20
SHORTEST_DELAY_MS, LONGEST_DELAY_MS = 1000, 7 * DAY_MS
# Where a schedule names none: ten seconds, a minute, ten, an hour, six.
USUAL_DELAYS_MS = (10_000, 60_000, 600_000, 3_600_000, 21_600_000)
_USUAL_DELAYS = ", ".join(map(format_duration, USUAL_DELAYS_MS))

FIELDS = (
    FieldRow(
        name="targetUrl",
        attribute="url",
        kind=Kind.URL,
        option="url",
        description="Where the request goes: an absolute http or https URL without user name, "
        "password, spaces, control characters or backslashes. An address that this installation "
        "does not allow is refused now, a name when the request goes out.",
        label="Where to",
        group=Group.WHAT,
        examples=("https://example.com/webhooks/orders",),
        longest=LONGEST_URL,
        required=True,
    ),
    FieldRow(
        name="triggerAt",
        attribute="trigger_at_ms",
        kind=Kind.MOMENT,
        option="at",
        description="When the request goes out, unless `delay` says so. At most 24 hours in the "
        "past (then it is due at once), and five years ahead unless this installation says "
        "otherwise. Parts of a millisecond round up.",
        label="Time",
        hint="At most 24 hours in the past; then it is due at once.",
        group=Group.WHEN,
        required=True,
        instead="A recurring schedule has none: cron or every says when, from startsAt on.",
    ),
    FieldRow(
        name="delay",
        attribute="trigger_at_ms",
        kind=Kind.DURATION,
        option="delay",
        description="Instead of `triggerAt`: how long from now the request goes out, by the "
        "clock of the store; at most as far ahead as `triggerAt`.",
        help="As --in, but by Postdate's clock instead of this machine's.",
        label="Delay",
        hint="From now, by the clock of Postdate.",
        group=Group.WHEN,
        placeholder="10m",
        examples=("1h30m", 10),
        minimum=0,
        required=True,
        instead="A recurring schedule has none: startsAt says from when on.",
    ),
    FieldRow(
        name="targetMethod",
        attribute="method",  # None stands for the default of the body
        kind=Kind.CHOICE,
        option="method",
        description="In any letter case. If it is left out, POST with a body, GET without.",
        help="[default: POST with a body, GET without]",
        label="Method",
        group=Group.WHAT,
        choices=tuple(sorted(METHODS)),
        choice="TargetMethod",
        words=(("", "POST or GET, by the body"), *((each, each) for each in sorted(METHODS))),
    ),
    FieldRow(
        name="targetHeaders",
        attribute="headers",
        kind=Kind.HEADERS,
        option="headers",
        description="Headers to send, 16 KiB in all. Refused are `Host`, `Content-Length`, "
        "`Transfer-Encoding`, `Connection`, `Keep-Alive`, `TE`, `Trailer`, `Upgrade`, `Expect`, "
        "`Proxy-*`, `Postdate-*` and `webhook-*`.",
        label="Headers",
        hint="One a line, 16 KiB in all.",
        placeholder="X-Order: 8412",
        examples=({"X-Order": "ord_8412"},),
        default={},
    ),
    FieldRow(
        name="targetBody",
        attribute="body",
        kind=Kind.OBJECT,
        option="json",
        description="A JSON object, sent exactly as it was written, with `Content-Type: "
        "application/json` unless a header says otherwise.",
        label="Body",
        group=Group.WHAT,
        examples=({"order": "ord_8412", "action": "remind"},),
        sets=(("body_kind", "json"),),
    ),
    FieldRow(
        name="targetBodyText",
        attribute="body",
        kind=Kind.TEXT,
        option="text",
        description="Instead of `targetBody`: text, sent as UTF-8, at most 192 KiB, with "
        "Content-Type: text/plain; charset=utf-8 unless a header says otherwise.",
        label="Body",
        group=Group.WHAT,
        examples=("status=due&order=8412",),
        longest=MOST_RAW_BODY_BYTES,
        sets=(("body_kind", "text"),),
    ),
    FieldRow(
        name="targetBodyBase64",
        attribute="body",
        kind=Kind.BASE64,
        option="data",
        description="Instead of `targetBody`: any bytes, in base64 with padding (RFC 4648), "
        "at most 192 KiB of them, with Content-Type: application/octet-stream unless a header "
        "says otherwise.",
        label="Body",
        group=Group.WHAT,
        examples=("AAEC/w==",),
        sets=(("body_kind", "binary"),),
    ),
    FieldRow(
        name="delivery",
        attribute="delivery",
        kind=Kind.CHOICE,
        option="delivery",
        description="If a worker is lost while it has the request: at-least-once (the default) "
        "sends it again, at-most-once gives it up as failed.",
        help="If a worker is lost while it has the request: send it again, or give it up."
        "  [default: at-least-once]",
        label="If a worker is lost",
        group=Group.FAILS,
        choices=("at-least-once", "at-most-once"),
        choice="Delivery",
        words=(("", "send it again"), ("at-most-once", "give it up: at most once")),
        default="at-least-once",
    ),
    FieldRow(
        name="expiresAt",
        attribute="expires_at_ms",
        kind=Kind.MOMENT,
        option="expires_at",
        description="The last moment at which it may still be sent, after triggerAt; later "
        "it ends as failed, `Expired before execution`. A retry that would come later is not "
        "made.",
        help="The last moment at which it may be fired; as --at.",
        label="Expires at",
        hint="The last moment at which it may still be sent.",
        instead="A recurring schedule has none: expiresAfter counts from each of its times.",
    ),
    FieldRow(
        name="retries",
        attribute="retries",
        kind=Kind.WHOLE,
        option="retries",
        description="How often it is sent again after no answer, or after 408, 409, 425, 429 or "
        "5xx; 0 if it is left out. Any other answer is final, unless `retryOn` is `any`. A retry "
        "costs no credit.",
        help="How often it is sent again after no answer, 408, 409, 425, 429 or 5xx.  [default: 0]",
        label="Retries",
        group=Group.FAILS,
        examples=(5,),
        minimum=0,
        maximum=MOST_RETRIES,
        default=0,
    ),
    FieldRow(
        name="retryDelays",
        attribute="retry_delays_ms",
        kind=Kind.DURATIONS,
        option="retry_delays",
        description="The waits before the retries in turn, each from 1s to 7d; the last one "
        f"counts for all others. The default is {_USUAL_DELAYS}. Each is lengthened at random by "
        "up to a fifth.",
        help="The waits before the retries; the last one counts for all others.  "
        f"[default: {_USUAL_DELAYS.replace(' ', '')}]",
        label="Waits before retries",
        group=Group.FAILS,
        placeholder=_USUAL_DELAYS,
        examples=(("10s", "1m", "10m"),),
        longest=MOST_DELAYS,
        minimum=SHORTEST_DELAY_MS // 1000,
    ),
    FieldRow(
        name="retryOn",
        attribute="retry_on",
        kind=Kind.CHOICE,
        option="retry_on",
        description="After which answers it is sent again: `transient` (the default): 408, 409, "
        "425, 429 and 5xx; `any`: each answer that is not 2xx, redirects too. After no answer it "
        "is sent again either way. It needs `retries`.",
        help="Retry after 408, 409, 425, 429 and 5xx, or after any answer that is not 2xx.  "
        "[default: transient]",
        label="Retry after",
        hint="After which answers it is sent again.",
        group=Group.FAILS,
        examples=("any",),
        choices=("transient", "any"),
        choice="RetryOn",
        words=(("", "408, 409, 425, 429 and 5xx"), ("any", "any answer that is not 2xx")),
        default="transient",
    ),
    FieldRow(
        name="timeout",
        attribute="timeout_s",
        kind=Kind.SECONDS,
        option="timeout",
        description="How long one attempt may take, from resolving the name to the last byte: "
        f"whole seconds from 1s to {LONGEST_TIMEOUT_S}s, the default.",
        help=f"How long one attempt may take: whole seconds, 1s to {LONGEST_TIMEOUT_S}s.  "
        f"[default: {LONGEST_TIMEOUT_S}s]",
        label="Timeout",
        examples=("5s", 5),
        minimum=1,
        maximum=LONGEST_TIMEOUT_S,
        default=LONGEST_TIMEOUT_S,
    ),
    FieldRow(
        name="callbackUrl",
        attribute="callback_url",
        kind=Kind.URL,
        option="callback_url",
        description="The URL that gets a report of how the schedule ended; it is judged as "
        "`targetUrl` is. `default`, as in a create without it: the account's `callbackUrl`; null: "
        "no report. Costs no credit.",
        label="Callback to",
        hint="The URL that gets a report of how the schedule ended.",
        group=Group.REPORTS,
        placeholder="as the account says",
        examples=("https://example.com/webhooks/ended", DEFAULT, None),
        choices=(DEFAULT,),
        longest=LONGEST_URL,
        default="",  # NO_URL
    ),
    FieldRow(
        name="callbackOn",
        attribute="callback_on",
        kind=Kind.CHOICE,
        option="callback_on",
        description="Which ends are reported: `executed` (the default): completed and failed "
        "ones; or `failed`. A cancellation is not reported. Without `callbackUrl`, this "
        "holds for the account's, and null leaves it to the account.",
        help="Report each end, or only a failure.  [default: executed]",
        label="It reports",
        group=Group.REPORTS,
        choices=("executed", "failed"),
        choice="CallbackOn",
        words=(("", "every end"), ("failed", "only failures"), ("none", "nothing")),
    ),
    FieldRow(
        name="failureCallbackUrl",
        attribute="failure_callback_url",
        kind=Kind.URL,
        option="failure_callback_url",
        description="The URL that gets the report if the schedule failed, instead of "
        "`callbackUrl`; it is judged as `targetUrl` is. With `callbackUrl` null, only failures are "
        "reported. Null: it has none. An account has no default for it.",
        help="Where its end is reported if it failed, instead of --callback.",
        label="Failures to",
        hint="The URL that gets the report of a failure, if it is another one.",
        group=Group.REPORTS,
        placeholder="the same",
        examples=("https://example.com/webhooks/failed",),
        longest=LONGEST_URL,
    ),
    FieldRow(
        name="callbackInclude",
        attribute="callback_include",
        kind=Kind.CHOICE,
        option="callback_include",
        description="With `response`, the report has the target's last answer: its headers, up to "
        "16 KiB, and its body, up to 64 KiB unless this installation says otherwise. It counts as "
        "stored until the report has arrived. Null: nothing.",
        help="Report the target's answer, too.",
        label="It includes",
        hint="The headers and the body of the target's last answer.",
        group=Group.REPORTS,
        examples=("response",),
        choices=("response",),
        choice="CallbackInclude",
        words=(("", "the outcome"), ("response", "the target's answer, too")),
    ),
    FieldRow(
        name="lane",
        attribute="lane",
        kind=Kind.TEXT,
        option="lane",
        description="The lane whose rate, parallelism and pause it keeps to. Letters, digits, "
        "`.`, `_`, `:` and `-`, first a letter or a digit. It is stored unencrypted.",
        help="The lane whose rate, parallelism and pause it keeps to: postdate lane --help.",
        label="Lane",
        placeholder="invoices",
        examples=("billing",),
        pattern=LANE_PATTERN,
        longest=LONGEST_LANE,
    ),
    FieldRow(
        name="reference",
        attribute="reference",
        kind=Kind.TEXT,
        option="reference",
        description="An id of your own, by which lists and the log find it. Visible ASCII without "
        "spaces, and without a `*` at its end. Need not be unique. It is stored unencrypted.",
        help="An id of your own, such as order-17, to find it by.",
        label="Reference",
        group=Group.FOUND,
        placeholder="order-17",
        examples=("order-8412",),
        pattern=REFERENCE_PATTERN,
        longest=LONGEST_REFERENCE,
    ),
    FieldRow(
        name="labels",
        attribute="labels",
        kind=Kind.TEXTS,
        option="labels",
        description=f"Words of your own, by which lists and the log find it: up to {MOST_LABELS}, "
        "each of 1 to 64 characters. Printable ASCII without commas, and without a space at "
        "either end. A label that is given twice counts once.",
        help=f"A word of your own to find it by, as often as needed, up to {MOST_LABELS}.",
        label="Labels",
        hint=f"Up to {MOST_LABELS} words of your own, with commas between.",
        group=Group.FOUND,
        placeholder="reminders, eu",
        examples=(("reminders", "eu"),),
        pattern=LABEL_PATTERN,
        longest=MOST_LABELS,
        default=(),
    ),
)
# Fields of a create alone: they keep or replace the schedule that waits with its reference.
ON_EXISTING = (
    FieldRow(
        name="onExisting",
        attribute="",
        kind=Kind.CHOICE,
        option="on_existing",
        description="With `reference`, if one schedule waits with it: `keep` leaves that one as it "
        "is, `replace` gives it this request and time, for no credit. If none waits, a new one is "
        "stored.",
        help="If one waits with this --reference, keep it as it is, or replace its request and"
        " time, for no credit.  [default: schedule another]",
        label="If one waits with it",
        group=Group.FOUND,
        examples=("replace",),
        choices=("keep", "replace"),
        words=(
            ("", "schedule another"),
            ("keep", "keep that one"),
            ("replace", "replace that one"),
        ),
    ),
    FieldRow(
        name="maxWait",
        attribute="",
        kind=Kind.DURATION,
        option="max_wait",
        description="With `replace`: how long after its creation the schedule is due at the "
        "latest, however often it is replaced.",
        help="With --on-existing replace: the longest wait after the first create.",
        label="Longest wait",
        group=Group.FOUND,
        placeholder="10m",
        examples=("10m", 600),
        minimum=0,
    ),
)
NAMED = {row.name: row for row in (*FIELDS, *ON_EXISTING)}

"""Mutants of the QStash door, and of the fields that came with it, as mutants.py reads them."""

DOOR = r"""
@ api/qstash/headers.py tests/qstash/test_headers.py
# a message has no retries unless it asks for them
~ own.get("retries", [-3-]{+0+})
# most answers other than 2xx are final
~ retry_on=RetryOn.[-ANY-]{+TRANSIENT+}
# an Upstash-Delay is forgotten
~ now_ms[- + (delay_ms or 0)-]),
# callbacks have no answer of the target
~ with_response=[-True-]{+False+}
@ api/qstash/headers.py tests/qstash/test_publish.py -k ten_minutes
# a message is deduplicated for a day
~ _ONCE_KEPT_MS = [-600_000-]{+86_400_000+}
@ api/qstash/messages.py tests/qstash/test_messages.py -k 'cancelled or shown_for'
# a message that was cancelled before counts once more
~ [-.repeated-]{+.recurring_id+}
# a message can be read for a minute after its end
~ _SHOWN_MS = [-10_000-]{+60_000+}
@ api/qstash/flow_control.py tests/qstash/test_flow_control.py
# the limits of a message change pinned ones
~ for each in (PARALLELISM, RATE)[- if not before.is_pinned(each)-]]
@ scheduler/qstash/redacted.py tests/qstash/test_redacted.py
# the other bodies are redacted
~ "body" {+not +}in
@ scheduler/qstash/callbacks.py tests/qstash/test_callbacks.py
# every end is reported in the way of a failure
~ has_own = [-failed and -]wish is not None
@ scheduler/qstash/heeded.py tests/worker/whole/test_messages.py -k tried_again
# another status than 489 ends a message
~ _NEVER_STATUS = [-489-]{+499+}
# Upstash-NonRetryable-Error says nothing
~ (status_code == _NEVER_STATUS[- or retry_after == NEVER-])
@ scheduler/qstash/signing.py tests/worker/test_message_signatures.py
# a token is of this second, which a receiver's clock may not have reached
~ _BEHIND_S = [-1-]{+0+}
# tokens of a worker have one name in common
~ [-next(self._numbers)-]{+0+}
@ scheduler/qstash/sent.py tests/worker/test_message_signatures.py
# attempts that were lost count as retries
~ [-retry.number if retry else 0-]{+invocation.attempt - 1+}
# a callback has the id of its message
~ if [-invocation.is_callback-]{+False+} else
@ worker/signatures.py tests/worker/test_message_signatures.py -k other_requests
# requests that are no messages are signed as messages
~ [-door is None-]{+door == b""+}:
@ worker/send/outcome.py tests/worker/test_retries.py
# retryOn is not asked
~ 500 <= code < 600[- or request.retry_on is RetryOn.ANY-]
@ worker/send/answer.py tests/worker/send/test_response.py
# headers of an answer without a bound
~ if [-self._left_bytes < 0-]{+False+}:
@ worker/holdings.py tests/worker/test_holdings.py
# answers for callbacks take no room of their account
~ (self._response_bytes if [-is_asked-]{+False+} else 0)
@ scheduler/store/queries/listing.py tests/api/calls/test_filters.py
# a label is no filter of schedules
~ if [-self.label is not None and self.label not in request.labels-]{+False+}:
@ scheduler/store/log/logs.py tests/api/calls/test_filters.py
# a label is no filter of the log
~ if [-self.label is not None and self.label not in one.labels-]{+False+}:
@ scheduler/store/lifecycle/callback/reports.py tests/store/lifecycle/callback/test_responses.py -k valkey
# a report does not say that the answer is not kept
~ return {"response_dropped": True} if [-is_gone-]{+False+} else {}
"""

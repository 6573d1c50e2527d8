"""Mutants of the API, the dashboard, the commands and the client, as mutants.py reads them."""

API = r"""
@ api/fair_queue.py tests/api/test_fair_queue.py
# no request waits for its turn
~ return [-account is not None and self._over_s(account) > _FREE_S-]{+False+}
# what an account took is not forgotten
~ account.over_s = max(0.0, account.over_s[- - (now_s - account.at_s) * _FREE_SHARE-])
# the loop has no rounds after a long step
~ rounds = [-_ROUNDS if took_s > _SHORT_S else -]0
# an account that comes late has all turns until it has had as much time as the others
~ [-account.served_s = max(account.served_s, self._served_s)-]{+pass+}
# of one account the oldest request goes first
~ entry = [-payer.taken_s-]{+0.0+}, next(self._numbers), payer, turn
# each account has the turn as often, however long its steps are
~ account.served_s += [-payer.owed_s-]{+1+}
# a turn that was given up is kept
~ if [-not turn.done():  # else its request was given up-]{+True:+}
@ api/dashboard/attention/needs.py tests/dashboard/test_attention.py
# all is well, though something could not be read
~ return not self.needs and [-not self.unread-]{+True+}
@ api/dashboard/causes.py tests/dashboard/operators/test_audit.py
# a request is said to be late for another lane's pause
~ if [-each.lane in ("", late.lane)-]{+True+}
# a cause is said to have what a wider one has already
~         left = [-rest-]{+left+}
# what has no part in a lateness is said to be its cause
~ if sum(parts) * 10 >= [-whole_ms-]{+0+}
# a chart of all requests tells a lane's pause
~ if each.lane in [-("", lane)-]{+("", each.lane)+} and
# what overlaps is counted twice
~ taken_ms = _length([-_joined(parts, 0)-]{+parts+})
@ api/dashboard/operators/audit.py tests/dashboard/operators/test_audit.py
# the audit is shown to everybody
~ [-judged_operator(await signed_in(request))-]{+await signed_in(request)+}
@ api/dashboard/requests/filters.py tests/dashboard/test_requests.py
# what is still to come is late
~ [-to_ms = now_ms + 1 if to_ms is None else min(to_ms, now_ms + 1)-]{+pass+}
# a sort is no search, and costs the account nothing
~ late_ms=self.late_ms[- or 0 if self.by_lateness else self.late_ms-],
@ api/door/fast_path.py tests/api/door/test_fast_path.py
# a head with a name that it may not have is taken for known
~ and [-kind.may_have(values)-]{+True+}
# a request that comes behind a fast one is answered before it
~ if [-self._fast is not None-]{+False+}:
~             self._behind += data
# a known head is enough, whatever its body's length
~ if [-len(data) != end + size or -]size > min(
# a process that ends drops the answer under way
~ if [-self._fast is None-]{+True+}:
~             super().shutdown()
# a refused create is counted against the rate once more
~ created[-, self._refusal-] = None[-, (error.with_traceback(None), rates)-]
@ api/calls/stats.py tests/api/schema/test_query.py
# the log shows retrying and skipped entries to those who did not ask for them
~ EXECUTIONS if query["callback"] else [-LOGGED_BY_DEFAULT-]{+()+}
@ api/calls/recurring.py tests/api/calls/test_recurring.py -k name
# any word before a colon is taken for name:
~ if [-prefix != "name" or -]not is_lane(name):
# one that was created by its name is answered as one that was changed
~ return JsonResponse([-201 if done.created else -]200, body
@ scheduler/store/recurring/recurring.py tests/store/recurring/test_recurring_owner.py -k 'put and not redis'
# a PUT that was carried out, and whose reply was lost, says that nothing moved
~ unchanged = after is None[- and look == 0-]
@ api/calls/schedule.py tests/api/door/test_direct.py
# beyond the rate, bodies are read before the key is judged
~ [-store.api_keys.forget(key)-]{+pass+}  # the next
@ api/door/http11.py tests/api/door/test_http11.py
# a trailer counts as a header
~ if [-self.part is not ReadState.BODY-]{+True+}:
~             super().on_header(name, value)
# the body behind an offer to upgrade is the next request
~ if [-self._skipped_body-]{+False+}:
~                 framing
# what is refused takes the answers before it along
- if not self.is_served:
-             self.end(rejection)
+ self.end(rejection)
@ api/auth.py tests/api/test_auth.py
# of two headers with different keys the first counts
~ return named [-if named == borne else named +-]{+or+} borne
# of two API keys the first counts
~ if [-len(keys) > 1-]{+False+}:
@ cli/operators.py tests/cli/test_backup.py
# what is not due yet is ended after a restore
~ if not since_ms <= until_ms[- <= now_ms-]:
# a restore takes a span that ends before it begins
~ if not [-since_ms <= -]until_ms <= now_ms:
# others may read a backup
~ directory.mkdir([-mode=0o700, -]parents=True)
# a file is rewritten while it is copied
~ [-async with store.system.rewrites_held_back()-]{+if True+}:
@ api/schema/items.py tests/api/schema/test_items.py
# an item is due when the one before it is
~ if{+ not+} self._time[- != (item.trigger_at, item.delay)-]:
# an item gets the headers of the one before it
~ if self._headers [-!= item.target_headers-]{+== _NULL+}:
# an item is sent as often as the one before it
~ _rest_of = attrgetter(*[-_REST-]{+(name for name in _REST if name != "retries")+})
# an item may have any reference
~ if [-item.reference is not None-]{+False+}:
# an item may have any lane
~ [-rules.lane(item.lane, self._rules, self._now_ms)-]{+pass+}
# an item in a lane is delivered at least once
~ item.reference, item.lane[-, self._delivery-])
# of a host that was judged before, a mask is not looked for
~ [- or "%" in url-]:
# a port that may not be reached is judged by another of its host
- if place not in self._places
+ hosts = {each[1].split(":")[0] for each in self._places}
+         if place is None or place[1].split(":")[0] not in hosts
# an item has the method of the one before it
~ if [-method != self._method-]{+not self._name+}:
# an item behind another of its host may have a URL of any length
~ if not is_alike[- or len(url) > LONGEST_URL-]:
# an item keeps or replaces as the one before it does
~ if[- ways !=-] self._ways{+ == (UNSET, UNSET)+}:
# an item without a reference may mean one that waits
~ if [-item.reference is None-]{+False+}:
# an item is reported where the one before it is
~ _rest_of = attrgetter(*[-_REST-]{+(name for name in _REST if name != "callbackUrl")+})
@ scheduler/store/stored.py tests/api/schema/test_items.py
# a worker finds another moment in a request than that by which it is due
- packed[:head] + _encode(due_ms) + rest
+ packed
@ api/schema/items.py tests/api/test_traces.py
# the trace of a batch is not stored
~ [-with_trace(parsed, self._trace)-]{+parsed+}
@ api/calls/batch.py tests/api/test_tally.py
# unpaid items of a batch are not counted
~ [-refused[_REST[created.rest].reason] += rest-]{+pass+}
@ api/door/fast_path.py tests/api/door/test_fast_path.py
# an answer of the fast path has no request id
~ ID_LINE = [-HEADER + b"-]{+b"x+}: %b
@ api/errors.py tests/faults/test_cuts.py -k pauseRecurring
# a call that was carried out in part says that nothing was done
~ [-error = outcome(error)-]{+pass+}
@ api/errors.py tests/api/calls/test_schedule.py
# the log of a fault lacks the request's id
~ request_id=[-request_id-]{+""+},
@ api/calls/batch.py tests/api/calls/test_batch.py
# the items of a batch list all their faults
- unlisted -= listed
@ api/dashboard/viewer/sign_in.py tests/dashboard/test_writes.py
# a link is redeemed from any page
- judge_origin(request)
-     form = await read_form(request)
-     store =
+ form = await read_form(request)
+     store =
# a browser is signed in from any page
- judge_origin(request)
-     form = await read_form(request)
-     email,
+ form = await read_form(request)
+     email,
@ api/dashboard/operators/accounts.py tests/dashboard/test_writes.py
# any account grants credits
- judged_operator(viewer)
-     account_id
+ account_id
@ api/dashboard/operators/holds.py tests/dashboard/operators/test_system.py
# a worker that is silent since before the hold counts as drained
~         settled = [-each.heard_at_ms >= since_ms + _SETTLED_AFTER_MS-]{+True+}
@ api/dashboard/viewer/session.py tests/dashboard/operators/test_impersonation.py
# the holder of any account looks at another one
~     if [-not viewer.account.operator or -]parse_sharded(account_id, "acc") is None:
@ api/dashboard/routes.py tests/dashboard/operators/test_impersonation.py
# an operator who looks at an account writes there
-         guards=[_reads_only],
@ api/dashboard/keys.py tests/dashboard/test_writes.py
# the holder of any account deactivates an API key
- key = await _own_key(request, viewer, key_id)
-     await service_of(request).store.api_keys.deactivate(key.key_id, viewer.who)
+ await service_of(request).store.api_keys.deactivate(key_id, viewer.who)
@ api/dashboard/keys.py tests/dashboard/test_pages.py -k at_once
# signing secrets end at once without a question
~ if [-not keep_ms and not form.get("confirmed")-]{+False+}:
@ api/dashboard/lanes.py tests/dashboard/test_lanes.py -k two_tabs
# of two tabs the second overwrites what the first has set
~ wanted = [-Precondition.of(read) if read else -]ALWAYS
@ api/dashboard/recurring/composer.py tests/dashboard/recurring/test_recurring_form.py -k two_tabs
# of two people who change a recurring schedule the second overwrites what the first has set
~ name, changed[-, wanted=wanted-])
# a preview gives a form the right to overwrite what another has set
~ now_etag[- if met_a_change else given.get("etag", now_etag)-]
@ api/dashboard/requests/composer.py tests/dashboard/test_carried_over.py -k two_people
# of two people who edit a request that waits the second overwrites what the first has set
~ schedule_id, changed[-, wanted=wanted-])
@ api/dashboard/requests/form.py tests/dashboard/recurring/test_recurring_form.py -k secrets
# a secret that a form does not show goes to another target
~ if "targetHeaders" in found[- and "targetUrl" not in found-]:
# a change of one header takes a secret that its form does not show
- {name: kept.get(name, v) if v == MASK else v for name, v in headers.items()}
+ {name: v for name, v in headers.items() if v != MASK}
@ api/dashboard/requests/bulk.py tests/dashboard/recurring/test_recurring.py -k missed
# times that a recurring schedule missed are acted on as if they were requests
~ for each in found[- if each.schedule_id-]
@ api/dashboard/requests/bulk.py tests/dashboard/test_bulk_actions.py -k all_matches
# all that match the list of a bulk action's replays are all schedules
~ if [-wanted.bulk and form.get("scope") == "matching"-]{+False+}:
@ api/dashboard/requests/bulk.py tests/dashboard/test_bulk_actions.py -k found_again
# the future belongs to what a bulk action was asked for
~ until_ms = [-min(int(until), now_ms) if is_search else now_ms-]{+2**47+}
@ api/bulk_actions/runner.py tests/api/bulk_actions/test_runner.py -k dies_after
# another process acts on others than those that were begun
~ if [-not bulk.progress.plan and -]bulk.state is State.RUNNING:
@ api/bulk_actions/acts.py tests/api/bulk_actions/test_runner.py -k dies_after
# a shift is counted from where the one before left a schedule
- return self._changed(bulk.asked, row).of(before)
+ return self._changed(bulk.asked, row._replace(trigger_at_ms=before.trigger_at_ms)).of(before)
# who asked for no lane gets one that has no name
~ return in_lane(asked.lane[-, self._rules-]{+ or "", self._rules+}, now_ms)
@ api/bulk_actions/found.py tests/api/bulk_actions/test_runner.py -k moment_of_the_press
# what is created while a bulk action runs is of it
~ return [-ids.created_at_ms(entry.schedule_id) <= asked.until_ms-]{+True+}
@ api/bulk_actions/acts.py tests/api/bulk_actions/test_runner.py -k beyond_the_rate
# a bulk action gives up callbacks that come too fast
~ if isinstance(each.refusal, [-TooManyResends-]{+Bulk+}):
@ api/calls/bulk.py tests/api/schema/test_callbacks.py -k beyond_the_rate
# a call that can send nothing says that it has done so
~ if limited is not None and None [-not-] in refusals:
@ api/bulk_actions/runner.py tests/api/bulk_actions/test_runner.py -k credits
# without credits a bulk action goes on being refused
~ if [-why and not progress.is_planned-]{+False+}:
@ api/bulk_actions/runner.py tests/api/bulk_actions/test_runner.py -k give_way
# a bulk action's searches keep those of the pages waiting
~ query[-, gives_way=True-]
@ api/dashboard/viewer/csrf.py tests/dashboard/test_writes.py
# the holder of a suspended account writes
~ if [-viewer.account.suspended and not even_suspended-]{+False+}:
@ cli/customer/apply/plan.py tests/cli/customer/apply/test_apply.py -k somebody
# a file overwrites what somebody has changed since it was compared
~ if self.etag is None else [-{"if_match": self.etag}-]{+{}+}
# a file replaces what somebody has created since it was not there
~ return [-{"if_none_match": "*"}-]{+{}+} if self.etag is None else
@ cli/customer/apply/plan.py tests/cli/customer/apply/test_apply.py -k prune
# what no file owns is removed
~ return name is not None[- and self._asked.owned(name)-] and (kind, name) not in
@ cli/customer/apply/plan.py tests/cli/customer/apply/test_apply.py -k 'run or field or masks'
# a secret that is another one is not set
~ return self.action is not Action.KEEP[- or masked-]
# true is as good as 1
~ if [-_text(old[name]) != _text(wanted.shown[name])-]{+old[name] != wanted.shown[name]+}
@ cli/customer/apply/document.py tests/cli/customer/apply/test_files.py
# an alias counts once, however often it is named
~ if self._weight > [-_MOST_WEIGHT-]{+10 * _MOST_WEIGHT+}:
# a variable's value is searched for variables
~ return _VARIABLE.sub(value_of, [-text-]{+_VARIABLE.sub(value_of, text)+})
@ clients/python/postdate/mcp/server.py tests/client/mcp -k 'reads or repeat'
# a server that only reads writes
~ for tool in TOOLS[- if write or not tool.writes-]}
# a repeat costs a second credit
~ key = [-self._unknown.setdefault(digest, uuid.uuid4().hex)-]{+uuid.uuid4().hex+}
# a further create is taken for a repeat
-             raise
-         self._unknown.pop(digest, None)
+             raise
@ clients/python/postdate/buffer.py tests/client/test_buffer.py
# a batch that may be stored goes again in halves
~ error.status_code in _NOTHING_STORED[- and not error.maybe_done-]
@ clients/python/postdate/buffer.py tests/client/test_forks.py -k buffer
# a fork sends what the buffer of its parent holds
~ if [-self._pid != os.getpid()-]{+False+}:
@ clients/python/postdate/modes.py tests/client/test_forks.py -k connections
# a fork has the pool of its parent
~ made = [-self._made.get(pid)-]{+next(iter(self._made.values()))+}
~         if
@ clients/python/postdate/transport.py tests/client/test_forks.py -k connections
# a fork closes the connections of its parent
~ if [-self._pid == os.getpid()-]{+True+}:
@ clients/python/postdate/patience.py tests/client/test_turns.py
# the patience of a call runs while it waits for a connection
- self._deadline_s += monotonic() - self._asked_s
@ clients/python/postdate/calls.py tests/client/test_options.py
# closing a copy of a client closes the original
~ [-Borrowed(self._http.get)-]{+self._http+}
@ clients/python/postdate/calls.py tests/client/test_operations.py
# the error of a later call of many names a key that repeats nothing
~ [-error.idempotency_key = key-]{+pass+}
@ api/service.py tests/dashboard/viewer/test_signin.py -k cookies
# cookies of any length are read
- .get("cookie", "")[:_COOKIE_CHARACTERS]
+ .get("cookie", "")
@ api/app.py tests/api/test_memory.py -k cache
# routes of strangers are remembered
- app.asgi_router.handle_routing = cast("Any", routed)
@ api/reading.py tests/api/test_budget.py
# the room that a body had stays taken
- noted[BUDGET].give_back(noted.pop(_MADE))
+ noted.pop(_MADE)
# a body without room does not wait
~ [-await -]noted[BUDGET].[-wait_for-]{+take+}(made_bytes)
@ api/calls/lanes.py tests/api/calls/test_lanes.py
# a change of a lane is judged on what it gives alone
~ _refuse_misfits([-limits-]{+given+}, given)
@ scheduler/schema.py tests/api/schema/test_fields.py
# null for a callback means that of the account
~ default=[-"",  # NO_URL-]{+None,+}
@ api/schema/fields.py tests/api/schema/test_fields.py
# a condition is taken where there is to be no callback
~ if [-url != NO_URL or values["callback_on"] is None-]{+True+}:
@ scheduler/callbacks.py tests/api/schema/test_fields.py
# a callback that goes to the account's URL again keeps the ends of the one before
~ on = before.on[- if before.url is None else None-]
# the account's URL that comes back takes the schedule's own condition away
~ on = [-before.on if before.url is None else -]None
@ api/schema/fields.py tests/api/schema/test_fields.py
# the account's callback is shown as none
~ return [-DEFAULT-]{+None+}
# the usual delays that come back are delays of its own
~ if [-values.get("retry_delays_ms") == schema.USUAL_DELAYS_MS-]{+False+}:
@ api/schema/payload.py tests/api/schema/test_fields.py
# a mask stands for whatever secret is there
~ if [-request is None or FIELDS[name].shown_in(request) != value-]{+request is None+}:
# what is shown is judged anew when it comes back
~ if request is None or [-FIELDS[name].shown_in(request) != value-]{+True+}:
# a method that comes back no longer follows the body
~ if [-not before.method_given and values.get("method") == usual_method(values["body"])-]{+False+}:
# a method that was given follows the body once it comes back
~ if [-not before.method_given and -]values.get("method")
@ api/schema/payload.py tests/dashboard/test_many.py
# many are moved to a time that is too long ago, and each is refused by itself
~ [-refuse_unless_shown(change.doubts, None)-]{+pass+}
@ api/schema/findings.py tests/api/schema/test_fields.py
# a mask beside a bad field is not named
~ for doubt in [-(self.doubts or {}).values()-]{+()+}:
@ api/schema/recurring_fields.py tests/api/schema/test_recurring_fields.py
# a PUT takes a masked secret for a field left out
~ for of, value in _LEFT_OUT.items()[- if of not in stay-]
# a PUT that creates drops what has a mask
~ [-payload.refuse_unless_shown(self.doubts, None)-]{+pass+}
@ scheduler/store/lifecycle/create/create.py tests/api/schema/test_given_back.py -k 'valkey and 4'
# a schedule is written again as it is
~ if [-request == before and found.schedule.waits and is_known-]{+False+}:
@ scheduler/store/lifecycle/create/create.py tests/api/calls/test_change.py
# what has ended can be changed to what it is
~ request == before and [-found.schedule.waits and -]is_known
@ scheduler/store/lanes/lanes.py tests/api/schema/test_given_back.py -k 'valkey and 4'
# a burst of 1 is another one than none
~ if [-after.burst == 1-]{+False+}:
# a calm that comes back is refused
~ not in (UNSET, None[-, calm_ms-])
@ scheduler/store/lanes/lanes.py tests/api/calls/test_lanes.py
# a calm may be given any end
~ [-raise InvalidRequest([_NO_CALM])-]{+pass+}
@ api/calls/lanes.py tests/api/schema/test_callbacks.py
# a mask stands for whatever URL the account has
~ if [-before is None or masked_url(before.url) != url.value-]{+before is None+}:
# the condition of the account's callback goes with its URL
~ [-before and before.on-]{+None+}
@ api/answer.py tests/api/test_preconditions.py
# a 304 has the length of no body
~ if line[0] != b"[-content-length-]{+none+}"]
@ api/preconditions.py tests/api/test_preconditions.py
# a weak tag is another than the strong one to a GET
~ [-each.removeprefix("W/")-]{+each+} for each in none_match
# of several lines of a header the last one counts
~ text = ",".join(lines[-)-]{+[-1:])+}
# a comma within a tag ends it
~ [\x21\x23-[-\x7e-]{+\x2b\x2d-\x7e+}\x80-\xff]
# any tag stands beside others
~ text.strip(" \t[-") == ANY-]{+,") == ANY+}:
# a read is answered whatever If-Match asks for
~ if [-not wanted.fits(etag, is_there=is_there)-]{+False+}:
@ api/calls/lanes.py tests/api/calls/test_pauses.py
# a change of a pause's note takes its end away
~ given.get("pausedUntil", [-stays and stays.until_ms-]{+None+})
# a note is kept for the next pause
~ _refuse_misfits({"paused": is_paused, "pausedUntil": until_ms[-, "pauseNote": note-]}, given)
@ api/calls/recurring.py tests/api/calls/test_pauses.py
# a change of a recurring schedule pauses nothing
~ recurring_id, change.of, [-after-]{+lambda pause: pause+}, wanted)
@ scheduler/recurrence/cron.py tests/scheduler/recurrence/test_recurrence_zones.py -k by_hand
# a time of the second of two equal hours is in the past
~ if [-moment > after-]{+True+}:  # two
# a time in a gap is moved by as much as the clock is
~ while [-moment + offset_at(zone, moment) != shown-]{+False+}:  # never
# the clock's own times miss the first one after a change
~ past = shown[- - MINUTE-]
@ scheduler/recurrence/cron_words.py tests/scheduler/recurrence/test_cron_words.py
# days of which both must fit are said to be either
~ if [-not fields.day_and-]{+True+}:
# values at a distance are an interval, whatever the width is
- every if rest == 0 and list(values) == list(range(0, width, every)) else None
+ every if list(values) == [every * n for n in range(len(values))] else None
@ scheduler/recurrence/cron_refusals.py tests/scheduler/recurrence/test_cron_refusals.py
# Sunday counts twice, so that a step of a week seems to be one
~ [-values = {value % 7 for value in values}-]{+pass+}
@ clients/python/postdate/webhooks.py tests/client/test_webhooks.py
# of several headers of a name the last one counts
~ known = found[-.setdefault(name, [])-]{+[name] = []+}
@ api/dashboard/requests/form.py tests/dashboard/test_carried_over.py
# a callback that was emptied is none at all, and not the account's
~ .strip() or [-DEFAULT-]{+None+})
@ api/openapi/document.py tests/api/openapi/test_answers_of_every_call.py
# the document does not say that a request may be too slow
~ (400, 405, [-408, -]414,
# the document does not say that a host may be refused
~ 401, 403, [-421, -]500)
# the document says that health is refused to a host
~ _PUBLIC_ERRORS = (400, 405, 408, 414, {+421, +}429
@ api/openapi/requests.py tests/api/openapi/test_one_of.py
# in the document a null counts as given
~ {"required": [name][-, "properties": given-]}
# in the document a schedule may have two bodies
~ {"[-oneOf-]{+anyOf+}": _BODIES}
# in the document a change has to give a time
~ _one_of([*ways[-, {"not": {"anyOf": ways}}-]])
@ scheduler/recurrence/recurrence.py tests/scheduler/recurrence/test_recurrence.py
# a search of decades holds the event loop up
~ if [-timing.cron is not None and crons.may_take_long(timing.cron)-]{+False+}:
@ api/calls/schedule.py tests/api/calls/test_filters.py
# what has ended is asked whether it is held
~ if [-selected.held is not None and (callback or statuses != (Status.SCHEDULED,))-]{+False+}:
# a list does not say what holds a schedule
~ if [-selected.held is None-]{+False+}:
@ api/dashboard/requests/entries.py tests/dashboard/test_held.py
# a late request does not say that its lane held it
~ elif [-self.lateness_ms is not None and self.lane is not None-]{+False+}:
@ api/recurring_times.py tests/api/calls/test_recurring.py
# the next occurrence waits for a worker after a cancellation
~ [-await store.recurring.tend(account_id, rules)-]{+pass+}
# searches for rare times cost an account nothing
~ searches = [-timing.cron is not None and may_take_long(timing.cron)-]{+False+}
@ api/schema/recurring_fields.py tests/api/schema/test_recurring_fields.py
# a change to an interval leaves the cron expression there
~ [-given.setdefault("cron", None)-]{+pass+}
# a schedule's own time is taken for a rule's
~ [-findings.add(name, message)-]{+pass+}
@ api/dashboard/fragments.py tests/dashboard/test_ticks.py
# a name depends on what is new in each answer
~ [-plain = plain.replace(token, "")-]{+pass+}
# a piece of another session counts as one's own
~ key=[-secret-]{+b""+}).digest()
# a run goes on over a piece that is elsewhere
~ if run and place [-==-]{+is not None and place >+} run[1][- + 1-]:
# names are not bounded
- {{1,{MOST_PIECES}}}", re.ASCII)
+ +", re.ASCII)
"""

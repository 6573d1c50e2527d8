"""Mutants of the store, as mutants.py reads them."""

STORE = r"""
@ scheduler/store/server/server.py tests/store/whole/test_repeated.py
# certainly not done, after a lost reply
- if not maybe_done:
-                     raise
+ raise
# certainly not done, after the last attempt
~ if [-maybe_done-]{+False+}:
~                 raise OutcomeUnknown(
@ scheduler/store/server/server.py tests/api/test_rings.py
# an error of the store keeps the frame that it went through
~ self.way.heard(key, reply)
~                 raise [-anew(reply)-]{+reply+}
@ scheduler/store/server/server.py tests/store/whole/test_long_walks.py -k '{walk} and not redis'
# deleted_data: a piece is dropped
~ >= most[- or (found and cursor == b"0")-]:
# another_kind: a full piece is dropped
- yield found[:most]
+ yield found[: most - 1]
# not_among: a piece is doubled
- del found[:most]
+ del found[: most - 2]
@ scheduler/store/lifecycle/end/end.lua tests/store/accounts/test_quota.py
# a cancelled body goes on counting
- {count, -count, -group.less}
+ {count, -count, 0}
@ scheduler/store/lifecycle/end/end_judge.inc.lua tests/store/whole/test_lost_replies.py -k retr
# a retry whose reply was lost is another worker's
~ [-recorded and V.ENDED-]{+nil+}
@ scheduler/store/lifecycle/end/end_judge.inc.lua tests/store/lifecycle/end/test_retries.py
# what was attempted meanwhile is stopped by what it was before
~ names(token, score){+ or group.kind == 'stopped'+}
@ scheduler/store/lifecycle/end/end.lua tests/store/whole/test_half_writes.py -k valkey-ack
# an ack checks the held schedules after its first write
- check_queue(run.queue)
@ scheduler/store/lifecycle/end/end.lua tests/store/lifecycle/claim/test_parked.py -k fakeredis
# an account whose outcomes cannot be recorded is fired again with each lease
- redis.pcall('ZADD', prefix .. K.PARKED, now_ms, group.account)
@ scheduler/store/lifecycle/end/end_rows.py tests/store/lifecycle/end/test_retries.py
# a stopped schedule looks like one that failed by itself
~ unmade = [-max(1, retry.number) if sha1s and retry else -]0
# one that failed at its last attempt looks stopped
~ unmade = max(1, retry.number) if [-sha1s and -]retry else 0
@ scheduler/store/lifecycle/end/end_rows.py tests/store/lifecycle/create/test_on_existing.py
# a stop of what was replaced between two attempts looks like an end by itself
- unmade = max(1, retry.number) if sha1s and retry else 0
+ unmade = retry.number if sha1s and retry else 0
@ scheduler/store/lifecycle/end/end_rows.py tests/store/lifecycle/end/test_answers.py
# what was said to an attempt before is told as the last one's
~ return ()[- if retry is None else (place, b"")-]
@ scheduler/store/operators/reseal.py tests/store/operators/test_reseal.py
# what targets said keeps the key that it was sealed with
~ ("r", found.packed), [-("s", found.said), -](RESPONSE
# answers for reports keep the key that they were sealed with
~ ("s", found.said)[-, (RESPONSE, found.response)-]
@ scheduler/store/operators/reseal.py tests/store/whole/test_long_walks.py -k '{walk} and not redis'
# resealed: a piece is dropped
- some = some[len(read) :]
+ some = some[len(read) + 1 :]
@ scheduler/store/lifecycle/row/put.inc.lua tests/store/accounts/test_quota.py
# what has ended is never taken off the count
~ [-settle(account.base, account.over)-]{+redis.call('PING')+}
@ scheduler/store/lifecycle/create/once.inc.lua tests/store/lifecycle/create/test_idempotency.py
# a once-key never expires
~ redis.call('SET', key, note[1][-, 'PXAT', whole(note[2])-])
@ scheduler/store/lifecycle/create/create.lua tests/store/whole/test_key_bounds.py -k one_credit
# the note of a call weighs nothing
~ local note_bytes = [-adds_note(group) and note_weight(note_size(group)) or -]0
@ scheduler/store/lifecycle/create/on_existing.inc.lua tests/store/whole/test_key_bounds.py -k part_of
# answers that cost no credit have no bound
~ if [-wait_s > 0 and not is_later(group)-]{+false+} then
@ scheduler/store/lifecycle/create/part.inc.lua tests/store/lifecycle/create/test_parts.py
# the first part of a batch is judged by itself
~ return [-group.part and not group.is_stored and group.part[name] or -]{}
# the credits end for a part only
~ return group.[-part and group.part.of - group.part.before or group.-]count
@ scheduler/store/lifecycle/create/once.inc.lua tests/store/lifecycle/create/test_parts.py
# a part fills in another call's note
~ if [-call ~= string.sub(group.keep, 1, 32)-]{+false+} then
# a repeat that came meanwhile is not noticed
~ return [-bytes > 0-]{+false+} and string.char(V.DONE)
# a note that began without a credit is forgotten after a minute
~ if [-fill.ends-]{+false+} then
# the verdicts before the first credit are lost
- .. (group.part and group.part.earlier or '')
@ scheduler/store/recurring/step.inc.lua tests/store/whole/test_key_bounds.py -k one_credit
# the note of a call that made a recurring schedule weighs nothing
- account.weight = account.weight + weight
@ scheduler/store/accounts/signing/signing_rotate.lua tests/store/accounts/test_signing.py -k as_many
# notes of rotations have no bound
- redis.call('DEL', noted_key)
@ scheduler/store/lifecycle/callback/callback.lua tests/store/lifecycle/callback/test_callback_life.py -k story
# the story of a callback weighs nothing
- bytes = bytes + more
@ scheduler/store/lifecycle/create/create.lua tests/store/whole/test_half_writes.py -k 'valkey-replay]'
# a replay meets the dead letters unchecked
- redis.call('ZCARD', account.base .. K.FAILED)
@ scheduler/store/lifecycle/row/weight.inc.lua tests/store/accounts/test_quota.py
# a dead letter that was replayed counts as long as before
- note_expiring(hours, -bytes, before_ms)
-     note_expiring(hours, bytes, at_ms)
# what is forgotten within this hour is off the quota before
~ if number(expiring[i]) [-<-]{+<=+} now_hour then
# what was forgotten in the hour before is on the quota
~ if number(expiring[i]) < now_hour {+- 1 +}then
@ scheduler/store/lifecycle/row/weight.inc.lua tests/store/whole/test_half_writes.py -k 'valkey-create]'
# what a whole year's hours weigh is settled in one command
- each_thousand('HDEL', base .. K.EXPIRING, hours)
+ if #hours > 0 then redis.call('HDEL', base .. K.EXPIRING, unpack(hours)) end
@ scheduler/store/shared/rate.inc.lua tests/store/lifecycle/claim/test_clock_back.py
# after a clock was set back an account has paid for an hour
~ return [-math.min(before, now_us + (most_us or 1000000))-]{+before+}
@ scheduler/store/log/append.inc.lua tests/store/log/test_chunks.py -k one_by_one
# an index is trimmed to its newest
~ 'MINID', '~', [-oldest-]{+now_ms+}, id,
@ scheduler/store/shared/rate.inc.lua tests/store/accounts/test_api_keys.py
# a plan's rate is forgotten at once
~ 'PX', kept_ms or [-2000-]{+20+})
# a plan's rate is forgotten before it is paid for
~ 'PX', kept_ms or [-2000-]{+900+})
@ scheduler/store/lifecycle/create/create.lua tests/store/lifecycle/create/test_create_by_key.py
# a create by an API key whose reply was lost is judged again
~ if [-is_stored-]{+false+} then
# an inactive API key stores
~ elseif [-not (holder.active and account.plan)-]{+false+} then
# of requests that come together none is judged by the room that is left
~ or not [-has_room(account, plain_weight(row))-]{+true+} and V.NO_ROOM
# the use of an API key by a create is not noted
~ if [-holder.is_used and holder.stale-]{+false+} then
@ scheduler/store/lifecycle/create/create.lua tests/store/whole/test_half_writes.py -k 'valkey and API'
# an account's damage leaves its rate counted
~ if account.[-sound and account.-]is_counted then
@ scheduler/store/accounts/admit.lua tests/store/whole/test_half_writes.py -k valkey-admit
# an account's damage ends the admission of its neighbours
~ sound, caller = [-pcall(caller_of, stored)-]{+true, caller_of(stored)+}
@ scheduler/store/lifecycle/row/queue.inc.lua tests/store/lifecycle/claim/test_fairness.py -k push_ahead
# what comes in with an early time pushes ahead
~ [-math.max(at, now_ms)-]{+at+}
@ scheduler/store/lifecycle/row/queue.inc.lua tests/store/operators/test_hold.py
# what was held wakes a suspended account when it is given back
~ K.HEADS, [-'LT', -]math.max
@ scheduler/store/lifecycle/claim/claim.lua tests/store/lifecycle/claim/test_fairness.py -k forty
# a flood keeps its turn
~ due[- and math.max(due, turn)-]
@ scheduler/store/lifecycle/claim/claim.lua tests/store/lifecycle/claim/test_fairness.py -k passed_over
# who is passed over is claimed from
- passed_over[ARGV[i]] = true
@ scheduler/store/lifecycle/claim/claim.lua tests/store/lifecycle/claim/test_lease.py -k fakeredis
# a takeover is a first attempt
~ made = [-is_held and 1 or -]0
# a third attempt is a second
- tried[#tried + 1], tried[#tried + 2] = schedule, attempt
@ scheduler/store/lifecycle/claim/claim.lua tests/store/lifecycle/end/test_retries.py
# a worker is not told what the attempts before came to
~ local before = [-used and redis.call('HGET', base .. schedule, 'n') or -]''
@ scheduler/store/lifecycle/claim/claim.lua tests/store/lifecycle/claim/test_parked.py -k fakeredis
# an account stays parked after its repair
- redis.call('ZREM', prefix .. K.PARKED, account)
-         return false
@ scheduler/store/lifecycle/claim/claim.lua tests/store/operators/test_hold.py
# a shard on hold is claimed from
~ if [-is_unusual and not only and redis.call('EXISTS', prefix .. K.HOLD) == 1-]{+false+} then
# a restore wakes a suspended account
~ if [-only and redis.call('ZSCORE', heads, account) == '-inf'-]{+false+} then
@ scheduler/store/operators/heartbeat.lua tests/store/operators/test_roster.py
# the dead are never forgotten
~ each[1] > [-tonumber(ARGV[4])-]{+1e15+}
@ scheduler/store/operators/heartbeat.lua tests/store/events/test_events.py
# a loss is noted by each that sees it
~ [-not string.find(all[i + 1], SEEN_LOST)-]{+true+} then
# after an outage the first that is heard of takes all others for lost
~ [-and silent_ms <= ARGV[3] / 2-]
@ scheduler/store/events/record.lua tests/store/events/test_events.py
# a repeat whose reply was lost notes twice
~ if [-before.o == event.o-]{+false+} then
# each process that met an outage notes one of its own
- redis.call('XDEL', key, unpack(merged))
@ scheduler/store/events/note.inc.lua tests/store/events/test_events.py
# an act fails for its mark
~ return redis.[-pcall-]{+call+}('XADD'
@ scheduler/store/events/events.py tests/store/events/test_events.py
# a page repeats what shares its last moment
- start = f"{'' if number < of else '('}{ms}-{sequence}"
+ start = f"{ms}-{sequence}"
# an act that was refused looks done
- await self.record(kind, who=who, account_id=account_id, about=f"{why}{NOT_DONE}{error}")
@ scheduler/store/lifecycle/claim/claim.py tests/store/lifecycle/claim/test_lease.py -k release
# a release uses up its attempt
- each.attempt - 1 or ""
+ each.attempt or ""
@ scheduler/store/lifecycle/claim/claim.py tests/store/lifecycle/claim/test_lease.py -k fakeredis
# an extension forgets an attempt used up by the worker
~ if each.attempt > [-1-]{+2+} else
@ scheduler/store/lifecycle/claim/claim.py tests/store/lifecycle/claim/test_tokens.py -k being_prolonged
# an ack knows nothing of an extension on its way
- each.token = f"{each.token}:{ends_us}"
@ scheduler/store/lifecycle/claim/claim.py tests/store/lifecycle/claim/test_lease.py -k question
# an extension's lease counts from its reply
~ each.lease_until_s = [-asked_s-]{+elapsed_s()+} + lease_ms / 1000
@ scheduler/store/lifecycle/claim/lease.lua tests/store/lifecycle/claim/test_lease.py -k 'release and fakeredis'
# a release forgets the attempts before
- put_back(queue, schedules, due, tried, fresh, earliest)
+ put_back(queue, schedules, due, {}, fresh, earliest)
@ scheduler/store/server/line.py tests/store/server/test_line.py
# replies of a call that was given up are the next call's
- call = self._waiting[0]
+ while len(self._waiting) > 1 and self._waiting[0].future.done():
+             self._waiting.popleft()
+         call = self._waiting[0]
# a line is used on after a reply that did not come
- self.close(exceptions.TimeoutError("Timeout reading from the server"))
+ call = self._waiting.popleft()
+             call.future.set_exception(exceptions.TimeoutError("Timeout"))
@ scheduler/store/server/server.py tests/store/server/test_sentinels.py
# a write is confirmed while another primary is chosen
~ if [-way.choosing-]{+False+}:
@ scheduler/store/lifecycle/claim/claim.py tests/store/server/test_sentinels.py
# at-most-once ones are sent that the next primary may not know as claimed
~ if [-self._server.way.choosing-]{+False+}:
@ scheduler/store/server/connection.py tests/store/server/test_sentinels.py
# a call goes to a primary that is about to be replaced
~     [-await self._sentinels.settled()-]{+pass+}
~             line = await self._lines.open()
# lines in use stay with the old primary
- self._lines.renew()
-         self._own.renew()
+ self._lines.renew()
@ scheduler/store/server/sentinels.py tests/store/server/test_sentinels.py
# the first sentinel's answer counts, however old its epoch
~ last = [-max(answers, key=lambda each: each.epoch)-]{+answers[0]+}
# a look from before the announcement ends the wait
~ self._note(choosing=answer.choosing[- or begun != self._begun-])
# a look waits for the sentinel that leads a failover to have ended it
~ choosing = [-named and -]b"failover_in_progress"
@ scheduler/store/shards.py tests/store/accounts/test_accounts.py -k more_shards
# the number of shards is read once
-     await self.read()
-         return self.count
+ return self.count
@ scheduler/store/lifecycle/claim/claim.py tests/store/lifecycle/claim/test_lease.py -k question
# a claim's lease counts from its reply
~ self._clock.readings, [-asked_s-]{+elapsed_s()+} + lease_ms / 1000
@ scheduler/store/lifecycle/claim/claim.py tests/store/whole/test_long_walks.py -k '{walk} and not redis'
# realigned: a piece is dropped
~ place += count{+ + 1+}
@ scheduler/store/lifecycle/claim/realign.lua tests/store/check/test_lane_check.py -k finds
# a lost turn of an account's lanes stays lost
- mend_head(account .. '/', first_of(base .. K.LANE_HEADS, '(-inf'))
@ scheduler/store/lifecycle/claim/realign_lanes.lua tests/store/whole/test_half_writes.py -k realign]
# a damaged list of lanes keeps other accounts' turns lost
~ local names = redis.[-pcall-]{+call+}(
@ scheduler/store/server/clock.py tests/worker/whole/test_suspended.py
# the store's clock stops while the machine sleeps
~ now_us += [-self._asleep_us()-]{+0+}
# a reply from before a sleep sets the store's clock back
~ if [-knows_of_it-]{+True+} or self
@ scheduler/store/lifecycle/create/create.py tests/store/lifecycle/create/test_replays.py
# a walk of replays leaves out the millisecond in which it began
~ until_ms = self._clock.observe_reply(time)[- + 1-]
@ scheduler/texts.py tests/scheduler/test_texts.py
# a carriage return overwrites a line
~ ][-|\r(?!\n)-]
@ scheduler/store/shared/number.inc.lua tests/store/whole/test_scripts.py
# a number is rounded where it is too large to be exact
~ if [-sum - n ~= tonumber(gain)-]{+false+} then
@ scheduler/store/check/claim_turns.py tests/store/check/test_lane_check.py
# a lane that no claim looks at is sound
~ elif [-self.head_ms == _NEVER and not paused-]{+False+}:
# a lane that is looked at too late is sound
~ > [-max(self._starts_ms(), self.now_ms) + _SLACK_MS-]{+float("inf")+}:
# what a clock that was set back left of a rate may hold a lane up
- paid_ms = min(get("tat", 0.0) / 1000, self.now_ms + get("per", 0.0) + interval_ms * burst)
+ paid_ms = get("tat", 0.0) / 1000
# a pause of an account that never ends is sound
~ ([-ends_ms is None or-]
@ scheduler/store/check/lanes.py tests/store/check/test_lane_check.py
# a schedule in the queue of another lane is sound
~ if lane and [-(named != lane or fields.outcome is not None)-]{+fields.outcome is not None+}:
# one that is in no queue of its lane is sound
~ and abs(float(queue or [-0-]{+among_all+})) != float(among_all):
@ scheduler/store/operators/due.lua tests/store/operators/test_census.py
# a rate that a customer chose makes schedules overdue
~ count = [-math.min(count, 1 + math.floor((now_ms - since) / interval_ms))-]{+count+}
# a parallelism that a customer chose makes schedules overdue
- count = math.min(count, set[5] - redis.call('ZCOUNT', members, '-inf', '(-' .. now_ms))
+ count = count
# a pause makes what is due overdue once it ends
- since = math.max(since, tonumber(resumed_ms or since))
@ scheduler/store/lanes/backlog.lua tests/store/lanes/test_lanes.py
# a paused lane is said to start what is due soon
~ if [-head_ms == -math.huge or head_ms > horizon-]{+false+} then
@ scheduler/store/log/overview.py tests/store/log/test_overview.py
# held calls of a stopped account are not counted
~ overdue, since_ms, held = [0] * len(late), [], [-due + due_in_lanes-]{+0+}
# a pause makes an account's picture red
~ if [-suspended or paused_ms > now_ms-]{+False+}:
# after a pause all counts as late as it was due
- overdue = _late_since(counts[: len(late)], bounds, resumed_ms)
+ overdue = counts[: len(late)]
@ scheduler/store/lifecycle/claim/realign.lua tests/store/lifecycle/claim/test_clock_back.py
# after the clock was set back nothing starts before the end of a pause that has passed
- redis.call('ZADD', prefix .. K.RESUMED, now_ms, account)
@ scheduler/store/lifecycle/claim/realign_lanes.lua tests/store/lifecycle/claim/test_clock_back.py
# after the clock was set back a lane stands still until the time that it had
- pcall(relook, queue)
@ scheduler/store/lifecycle/claim/clock_back.lua tests/store/lifecycle/claim/test_clock_back.py
# what is brought forward in a lane waits beside it
~ name = [-lane and name .. '/' .. lane or name-]{+ARGV[1]+}
@ scheduler/store/lifecycle/callback/callbacks_back.lua tests/store/lifecycle/claim/test_clock_back.py
# a callback that a lost worker held waits for an hour
~ if [-score and held and score > latest-]{+false+} then
# a callback that was set before waits for an hour
~ elseif [-score and not held and state ~= ''-]{+false+} then
@ scheduler/store/lifecycle/claim/claim.py tests/store/lifecycle/claim/test_clock_back.py
# a callback that is claimed waits for a moment of before
~ elif [-each.is_callback-]{+False+}:
@ scheduler/store/lifecycle/claim/claim_lanes.inc.lua tests/store/lifecycle/claim/test_clock_back.py
# after the clock was set back a takeover in a lane waits until its schedule is due again
~ local due_ms = [-since and math.min(tonumber(since), now) or score-]{+tonumber(since or score)+}
@ scheduler/store/lifecycle/claim/claim.py tests/store/operators/test_hold.py
# a restore ends nothing that is in lanes
~ _MOST_BYTES, [-2-]{+1+}, by_ms,
@ scheduler/store/check/claim_turns.py tests/store/check/test_lane_check.py
# a list of paused lanes that lies is sound
~ if [-until_ms > self.now_ms and self.paused_until_ms != until_ms-]{+False+}:
@ scheduler/store/operators/unlease.lua tests/store/operators/test_hold.py
# what a lost worker held in a lane waits beside it after a restore
~ name = [-lane and account .. '/' .. lane or -]account
# a restore takes what a worker may be sending
~ if [-lease_end > now_ms-]{+false+} then
# at most once is sent again after a restore
- tried[#tried + 1], tried[#tried + 2] = schedule, 1
@ scheduler/store/operators/hold.lua tests/dashboard/operators/test_system.py
# a late press of Resume ends a newer hold
~   if since [-<= tonumber(ARGV[2] ~= '' and ARGV[2] or 'inf') -]then
@ scheduler/store/operators/system.py tests/store/server/test_rewrites.py
# a rewrite that is under way is not waited for
~ ["aof_rewrite_in_progress"] [-!= "0"-]{+== "never"+}:
# rewrites are held back for good
~ [-await self._server.ask("CONFIG", "SET", _REWRITE_SETTING, before)-]{+pass+}
@ scheduler/store/lifecycle/create/change.lua tests/store/accounts/test_quota.py
# a change is judged by another plan's quota
- quotas[ARGV[i]] =
+ quotas[ARGV[13]] =
@ scheduler/store/scans.py tests/store/test_scans.py
# a search begins in debt
~ if [-wait_ms-]{+False+}:
# a search that breaks off costs nothing
~ [-try-]{+if 1+}:
~                 yield scan
~             [-finally-]{+if 1+}:
~                 await
# what cheap searches cost is forgotten
~ [-us += self._kept_back.pop(account_id, 0)-]{+pass+}
# an account searches as often at a time as it likes
~ turn = [-self._turns.setdefault(account_id, asyncio.Lock())-]{+asyncio.Lock()+}
@ scheduler/store/scan.lua tests/store/test_scans.py
# a search owes for an hour when the clock was set back
- now_us + ARGV[3])
+ 2 ^ 53)
@ scheduler/store/queries/members.py tests/store/queries/test_members.py
# a list reads what waits and what is held at two moments
~ commands, [-at_once=base, -]damaged=True
# a list skips what comes between its place and the page it looked at
~ [-not self._rank or len(behind) < len(members)-]{+True+}
@ scheduler/store/queries/listing.py tests/store/test_scans.py
# what the store passes over in a search costs nothing
~ scan.add([-len(names)-]{+unpacked+}, unpacked, [-read_bytes-]{+0+})
@ scheduler/lane_settings.py tests/store/queries/test_held_by.py -k 'not redis'
# a lane that runs as many as it may is said to hold nothing
~ and running [->=-]{+>+} self.parallelism
# the burst of a lane is left out of an estimate
~ + ([-ahead - self.burst + 1-]{+ahead+}) * self.interval_us
# a lane's rate is named where no worker runs
~ if [-not has_worker-]{+False+}:
@ scheduler/store/queries/held_by.py tests/store/queries/test_held_by.py -k 'not redis'
# what a worker has is said to be held
~ if [-ends.get(each.schedule_id, 0) * 1000 <= now_us-]{+True+}]
# those that run are said to go first
~ before = [-0 if each.executing else running[lane]-]{+0+}
# what lost workers had is said to go last
~ commands.append(("ZCOUNT", queue, [-f"(-{end_ms:.3f}"-]{+"-inf"+}, "(0"))
# an account's pause that has ended is told
~ if paused is not None[- and (until_ms is None or until_ms * 1000 > now_us)-]:
@ scheduler/store/queries/unended.py tests/store/queries/test_held_by.py -k 'not redis'
# a list of what is held has what is not
~ kept = [[-(each.held_by is not None) is selected.held-]{+True+} for each in told]
@ scheduler/store/log/logs.py tests/store/queries/test_held_by.py -k 'not redis'
# the dashboard lists as held what only waits
~ if [-query.held-]{+False+}:
@ scheduler/store/queries/listing.py tests/store/whole/test_long_walks.py -k '{walk} and not redis'
# listed_schedules: a piece is dropped
~ reached = chunk.reached{+ if most == limit else None+}
@ scheduler/runtime/one_at_a_time.py tests/store/server/test_long_scripts.py
# the account that has most to send goes on with the next
- del accounts[account]
+ accounts.pop(account) if not turns else None
# one that is given up keeps the turn that it has got
~ if [-not turn.cancelled()-]{+False+}:
@ scheduler/store/server/coalescing.py tests/store/server/test_coalesce.py
# all callers of a batch share its error
~ reply.set_exception([-anew(error)-]{+error+})
@ scheduler/store/operators/restore.py tests/store/whole/test_long_walks.py -k '{walk} and not redis'
# given_back: a piece is dropped
~ left = [-given_back == _MOST_AT_ONCE or -]last_end_ms >= 0
# expired: a piece is dropped
~ looking = [-bool(found or batch.unread)-]{+False+}
@ scheduler/store/operators/walk.lua tests/store/operators/test_census.py
# a callback that a worker holds counts as failing
~ theirs > due [-+ theirs_held -]and 1 or 0
@ scheduler/store/check/callbacks.py tests/store/check/test_callback_check.py
# an end whose callback is missing is sound
~ return [-(failed or found.status is Status.COMPLETED) and wish.reports(failed=failed)-]{+False+}
# the check wants a callback of each end
~ return [-(failed or found.status is Status.COMPLETED) and wish.reports(failed=failed)-]{+True+}
# a pending callback that no queue has is sound
~ if [-self.is_pending and self.pending is None-]{+False+}:
# a schedule may be forgotten while its callback is pending
~ elif [-self.is_pending and self.forgotten_ms >= 0-]{+False+}:
# a schedule whose callback has ended may be kept for ever
~ elif [-self.state and not self.is_pending and self.forgotten_ms < 0-]{+False+}:
# callbacks to which no claim comes are sound
~ if [-turn is None or float(turn) > max(head_ms, now_ms) + _SLACK_MS-]{+False+}:
# an account of which as many run as may has to be looked at
~ [-float(freed[1]) if freed else -]0.0
@ scheduler/store/check/check.py tests/store/whole/test_long_walks.py -k '{walk} and not redis'
# letters_without: a piece is dropped
~ place += [-len(found)-]{+_CHUNK + 1+}
# damaged_requests: a piece is dropped
~ [-while-]{+if+} schedules:
# damaged_log: a piece is dropped
~ [-while-]{+if+} page:
@ scheduler/store/accounts/accounts.py tests/store/whole/test_long_walks.py -k '{walk} and not redis'
# listed_accounts: a piece is dropped
~ for i in range(0, len(found){+ - _READ_AT_ONCE+}, _READ_AT_ONCE):
@ scheduler/store/shared/members.inc.lua tests/store/whole/test_long_walks.py -k '{walk} and not redis'
# claimed: a member is dropped
~ math.min(i + [-999-]{+997+}, #members)
@ scheduler/store/log/statistics.py tests/store/log/test_statistics.py
# what was trimmed by age is counted
~ found = end[-.plus(_before(since), -1)-]
@ scheduler/store/log/ended.py tests/store/log/test_logs.py -k backwards
# a page walks a stream in search of an entry before its first one
~ if [-s in firsts and firsts[s] < reached-]{+True+}
@ scheduler/store/log/logs.py tests/store/log/test_logs.py -k 'made_again and not redis'
# a log of attempts is read through for the few that have ended
~ elif [-indexed == _ENDS-]{+False+}:
# a log without attempts that are made again is read by its indexes
~ indexes += ([-WHOLE_LOG, -][keys.INDEX
@ scheduler/store/log/logs.py tests/store/log/test_logs.py -k ahead
# entries ahead of a clock that was set back are left out
~ _AHEAD_MS = [-DAY_MS-]{+0+}
@ scheduler/store/queries/members.py tests/store/queries/test_members.py
# requests of a list are weighed because others have ended
~ unended = bytes_[- - sum(map(int, ended))-]
@ scheduler/store/log/append.inc.lua tests/store/log/test_trimming.py
# an index gets its time to live once and for all
~ [-math.floor(now_ms / 43200000)-]{+0+}
# an index is not cut when the log is cut by number
~ if with [-or state.entries > most -]then
@ scheduler/store/log/append.inc.lua tests/store/log/test_statistics.py
# totals forget the response time
~ [-whole(plus(time_ms, gains[3]))-]{+time_ms+}
@ scheduler/store/log/statistics.py tests/store/whole/test_long_walks.py -k '{walk} and not redis'
# counted: a piece is dropped
~ if [-len(page) < _PAGE-]{+True+}:
# counted: an entry is doubled
- position = "(" + page
+ position = page
@ scheduler/store/log/by_status.py tests/store/lifecycle/callback/test_many_callbacks.py -k 'valkey and each_list'
# a list by callback has schedules of any status
~ self._statuses = [-frozenset(statuses)-]{+frozenset(Status)+}
@ scheduler/store/log/logs.py tests/store/lifecycle/callback/test_many_callbacks.py -k log_finds
# a page of the log is empty although more follow
~ for _ in range([-_MOST_EMPTY_PAGES if query.callback is not None else 0-]{+0+}):
@ scheduler/store/log/by_status.py tests/store/log/test_by_status.py
# a list looks for completed schedules as long as for failed ones
~ kept = [-kept_since(stretch, self._clock.now_ms() - kept_ms)-]{+stretch+}
@ scheduler/store/log/by_status.py tests/store/log/test_logs.py -k while_a_page
# what ended while a page was read is in it twice
- if each[1].schedule_id not in gone]
+ ]
@ scheduler/store/queries/listing.py tests/store/log/test_by_status.py -k thousands
# a page looks through all of the log
~ and [-scan.us < until_us-]{+True+}
@ scheduler/store/log/attempts.py tests/store/log/test_attempts.py
# the entries before a missing one are left out
~ if not some or len(found) > _MOST:
~                 return [-None-]{+found+}
# the last attempt's answer is shown with each
~ if [-(entry.at_ms, entry.attempt) != (_last_ms(schedule), schedule.attempts)-]{+False+}:
# a search for a schedule's entries goes on to the end of the log
- if any(_is_outermost(entry, down=stretch.down) for _, entry in some.entries):
-                 reached = None
+ pass
@ scheduler/store/log/ended.py tests/store/whole/test_long_walks.py -k '{walk} and not redis'
# read_log: an entry is doubled
~ last=[-not -]stretch.down
@ scheduler/store/queries/unended.py tests/store/log/test_logs.py -k 'found_at_once and not redis'
# what waits with a reference is on every page of the log
- [each for each in places if stretch.has(each[0])]
+ places
@ scheduler/store/log/logs.py tests/store/queries/test_searches.py -k 'log and not redis'
# a reference finds the log of every other
~ if [-self.reference is not None and not matches(self.reference, one.reference)-]{+False+}:
@ scheduler/store/log/logs.py tests/store/queries/test_searches.py -k 'not redis'
# a lane finds the log of every other
~ [-self.lane not in (None, one.lane)-]{+False+}
@ scheduler/store/queries/unended.py tests/store/queries/test_searches.py -k 'not redis'
# a list lacks what waits in lanes
~ waiting = (keys.WAITING,[- keys.LANED-]) if lane is None
@ scheduler/store/queries/listing.py tests/store/queries/test_searches.py -k 'not redis'
# a list of a lane has what workers hold of others
~ if [-self.lane is not None and request.lane != self.lane-]{+False+}:
@ scheduler/store/lifecycle/row/named.inc.lua tests/store/queries/test_references.py
# a reference weighs nothing
- account.weight = account.weight + ARGV[row + 5]
# a changed reference stays in the list
~ if [-one.reference ~= reference and one.reference ~= ''-]{+false+} then
@ scheduler/store/lifecycle/end/end.lua tests/store/queries/test_references.py
# what has ended stays in the list of references
- each_thousand('ZREM', group.base .. K.REFERENCES, group.members)
# what a reference weighed goes on counting
- bytes = bytes + S.REFERENCE_BYTES + #member
@ scheduler/store/lifecycle/row/failed.inc.lua tests/store/queries/test_references.py
# a dead letter that is trimmed stays in the list by reference
- each_thousand('ZREM', base .. K.FAILED_REFERENCES, going[3])
# an index by reference never expires
- redis.call('PEXPIRE', others, kept_ms)
@ scheduler/store/lifecycle/end/forget.lua tests/store/lifecycle/end/test_letters.py
# a dead letter that was let go is kept for a week
~ member, [-tonumber(ended_ms) + kept_ms-]{+nil+}, hours)
# one that is named twice goes twice
- seen[member] = true
@ scheduler/store/lifecycle/end/forget.lua tests/store/whole/test_lost_replies.py -k forget
# a repeat says that there was none
- note_done(base, operation, nil, came)
@ scheduler/store/lanes/set.lua tests/store/lanes/test_unpinned.py
# limits go before the message that they came with is there
- after[1] = whole(now_ms + MESSAGE_MS)
# messages push other events out of the account's
~ if is_set [-and after[UNPINNED] == '' -]then
# a rate that is reset is used as before
- redis.call('HDEL', key, 'tat')
@ scheduler/store/lifecycle/row/lane.inc.lua tests/store/lanes/test_unpinned.py
# a rate is forgotten with the last schedule of its lane
~ lane.interval and [-math.ceil(lane.tat / 1000)-]{+0+} or 0
@ scheduler/lane_settings.py tests/store/lanes/test_unpinned.py
# a key that was used once counts among the lanes for ever
~ is not None and [-limit not in self.unpinned-]{+True+}
@ scheduler/store/lifecycle/create/create.lua tests/store/queries/test_references.py
# a dead letter that is replayed stays in the list by reference
- each_thousand('ZREM', account.base .. K.FAILED_REFERENCES, account.named)
@ scheduler/store/lifecycle/row/weight.inc.lua tests/store/queries/test_references.py
# the reference of a dead letter weighs nothing
~ return [-#member > 26 and S.REFERENCE_BYTES + #member or -]0
# what the reference of a dead letter weighs is forgotten late
- bytes = bytes + beside
@ scheduler/store/queries/listing.py tests/store/queries/test_references.py
# dead letters by reference are listed after they are kept
~ from_ms=[-max(selected.from_ms or 0, self._oldest_ms())-]{+selected.from_ms+}
@ scheduler/store/operators/reseal.lua tests/store/operators/test_reseal.py -k recurring
# a change of a recurring schedule counts by what it weighed in clear
~ sums[2] = [-added(key, {'v'}, {1})-]{+nil+}
@ scheduler/store/operators/restore.py tests/store/operators/test_hold.py
# a recurring schedule ends with an occurrence that a restore ends
~ [-await self._recurring.advance(found)-]{+pass+}
@ scheduler/store/recurring/tending.py tests/store/recurring/test_rules_due.py
# recurring schedules are tended on hold
~ [-0 if on_hold == 1 else -]due
@ scheduler/store/recurring/rules.py tests/store/recurring/test_renewal.py
# a newer tzdata moves nothing
~ if [-not self.is_by_zone or self.definition.tzdata >= TZDATA_VERSION-]{+True+}:
# an older tzdata makes the next occurrence of a rule that goes by a newer one
~ return [-self.is_by_zone and self.definition.tzdata > TZDATA_VERSION-]{+False+}
@ scheduler/store/recurring/tending.py tests/store/recurring/test_renewal.py
# a rule that goes by a newer tzdata is left for ever
~ if [-due_ms is None or float(due_ms) > self._clock.now_ms() - _LEFT_MS-]{+True+}:
@ scheduler/store/recurring/chain.py tests/store/recurring/test_renewal.py
# a newer tzdata takes the time back that an owner gave
- is_owners = before.timing.times == after.timing.times and trigger_at_ms != before.slot_ms
+ is_owners = False
@ scheduler/store/recurring/tending.py tests/store/recurring/test_rule_machine.py
# an advance takes any occurrence of a rule as the one that it stands on
- elif found is not None and found.occurrence in fired[name]:
+ elif found is not None:
@ scheduler/store/recurring/rules.py tests/store/recurring/test_stories.py
# a later slot that an owner had sent early is sent again, as if the clock had been ahead
~ if [-ids.created_at_ms(ids.schedule_id(self.occurrence)) <= latest_ms-]{+False+}:
# a cancellation of a clock's future holds
~ cancelled_ms = self.cancelled_ms[- if self.cancelled_ms < self.fired_ms else 0-]
@ scheduler/recurrence/cron_counts.py tests/scheduler/recurrence/test_recurrence_zones.py -k counted
# fixed times near a change of the clocks are counted as on other days
~ margin = timedelta()[- if is_by_the_clock(cron) else _DAY-]
@ scheduler/store/recurring/renewal.py tests/store/recurring/test_renewal.py
# an older tzdata walks too
~ if mark.decode() [->=-]{+==+} TZDATA_VERSION:
@ scheduler/store/check/recurring.py tests/store/check/test_recurring_check.py
# two schedules for one slot are not told
~ if [-digest in self._seen-]{+False+}:
# a slot without an occurrence is not told
~ if [-is_active and not has_occurrence-]{+False+} and stand.due_ms
@ scheduler/store/operators/reseal.py tests/store/operators/test_reseal.py
# a request that is sealed anew loses its reference
~ rows += (kind + local, field, head + packed, [-head + -]sealed)
@ scheduler/store/lifecycle/row/named.inc.lua tests/store/lifecycle/create/test_on_existing.py
# a replacement keeps the earlier time
- put_in(one.next_lane, one.due, one.schedule)
# a replaced request weighs what the first one did
- account.weight = account.weight + #request - one.size + weighs - one.weighs
@ scheduler/store/lifecycle/create/create.lua tests/store/lifecycle/create/test_on_existing.py
# a repeat after a lost reply replaces anew
- redis.call('SET', name, answer, 'PX', UNPAID_KEPT_MS)
@ scheduler/store/lifecycle/create/on_existing.inc.lua tests/store/lifecycle/create/test_on_existing.py
# what a worker holds is kept or replaced
~ if not [-held[i] and not -]waits_for_slot(account, key) then
# the first of several is meant
~ if [-found.more and #found + found.more > 1-]{+false+} then
# the longest wait begins anew with each call
~ if [-not fit-]{+false+} then
@ scheduler/store/lifecycle/create/on_existing.py tests/store/lifecycle/create/test_on_existing.py
# a longest wait that ends first begins with the call if another process made the schedule meanwhile
~ if basis[- or is_bounded-] else
@ scheduler/store/bulk/step.lua tests/api/bulk_actions/test_runner.py
# a process that comes late notes its progress over another's
- elseif version ~= ARGV[3] then
+ elseif false then
# a stop is forgotten with the end of the step
~ [-before == 'stopping' and ARGV[6] == 'running' and before or -]ARGV[6]
@ scheduler/store/bulk/take.lua tests/api/bulk_actions/test_runner.py
# two processes take a turn together
~ if not at_ms [-or (at_ms > now_ms and at_ms <= far_ms) -]then
# the bulk action of a suspended account goes on
~ elseif [-suspended-]{+false+} then
@ scheduler/store/bulk/add.lua tests/api/bulk_actions/test_runner.py -k oldest
# a bulk action under way gives way to another
~ [-elseif not stored[2] then-]{+else+}
@ scheduler/store/lanes/set.lua tests/store/lanes/test_lane_settings.py
# of two changes of a lane at once one is lost
- if digest_of(before, LAST) ~= ARGV[4] then
+ if false then
# what a pause held back is late from its due time on
~ if [-starts_anew or ended-]{+false+} then
@ scheduler/store/lifecycle/row/lane.inc.lua tests/store/lanes/test_lane_settings.py -k claim_ends
# a claim that ends a pause leaves its note
~ 'paused', 'until', 'by'[-, 'why'-])
@ scheduler/store/lanes/set.lua tests/store/accounts/test_pauses.py
# a repeated change of a lane undoes a later one
- if was_done(base, ARGV[3]) then
-   return V.DONE
- end
@ scheduler/store/lanes/clear.lua tests/store/lanes/test_lane_settings.py
# what limits held back is late when they are cleared
- redis.call('HSET', key, 'gate', now_ms)
@ scheduler/store/lanes/clear.lua tests/store/test_preconditions.py
# a lane that was set meanwhile is cleared
~ elseif [-ARGV[4] ~= '' and digest_of(settings_of(key, FIELDS, PAUSED), LAST) ~= ARGV[4]-]{+false+} then
@ scheduler/lane_settings.py tests/store/test_preconditions.py
# a lane that is paused and has no other setting is not there
~ return any((self.rate, self.parallelism, self.note[-, self.pause-]))
@ scheduler/store/lanes/set.lua tests/store/lanes/test_lane_settings.py -k 'ten_thousand and not redis'
# among 10,000 lanes nothing more is set, not even to nothing
~ if [-table.concat(after) ~= '' and -]not enlist(queue) then
@ scheduler/store/lifecycle/row/lane.inc.lua tests/store/lanes/test_lane_settings.py -k 'nothing_keeps and not redis'
# an empty lane stays after its pause has ended by itself
~ lane.shut < ENDLESS and lane.[-shut-]{+calm+} or 0)
# it stays among the paused ones
- redis.pcall('ZREM', queue.base .. K.LANES_PAUSED, queue.lane)
@ scheduler/lane_settings.py tests/store/lanes/test_lane_settings.py -k 'nothing_keeps and not redis'
# a lane that was set to nothing counts among the lanes
~ return [-pinned or self.note is not None-]{+True+}
@ scheduler/store/lanes/lanes.py tests/store/lanes/test_lane_settings.py
# a deploy resumes what an operator paused
~ return replace(limits, [-pause=before.pause-])
# If-Match refuses a repeat of what it did
~ is_so = [-after == before and not is_calmed and not frees_rate-]{+False+}
# any number of lists of lanes a second
- scan.us += sum(_USED_US + _LANE_US if _is_used(row) else _LANE_US for row in rows)
@ scheduler/store/shared/settings.inc.lua tests/store/accounts/test_pauses.py
# a pause that has ended by itself is shown
~ if [-until_ms > 0 and until_ms <= now_ms-]{+false+} then
@ scheduler/store/accounts/pause.lua tests/store/accounts/test_pauses.py
# an account's pause that was resumed goes on
~ [-end_pause(prefix, account, ended or now_ms)-]{+write_settings(key, FIELDS, {unpack(ARGV, 4)})+}
# an account's ETag leaves its callback out
~ digest_of(values, #[-values-]{+FIELDS+})
# with the account's callback goes the URL of those that are pending
~ redis.call('[-HDEL-]{+DEL+}', callback_key[-, 'on'-])
@ scheduler/store/lifecycle/claim/claim_lanes.inc.lua tests/store/lanes/test_lane_rates.py -k '[0] or [3]'
# a burst begins anew with each start
~ lane.tat = [-math.max(start, lane.tat)-]{+start+} + lane.interval
# what is claimed late pays from its slot on
~ lane.tat = math.max([-start-]{+slot+}, lane.tat) + lane.interval
@ scheduler/store/lifecycle/claim/claim_free_lanes.inc.lua tests/store/lifecycle/claim/test_free_lanes.py
# what a claim takes of lanes at once may be held already
~ not lane or[- at % 1 > 0 or-]
# a claim of lanes at once takes what has expired as if it could start
~ [-(expires_ms > 0 and expires_ms <= math.max(at, now))-]{+false+}
# a lane that was claimed at once is looked at when its first lease ends, whatever waits
~ at = math.min(at, [-tonumber(waits or at), -]runs and math.ceil(-tonumber(runs)) or at)
# a lane that was claimed at once is looked at too late for those that run already
~ tonumber(waits or at)[-, runs and math.ceil(-tonumber(runs)) or at-])
# what a claim takes of lanes at once has no attempts before
- false, used[schedule])
+ false, nil)
# lanes that are claimed at once take more bytes than a claim may
~ [-#plan.ends > 2 and plan.bytes > room_bytes-]{+false+}
# lanes whose requests did not fit into a claim wait for the end of a lease
~ plan.next_turn = [-tonumber(plan.first_due)-]{+plan.next_turn+}
@ scheduler/store/lifecycle/claim/claim_free_lanes.inc.lua tests/store/lifecycle/claim/test_lane_claims.py
# limits of lanes do not hold where all that is due fits into a claim
~ [-redis.call('EXISTS', unpack(states)) > 0-]{+false+}
# lanes are claimed at once where there is room for some
~ [-count > most-]{+false+}
@ scheduler/store/lifecycle/claim/claim_lanes.inc.lua tests/store/lifecycle/claim/test_lane_claims.py
# a lane has places without end
~ elseif [-lane.places < 1 or -]slot > by_us then
# what can only end takes a place
~ (expires_ms + 1) * 1000, [-false-]{+true+}
# lateness in a lane counts from before its pause
~ lane.from_ms = [-math.max(lane.gate, resumed_at and resumed_at(account) or 0)-]{+0+}
# the lost ones of a lane come one claim after the other
~ lane.lost, lane.ends = lane.lost + passed, [-next_at-]{+math.huge+}
# a lane that a claim had no room for waits for the turn of another
~ next_turn = [-math.min(next_turn, lane.turn)-]{+next_turn+}
# one that can only end has the slot of the one before it
~ for i = #slots + 1, [-#part[2] / 2 - 1-]{+0+} do
# the first lane takes all
- local share = math.max(1, math.floor(most / math.max(1, #found)))
-   for _, lane in ipairs(found) do
+ local share = most
+   for _, lane in ipairs(found) do
+     if lane ~= found[1] then break end
@ scheduler/store/lifecycle/row/lane.inc.lua tests/store/lifecycle/claim/test_lane_claims.py
# an end in a full lane gives no place back before its lease ends
~ if [-redis.call('HEXISTS', queue.state, 'parallelism') == 1-]{+false+}
@ scheduler/store/lifecycle/row/lane.inc.lua tests/store/lanes/test_lanes.py
# a schedule whose lease is prolonged runs no longer
~ [-tonumber(at) < 0 and -lease_end or -]lease_end
# a lane that its last schedule leaves counts among its account's until its turn comes
- if redis.call('EXISTS', queue.members, queue.state) == 0 then
-     forget({queue = queue})
-   elseif redis.call('HEXISTS', queue.state, 'parallelism') == 1
-     or redis.call('EXISTS', queue.members) == 0 then
+ if redis.call('HEXISTS', queue.state, 'parallelism') == 1 then
@ scheduler/store/lanes/set.lua tests/store/lifecycle/claim/test_lane_claims.py
# a raised rate waits for the start that the rate before allows next
~ if [-before[INTERVAL] ~= after[INTERVAL] and tat > now_us-]{+false+} then
@ scheduler/store/lifecycle/row/lane.inc.lua tests/store/lifecycle/claim/test_lane_claims.py
# a calm ends with the next one
~ if [-before < until_ms or before > now_ms + MOST_CALM_MS-]{+true+} then
# a target calms its lane for as long as it likes
- until_ms = math.min(until_ms, now_ms + MOST_CALM_MS)
# a lane that nobody set is kept for ever
- redis.call('UNLINK', queue.state)
# a clock that jumped blocks a lane
- lane.tat = math.min(lane.tat, now_us + window)
# an account has lanes without end
~ or [-redis.call('ZCARD', queue.lanes) < S.MOST_LANES-]{+true+}
@ scheduler/store/accounts/suspend.lua tests/store/lifecycle/claim/test_lane_claims.py -k suspension
# a resumption ends a pause
~ if [-redis.call('HEXISTS', account, 'paused') == 0-]{+true+} then
@ scheduler/store/lifecycle/end/end.lua tests/store/lifecycle/callback/test_callback_life.py -k valkey
# a callback is not set in the step that ends its schedule
- call_back(group)
-   end
+ end
# a schedule may be forgotten before its callback has ended
- if called[i] then
-       local delay_ms = group.wishes[-i]
-       redis.call('HSET', name, 'c', 'p' .. (delay_ms and moment(now_ms + delay_ms) or ended_at))
-       if called[i] ~= '' then
-         redis.call('HSET', name, 'w', called[i])
-       end
-     else
+ do
+       redis.call('HSET', name, 'c', 'p' .. ended_at)
# what waits for its callback is not weighed until it is forgotten
- keep_called(group, hours)
@ scheduler/store/lifecycle/callback/call_back.inc.lua tests/store/lifecycle/callback/test_callback_life.py -k valkey
# a default for failures reports every end
~ [-(default == 'executed' or has_failed(outcome))-]{+true+}
# a schedule that has an account's URL and no default is called back
~ {+or kind == 'a' +}or default and ([-kind == 'a'-]{+false+}
# the reference of a dead letter weighs twice
~ (said[i] or 0)[- + (members[schedule] or 0)-]
@ scheduler/store/lifecycle/callback/call_back.inc.lua tests/store/lifecycle/callback/test_responses.py -k valkey
# answers for reports know no quota
~ if [-bytes + #wish - 1 <= free-]{+true+} then
# answers for reports weigh nothing
- return found, bytes
+ return found, 0
@ scheduler/store/lifecycle/callback/callback.lua tests/store/lifecycle/callback/test_responses.py -k valkey
# the answer stays when its report has arrived
- redis.call('HDEL', key, 'w')
# an answer goes although its report has failed
~ [-ARGV[row + 3] == 'd' and -]stored[1] and redis.call('HSTRLEN', key, 'w')
@ scheduler/store/lifecycle/callback/claim_callbacks.inc.lua tests/store/lifecycle/callback/test_responses.py -k valkey
# answers for reports know no bound of a claim
~ room_bytes - #stored[1][- - #answer-]
@ scheduler/callbacks.py tests/store/lifecycle/callback/test_failure_urls.py -k valkey
# a failure is reported where all is
~ return [-self.failure_url if failed and self.failure_url is not None else -]self.url
@ scheduler/store/lifecycle/end/end_rows.py tests/store/lifecycle/callback/test_callback_life.py -k valkey
# an end is reported that is not to be
~ return b"[-0-]{+1+}"
@ scheduler/store/lifecycle/callback/callback.lua tests/store/lifecycle/callback/test_callback_life.py -k valkey
# a schedule is kept for ever once its callback has ended
- redis.call('PEXPIREAT', key, forgotten_ms)
# a dead letter is forgotten as early as others
~ [-(is_letter and failed_kept_ms or kept_ms)-]{+kept_ms+}
# the attempt of a lost lease is recorded
~ [-names(ARGV[row + 2], score)-]{+score+}
@ scheduler/store/lifecycle/callback/callbacks.py tests/store/lifecycle/callback/test_callback_life.py -k each_attempt
# attempts of a callback are kept without a bound
- (*retry.earlier, made)[-_MOST_EARLIER:]
+ (made,)
# the message of each attempt is kept whole
~ if [-len(message) > _MOST_CHARACTERS-]{+False+}:
@ scheduler/store/lifecycle/callback/resend.lua tests/store/lifecycle/callback/test_callback_life.py -k at_a_rate
# callbacks are sent again without a bound
~ elseif [-wait_us > 0.5-]{+false+} then
@ scheduler/store/lifecycle/callback/resend.lua tests/store/lifecycle/callback/test_many_callbacks.py
# callbacks that are sent again together are due at once
~ math.max(now_ms, [-math.floor((after - 1000000) / 1000)-]{+0+})
# many that are sent again are forgotten within two seconds by the rate
~ K.RESENDS[-, MOST_AHEAD_US / 1000 + 1000-])
# what is sent again is listed as failed until it has ended
- take_out_failures(queue, schedules)
@ scheduler/store/lifecycle/callback/callbacks.py tests/store/lifecycle/callback/test_many_callbacks.py
# a walk sends those that failed again for ever
~ to_ms=[-until_ms if selected.to_ms is None else min(selected.to_ms, until_ms)-]{+selected.to_ms+}
# an operation is taken for another one
~ {way.operation}[-:{met}-]
@ scheduler/store/lifecycle/callback/callbacks.inc.lua tests/store/lifecycle/callback/test_many_callbacks.py
# the list of failed callbacks has no bound in age
~ if [-tonumber(oldest[i + 1]) >= now_ms - kept_ms and -]#gone >= over then
# the list of failed callbacks has no bound in number
~ if tonumber(oldest[i + 1]) >= now_ms - kept_ms[- and #gone >= over-] then
@ scheduler/store/lifecycle/callback/callback.lua tests/store/lifecycle/callback/test_callback_life.py -k places
# callbacks that fail at once follow each other without a bound
- + failed * FAILURE_MS
@ scheduler/store/lifecycle/callback/claim_callbacks.inc.lua tests/store/lifecycle/callback/test_callback_life.py -k places
# each place that a failed attempt kept has a claim of its own
~ if [-kept > 0 and free < TOGETHER-]{+false+} then
# failing callbacks of an account start together
~ [-kept > MOST_CALLING / 2-]{+false+}
@ scheduler/store/lifecycle/callback/callbacks.inc.lua tests/store/lifecycle/callback/test_callback_life.py -k in_vain
# each failed callback has its account looked at
~ [-math.max(tonumber(first), has_room_at)-]{+tonumber(first)+}
@ scheduler/store/lifecycle/callback/claim_callbacks.inc.lua tests/store/lifecycle/callback/test_callback_life.py -k in_vain
# claims ahead count the places of failed callbacks as they are now
~ [-math.max(now, math.min(due_by, now + TOGETHER * FAILURE_MS))-]{+now+}
@ scheduler/store/lifecycle/callback/callbacks.inc.lua tests/store/lifecycle/claim/test_clock_back.py -k places
# failed callbacks of before stop others for an hour
- and at <= now_ms + MOST_KEPT_MS
@ scheduler/store/lifecycle/callback/callbacks.inc.lua tests/store/lifecycle/callback/test_callback_life.py -k valkey
# callbacks of an account run without end
- each_thousand('ZADD', queue.calling, ends)
# a suspended account is called back
- redis.call('ZADD', prefix .. K.CALLBACK_HEADS, '-inf', account)
@ scheduler/store/lifecycle/callback/claim_callbacks.inc.lua tests/store/lifecycle/callback/test_callback_life.py -k valkey
# callbacks take the whole claim
~ [-math.floor(room / 10)-]{+room+}), {}
# a claim takes what another worker holds
- and not (calling[i] and tonumber(due[2 * i]) > asked_at)
# a full account is looked at again and again
~ if [-free < 1-]{+false+} then
@ scheduler/store/lifecycle/claim/claim.lua tests/store/lifecycle/callback/test_callback_life.py -k valkey
# a small claim serves callbacks only
~ [-room >= 10 or #names == 0-]{+true+}
# a worker looks again and again for the callbacks of an account that it passes over
~ if [-count_passed_over == 0 or is_ours(coming[i])-]{+true+} then
@ scheduler/store/lifecycle/callback/resend.lua tests/store/lifecycle/callback/test_callback_life.py -k valkey
# a pending callback is sent beside itself
~ elseif [-stored[3] and string.sub(stored[3], 1, 1) == 'p'-]{+false+} then
# a cancellation is reported
~ elseif [-string.byte(stored[2], 8) == S.CANCELLED-]{+false+} then
# what is sent again is forgotten meanwhile
- redis.call('PERSIST', each.key)
@ scheduler/store/lifecycle/callback/callbacks.inc.lua tests/store/lifecycle/callback/test_callback_machine.py
# a callback that was given back keeps its place until the lease ends
- each_thousand('ZREM', queue.calling, schedules)
-   each_thousand('ZADD', queue.pending, due)
+ each_thousand('ZADD', queue.pending, due)
@ scheduler/store/lifecycle/callback/resend.lua tests/store/lifecycle/callback/test_callback_life.py -k valkey
# a repeat is told that what it asks for is pending
- note_done(base, operation, nil, table.concat(came))
@ scheduler/store/lifecycle/end/end.lua tests/store/recurring/test_occurrences.py -k valkey
# a cancellation takes any occurrence of a rule for the one that waits
~ if [-string.sub(stands, 1, #schedule) == schedule and -]counted then
# a cancelled occurrence leaves its rule as it was
~ '[-n', stands, '-]v', version)
# a rule without an occurrence is looked after by nothing
- redis.call('ZADD', prefix .. K.RULES_DUE, now_ms, group.account .. ':' .. rule)
+ redis.call('ZCARD', prefix .. K.RULES_DUE)
# a writer that read the rule before the cancellation goes by what it has read
~ rule, [-whole(version)-]{+stored[2]+}
@ scheduler/store/lifecycle/create/on_existing.inc.lua tests/store/recurring/test_occurrences.py -k 'valkey and onto'
# what replaces an occurrence is none
~ [-with_recurring(request, one.recurring or '')-]{+request+}
@ scheduler/store/lifecycle/create/create.py tests/store/recurring/test_occurrences.py -k 'valkey and change'
# a changed occurrence is none
~ [-as_occurrence(changed(before), before.recurring)-]{+changed(before)+}
@ scheduler/store/lifecycle/create/replays.py tests/store/recurring/test_occurrences.py -k 'valkey and replay'
# a replay stands for the slot once more
~ [-Occurrence(request.recurring_id) if request.recurring_id else None-]{+request.recurring+}
@ scheduler/store/lifecycle/end/end_rows.py tests/store/queries/test_searches.py -k valkey
# an end is not found by its rule
~ url_places(named[-, rules-])
@ scheduler/store/log/logs.py tests/store/queries/test_searches.py -k valkey
# a rule finds the log of those that share its index
~ if [-self.recurring_id not in (None, one.recurring_id)-]{+False+}:
@ scheduler/store/queries/listing.py tests/store/queries/test_searches.py -k valkey
# a list of a rule and a reference has those of every rule
~ if [-self.recurring_id not in (None, request.recurring_id)-]{+False+}:
@ scheduler/store/recurring/advance.lua tests/store/recurring/test_recurring.py
# two workers make two occurrences for one slot
- elseif version ~= ARGV[i + 2] then
+ elseif false then
@ scheduler/store/lifecycle/row/put.inc.lua tests/store/recurring/test_recurring.py
# an occurrence that a rule makes costs nothing
~ account.left, account.weight = account.left[- - 1-], account.weight
@ scheduler/store/recurring/advance.lua tests/store/recurring/test_recurring.py
# a rule goes on without credits
~ elseif [-account.left < 1-]{+false+} then
@ scheduler/store/recurring/advance.lua tests/store/recurring/test_recurring.py tests/store/whole/test_half_writes.py -k 'valkey and (advance or recurring)'
# what stands under an occurrence's key is written over
~ [-redis.call('EXISTS', unpack(keys)) == 0-]{+true+}
@ scheduler/store/recurring/step.inc.lua tests/store/recurring/test_recurring_owner.py -k valkey
# a rule gets the name that another has
~ holder [-and holder ~= one.rule-]{+== ''+} then
# a new rule is answered for, and not stored
~ elseif [-one.operation ~= '' and was_done(one.base, one.operation)-]{+one.version == ''+} then
@ scheduler/store/recurring/step.inc.lua tests/store/test_preconditions.py -k lost_reply
# a change of a rule whose reply was lost is made again over another's
~ if [-one.operation ~= ''-]{+one.version == ''+} then
~     note_done(
@ scheduler/store/recurring/recurring.py tests/store/test_preconditions.py
# a rule is changed whatever its tag is
~ wanted.judge(etag_of(before), is_so=[-after is None-]{+True+})
# a rule is created whatever is wanted of the one of its name
- wanted.judge(None, is_there=False)
+ pass
# a deletion that is repeated finds a mismatch
~ wanted.judge(None, is_there=False, is_so=[-True-]{+False+})
# a trigger that is repeated is judged by the rule as it is then
~ if [-before is not None-]{+False+}:
~                 return before
@ scheduler/store/recurring/rules.py tests/store/test_preconditions.py
# a rule that is blocked has the tag of one that goes on
~ state = str(state_value(rule.state[-, rule.reason-])).encode()[--]{+[:0]+}
@ scheduler/store/preconditions.py tests/store/test_preconditions.py
# what is not there fits any tag, once there is nothing to do
~ is_repeat = is_so and self.match is not None[- and ANY not in self.match-]
# what is done already is refused to its repeat
~ is_repeat = [-is_so-]{+False+} and
# If-None-Match binds no write
~ if [-self.is_known(etag, is_there=is_there)-]{+False+}:
@ scheduler/store/lifecycle/create/change.lua tests/store/test_preconditions.py
# a change that is bound to a tag overlooks an attempt
~ if redis.sha1hex(stored[1]) ~= ARGV[3][- or attempt ~= ARGV[4]-] then
@ scheduler/store/lifecycle/create/create.py tests/store/test_preconditions.py
# a schedule is changed whatever its tag is
~ wanted.judge(found.etag, is_so=[-request == before-]{+True+})
# a change to what is there already makes another tag
~ if [-request != before-]{+True+}:
@ scheduler/store/lifecycle/end/cancel.py tests/store/test_preconditions.py
# a schedule is cancelled whatever its tag is
- wanted.judge(None if wanted == ALWAYS else each.etag)
@ scheduler/store/stored.py tests/store/test_preconditions.py
# an attempt leaves the tag of a schedule as it is
~ for each in fields[1:-[-1-]{+4+}]:
@ scheduler/store/recurring/step.inc.lua tests/store/recurring/test_recurring.py -k 'thousand or hour or minute'
# as many deletions are remembered as there were
- redis.call('LTRIM', deleted, 0, MOST_DELETED - 1)
# a deletion is remembered for ever
- redis.call('PEXPIRE', deleted, 3600000)
# a thousand deletions make the last one unknown
- note_done(base, rule)
@ scheduler/store/recurring/rules.py tests/store/recurring/test_stories.py -k early
# a slot that was fired early is fired again
~ return [-max(self.fired_ms, self.cancelled_ms)-]{+self.cancelled_ms+}
@ scheduler/store/recurring/chain.py tests/store/recurring/test_occurrence_request.py
# a damaged request of a rule goes out
~ [-unpack_fields(text)  # a damaged one makes no occurrence-]{+pass+}
# an occurrence's time is where a rule has something else
- if text[0] not in _SHORT_ARRAY or text[1] != 0:
+ if text[1] != 0:
@ scheduler/store/recurring/rules.py tests/api/test_traces.py
# a deploy under another trace changes a recurring schedule
- request = msgspec.structs.replace(template(draft.request, rule.recurring_id), trace=was.trace)
+ request = template(draft.request, rule.recurring_id)
@ scheduler/store/recurring/tending.py tests/store/recurring/test_stories.py -k outlives
# the slot of an occurrence that outlives a pause is made once more
- rule.note_fired()
-         return self._chain.let_go(rule)
+ return self._chain.let_go(rule)
@ scheduler/store/recurring/chain.py tests/store/recurring/test_rules_stop.py
# a pause drops the times that were missed before it
~ [-entry = -]await self.settled(rule, now_ms)
# a rule that goes on does not tell what it missed while it was blocked
~ first_entry or entry, [-self._told(rule) or -]entry
@ scheduler/store/recurring/chain.py tests/store/recurring/test_stories.py -k pause
# times of a pause are missed
- if was_paused:
-             rule.note_passed(now_ms)
+ if False:
+             rule.note_passed(now_ms)
# a rule that goes on is shown as paused
~ [-fields["h"] = ""-]{+pass+}
# a pause with an end has none
~ return Step.of(rule, {}, [-rule.resumes_at_ms-]{+None+})
@ scheduler/store/recurring/tending.py tests/store/recurring/test_stories.py -k pause
# a pause ends when a worker notices
~ return await self._filled(rule, [-rule.resumes_at_ms-]{+self._clock.now_ms()+})
# a pause never ends
~ if [-rule.is_to_resume(self._clock.now_ms())-]{+False+}:
@ scheduler/store/recurring/recurring.py tests/store/recurring/test_stories.py -k pause
# another pause does not end when it says
~ due_ms = now_ms if before.occurrence else [-after.resumes_at_ms-]{+before.resumes_at_ms+}
# a resume after the end of a pause is as of now
~ if [-not rule.is_to_resume(self._clock.now_ms())-]{+True+}:
@ scheduler/store/lifecycle/claim/realign_rules.lua tests/store/check/test_recurring_check.py -k nobody
# a pause that no worker would end stays
~ type(read) ~= 'table'[- or type(read.until_ms) == 'number'-]
@ scheduler/store/check/recurring.py tests/store/check/test_recurring_check.py -k nobody
# a pause that no worker would end is sound
~ rule.occurrence[- or rule.resumes_at_ms is not None-]:
@ scheduler/lane_settings.py tests/store/recurring/test_recurring_owner.py -k paused_first
# who changes a pause has begun it
~ return [-msgspec.structs.replace(self, by=before.by, since_ms=before.since_ms)-]{+self+}
@ scheduler/store/recurring/chain.py tests/store/recurring/test_recurring.py
# a blocked rule logs each time that it misses
~ is_first = missed.count > 0[- and rule.missed == 0-]
# a deleted rule stays
- if rule.state == DELETED:
-             return Step.of_removal(rule)
+ pass
"""

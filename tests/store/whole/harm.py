"""Harm done to keys of a store, and what a store looks like before and after."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from redis.asyncio import Redis

from scheduler.store import Store, keys
from scheduler.store.check.damage import kind_of
from tests.support.plain import redis_of

MANY = 10_000
HARMS = ("missing", "of a wrong type", "at 2^53", "at 2^63", "with 10,000 members")
_NUMBERS = {"at 2^53": 2**53, "at 2^63": 2**63}
_NUMBER = re.compile(rb"-?\d+")
_ROLLUP = re.compile(r"(.*:(?:minute|hour|day):)(\d+)")

# All that one key is, in a line: value, by the CRC64 that ends its DUMP, and expiry; its size, and
# the sum of its numbers.
_LOOK = """
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind, size, total = redis.call('TYPE', key).ok, 1, 0
  local command = ({hash = 'HLEN', zset = 'ZCARD', list = 'LLEN', stream = 'XLEN'})[kind]
  if command then
    size = redis.call(command, key)
  end
  if kind == 'hash' and size < 1000 then
    local fields = redis.call('HGETALL', key)
    for i = 1, #fields, 2 do
      -- An id may be a number to Lua, as 7e9999 is.
      local is_counted = fields[i] ~= 'settled' and string.find(fields[i + 1], '^-?%d+$')
      total = total + (is_counted and tonumber(fields[i + 1]) or 0)
      local is_rollup = string.find(key, ':minute:') or string.find(key, ':hour:')
        or string.find(key, ':day:')
      local sound, sums = pcall(cmsgpack.unpack, fields[i + 1])
      if is_rollup and not is_counted and sound then
        for _, sum in pairs(sums) do
          total = total + sum
        end
      end
    end
  end
  local hash = redis.call('DUMP', key):sub(-8) .. redis.call('PEXPIRETIME', key)
  found[#found + 1] = {key, hash, size, string.format('%.0f', total)}
end
return found
"""
_FILL = """
local key, kind, many = KEYS[1], ARGV[1], tonumber(ARGV[2])
local last = kind == 'zset' and redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2] or 1
local copy = kind == 'list' and redis.call('LINDEX', key, 0)
local entry = kind == 'stream' and (redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1] or {})[2]
local words_of = ({
  -- A rollup's field that is a number alone has more than a number.
  hash = function(i) return string.find(key, ':%l+:%d+$') and 'more' .. i or i, 1 end,
  zset = function(i) return last, 'member' .. i end,
  list = copy and function() return copy end,
})[kind]
local command = ({hash = 'HSET', zset = 'ZADD', list = 'RPUSH'})[kind]
for first = 1, words_of and many or 0, 1000 do
  local words = {}
  for i = first, first + 999 do
    local one, two = words_of(i)
    words[#words + 1] = one
    words[#words + 1] = two
  end
  redis.call(command, key, unpack(words))
end
for _ = 1, kind == 'stream' and many or 0 do
  redis.call('XADD', key, '*', unpack(entry or {'e', ''}))
end
return (words_of or kind == 'stream') and 1 or 0
"""


class Look(NamedTuple):
    """A key: its value and expiry as a hash, how many members it has, and what its numbers come
    to."""

    hash: bytes
    size: int
    total: int


async def look(store: Store) -> dict[str, Look]:
    """All keys of the store, but `backlog`, which comes and goes by itself."""
    found = await redis_of(store).eval(_LOOK, 0)
    looks = {name.decode(): Look(hash_, size, int(total)) for name, hash_, size, total in found}
    looks.pop(keys.shard(0) + keys.BACKLOG, None)
    return looks


class Backup(NamedTuple):
    """What a store had at a moment, to be had again: how its keys looked, and their dumps with the
    moments when they end."""

    store: Store
    looks: dict[str, Look]
    dumps: dict[str, tuple[bytes, int]]

    @classmethod
    async def of(cls, store: Store) -> Backup:
        looks = await look(store)
        async with redis_of(store).pipeline(transaction=False) as pipe:
            for name in looks:
                pipe.dump(name).pexpiretime(name)
            found = await pipe.execute()
        return cls(
            store, looks, dict(zip(looks, zip(found[::2], found[1::2], strict=True), strict=True))
        )

    async def restore(self, now: dict[str, Look]) -> None:
        """`now` is how the store looks."""
        async with redis_of(self.store).pipeline(transaction=False) as pipe:
            pipe.delete("none", *(now.keys() - self.looks.keys()))
            for name, (dump, until_ms) in self.dumps.items():
                if now.get(name) != self.looks[name]:
                    pipe.restore(name, max(until_ms, 0), dump, replace=True, absttl=True)
            await pipe.execute()


async def do_harm(client: Redis, name: str, harm: str) -> bool:
    """Harms a key, and where it is a rollup the next one as well; whether it could be."""
    kind = kind_of(name)
    assert kind is not None, name
    harmed = False
    for each in _with_next(name):
        match harm:
            case "missing":
                harmed |= bool(await client.delete(each))
            case "of a wrong type":
                await client.delete(each)
                await (client.rpush(each, 1) if kind == "string" else client.set(each, "1"))
                harmed = True
            case "with 10,000 members":
                harmed |= bool(await client.eval(_FILL, 1, each, kind, MANY))
            case _:
                harmed |= await _set_numbers(client, each, kind, _NUMBERS[harm])
    return harmed


def _with_next(name: str) -> list[str]:
    """A minute may be over before its rollup is written to."""
    rollup = _ROLLUP.fullmatch(name)
    return [name] if rollup is None else [name, f"{rollup[1]}{int(rollup[2]) + 1}"]


async def _set_numbers(client: Redis, name: str, kind: str, number: int) -> bool:
    match kind:
        case "hash":
            fields = await client.hgetall(name)
            numbers = [field for field, value in fields.items() if _NUMBER.fullmatch(value)]
            changes: dict[bytes, bytes] = dict.fromkeys(numbers, b"%d" % number)
            if _ROLLUP.fullmatch(name):
                packed = msgspec.msgpack.encode(dict.fromkeys("ctf", number))
                changes |= {b"%d" % bucket: packed for bucket in range(60)}
            if changes:
                await client.hset(name, mapping=changes)
            return bool(changes)
        case "zset":
            members = await client.zrange(name, 0, -1)
            if members:
                await client.zadd(name, dict.fromkeys(members, number))
            return bool(members)
        case "stream":
            await client.xadd(name, {"e": b"\x90"}, id=f"{number}-1")
        case "list":
            for place, entry in enumerate(await client.lrange(name, 0, -1)):
                await client.lset(name, place, _NUMBER.sub(b"%d" % number, entry))
        case _:
            await client.set(name, str(number))
    return True


async def commands(store: Store, act: object) -> list[list[str]]:
    """The words of all commands while `act` is carried out, scripts' among them."""
    end, found = "the end of an act", list[list[str]]()
    async with redis_of(store).monitor() as monitor:
        await act()  # type: ignore[operator]
        await redis_of(store).echo(end)
        while end not in (words := (await monitor.next_command())["command"]):
            found.append(words.split(" "))
    return found


async def touched(store: Store, act: object) -> set[str]:
    """The names of all keys that commands name meanwhile."""
    words = (word for each in await commands(store, act) for word in each)
    return {word for word in words if word.startswith(keys.shard(0)[:3])}


def differing(before: Mapping[str, Look], after: Mapping[str, Look]) -> set[str]:
    """The names of those keys that are not what they were."""
    names = before.keys() | after.keys()
    return {name for name in names if before.get(name) != after.get(name)}


def size_of(looks: Mapping[str, Look]) -> int:
    """How many keys those are, and how many members they have, together."""
    return sum(1 + each.size for each in looks.values())

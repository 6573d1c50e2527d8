"""The members of an account: each signs in with an e-mail address of their own and a password, of
which only the text of its argon2id hash comes here, and has a role. An address belongs to one
account: its key, in a slot of its own, leads to the account and the member."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduler import ids
from scheduler.callers import OPERATOR as OPERATOR
from scheduler.callers import Role as Role
from scheduler.errors import NotFound, Taken, TooMany, UnknownAccount
from scheduler.store import keys
from scheduler.store.server import Script, Server
from scheduler.texts import normal_email

if TYPE_CHECKING:
    from scheduler.store.accounts.sign_in.sessions import Opened, Sessions

INVITATION_TTL_MS = 3 * 24 * 3_600_000
# Members, and invitations that were not accepted yet, together.
MOST_MEMBERS = 50
# In the place of a member's address, in the history of an account.
OPERATORS_LINK = "operator's link"

_FREE = Script("accounts/free")
_INVITE = Script("accounts/sign_in/invite")
_MEMBER = Script("accounts/sign_in/member")
_LAST_OWNER, _IS_MEMBER, _TOO_MANY = -1, -1, -2


class Member(NamedTuple):
    """`until_ms`: how long the invitation is good; None for one who has accepted it."""

    member_id: str
    email: str
    role: Role
    since_ms: int | None = None
    until_ms: int | None = None
    has_password: bool = False


class Holder(NamedTuple):
    """Who signs in with an e-mail address; `password` is None until one has been set."""

    account_id: str
    member_id: str
    password: str | None


class Members:
    def __init__(self, server: Server, sessions: Sessions) -> None:
        self._server = server
        self._sessions = sessions

    async def find(self, email: str) -> Holder | None:
        """The member with this address, in any spelling; None if there is none."""
        try:
            address = normal_email(email)
        except ValueError:
            return None
        held = await self._server.read("GET", keys.EMAIL + address)
        if held is None:
            return None
        account_id, _, member_id = held.decode().partition(" ")
        base = keys.account(account_id)
        about, there = await self._server.reads(
            [
                ("HMGET", base + keys.MEMBER + member_id, "email", "until", "password"),
                ("EXISTS", base + keys.ACCOUNT),
            ]
        )
        stored, until, password = about
        # Reserved, but the account was never made, or the invitation not accepted.
        if not there or stored != address.encode() or until is not None:
            return None
        return Holder(account_id, member_id, password.decode() if password else None)

    async def password_of(self, account_id: str, member_id: str) -> str | None:
        key = keys.account(account_id) + keys.MEMBER + member_id
        password = await self._server.read("HGET", key, "password")
        return password.decode() if password else None

    async def all(self, account_id: str) -> list[Member]:
        """Members, the first first, and then invitations that can still be accepted."""
        base = keys.account(account_id)
        joined, invited = await self._server.reads(
            [("ZRANGE", base + name, 0, -1, "WITHSCORES") for name in (keys.MEMBERS, keys.INVITED)]
        )
        since = {name.decode(): int(ms) for name, ms in _pairs(joined)}
        found = [*since, *(name.decode() for name, _ in _pairs(invited))]
        wanted = ("email", "role", "until", "password")
        stored = await self._server.reads(
            [("HMGET", base + keys.MEMBER + each, *wanted) for each in found]
        )
        return [
            Member(
                each,
                email.decode(),
                Role(role.decode()),
                since.get(each),
                int(until) if until else None,
                password is not None,
            )
            for each, (email, role, until, password) in zip(found, stored, strict=True)
            if email is not None  # an invitation that has ended
        ]

    async def get(self, account_id: str, who: str) -> Member:
        """By id, or by e-mail address in any spelling. Raises NotFound."""
        try:
            address = normal_email(who)
        except ValueError:
            address = ""
        for each in await self.all(account_id):
            if who == each.member_id or address == each.email:
                return each
        raise NotFound("The account has no such member")

    async def invite(self, account_id: str, email: str, role: Role, by: str) -> str:
        """The secret of a link that makes a member of whoever sets a password with it: good once,
        and for three days. An earlier invitation to the address is void. It does not tell whether
        the address belongs to another account; `join` does. Raises ValueError for a bad address,
        Taken if it is a member's, TooMany, NotFound."""
        address = normal_email(email)
        shard, account = keys.parts(account_id)
        secret, member_id = ids.new_secret(shard), ids.new_member_id()
        what = (member_id, ids.hash_secret(secret), address, role, INVITATION_TTL_MS)
        code = await self._server.write_until_answered(
            _INVITE, keys.shard(shard), (account, *what, MOST_MEMBERS, by)
        )
        if code == _IS_MEMBER:
            raise Taken(f"{address} is a member already.")
        if code == _TOO_MANY:
            raise TooMany(
                f"An account has at most {MOST_MEMBERS} members and open invitations together."
            )
        if not code:
            raise UnknownAccount(account_id)
        return secret

    async def join(self, link: str, password: str) -> Opened | None:
        """Accepts an invitation with the hash of a password, and opens a session; None if the link
        is spent, too old, void or unknown. Raises Taken if another account has the address."""
        from scheduler.store.accounts.sign_in.sessions import Purpose

        linked = await self._sessions.leads_to(link)
        if linked is None or linked.purpose != Purpose.INVITE:
            return None
        ours, key = _held(linked.account_id, linked.member_id), keys.EMAIL + linked.email
        if await reserve_address(self._server, linked.email, ours) != ours:
            raise Taken("This address cannot be used here: ask for an invitation to another one.")
        opened = await self._sessions.redeem(link, Purpose.INVITE, password)
        # Somebody else may have accepted it at this very moment.
        if opened is None and await is_dead(self._server, ours):
            await free(self._server, key, ours)
        return opened

    async def set_role(
        self, account_id: str, who: str, role: Role, by: str, *, keeps_owner: bool = True
    ) -> Member:
        """It holds from the next request on. Raises NotFound; Taken for the last owner, if the
        account is to keep one. Safe to repeat."""
        member = await self.get(account_id, who)
        await self._change(account_id, member, role, by, keeps_owner=keeps_owner)
        return member._replace(role=role)

    async def remove(
        self, account_id: str, who: str, by: str, *, keeps_owner: bool = True
    ) -> Member:
        """Removes a member, whose sessions and links end at once, or an invitation. Raises
        NotFound; Taken for the last owner, if the account is to keep one."""
        member = await self.get(account_id, who)
        await self._change(account_id, member, "", by, keeps_owner=keeps_owner)
        # After a crash before this, the next one who needs the address frees it.
        await free(self._server, keys.EMAIL + member.email, _held(account_id, member.member_id))
        return member

    async def _change(
        self, account_id: str, member: Member, role: str, by: str, *, keeps_owner: bool
    ) -> None:
        shard, account = keys.parts(account_id)
        what = (account, member.member_id, role, int(keeps_owner), by)
        code = await self._server.write_until_answered(_MEMBER, keys.shard(shard), what)
        if code == _LAST_OWNER:
            raise Taken("An account with members keeps an owner: make another one first.")
        if not code:
            raise UnknownAccount(account_id)


async def reserve(server: Server, key: str, holder: str) -> str:
    """Reserves a name or e-mail address: its key, in a slot of its own, leads to the holder.
    Returns where it leads to: to this one, if it led nowhere. Safe to repeat."""
    while True:
        await server.call("SET", key, holder, "NX")
        found = await server.read("GET", key)
        if found is not None:  # else it was freed in between
            return str(found.decode())


async def reserve_address(server: Server, address: str, holder: str) -> str:
    """`reserve` of an e-mail address, also of one whose member was removed or never joined."""
    key = keys.EMAIL + address
    found = await reserve(server, key, holder)
    if found != holder and await is_dead(server, found):
        await free(server, key, found)
        found = await reserve(server, key, holder)
    return found


async def free(server: Server, key: str, holder: str) -> None:
    """Gives the key up, if it leads to this holder. Safe to repeat."""
    await server.write_until_answered(_FREE, key, [holder])


async def free_addresses(server: Server, account_id: str) -> None:
    """Of all members of an account that is being deleted; those that cannot be read stay, for the
    check to tell. Safe to repeat."""
    base = keys.account(account_id)
    lists = await server.reads(
        [("ZRANGE", base + name, 0, -1) for name in (keys.MEMBERS, keys.INVITED)], damaged=True
    )
    members = [each.decode() for some in lists if isinstance(some, list) for each in some]
    commands = [("HGET", base + keys.MEMBER + each, "email") for each in members]
    emails = await server.reads(commands, damaged=True)
    for member, email in zip(members, emails, strict=True):
        if isinstance(email, bytes):
            await free(server, keys.EMAIL + email.decode(), _held(account_id, member))


async def is_dead(server: Server, held: str) -> bool:
    """Whether an address is held by nobody: the account is there, and makes a member together with
    its own creation; an invitation is there before its address is reserved."""
    account_id, _, member_id = held.partition(" ")
    base = keys.account(account_id)
    account, member = await server.reads(
        [("EXISTS", base + keys.ACCOUNT), ("EXISTS", base + keys.MEMBER + member_id)]
    )
    return bool(account and not member)


def _held(account_id: str, member_id: str) -> str:
    return f"{account_id} {member_id}"


def _pairs(flat: list[bytes]) -> list[tuple[bytes, bytes]]:
    return list(zip(flat[::2], flat[1::2], strict=True))

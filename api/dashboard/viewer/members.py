"""Members of the account: owners invite them by a link, give them a role, remove them, and make a
link for a forgotten password. Everybody sees who is a member."""

from __future__ import annotations

from typing import Any

from litestar import get, post
from litestar.params import FromPath

from api.dashboard.answer import Raw
from api.dashboard.render import page
from api.dashboard.viewer.csrf import written
from api.dashboard.viewer.session import (
    ROOT,
    Viewer,
    base_url,
    redirect_saying,
    signed_in,
)
from api.service import HttpRequest, service_of
from scheduler.callers import Role
from scheduler.errors import NotFound, Taken, TooMany
from scheduler.store.accounts.sign_in.members import MOST_MEMBERS, Member

ADDRESS = f"{ROOT}/members"
MAY_DO = {
    Role.READ: "may look at everything but API keys and signing secrets",
    Role.ACT: "may look, schedule, change, cancel, replay and pause, and set lanes and recurring"
    " schedules",
    Role.OWN: "may do everything: keys, signing secrets, the callback, and members",
}


@get("/members")
async def members_page(request: HttpRequest) -> Raw:
    return await _show(request, await signed_in(request))


@post("/members", needs=Role.OWN)
async def invite(request: HttpRequest) -> Raw:
    """Only this answer shows the link."""
    viewer, form = await written(request)
    email, role = form.get("email", "").strip(), form.get("role", "")
    typed = {"email": email, "role": role}
    if role not in set(Role):
        return await _show(request, viewer, 400, fault="Role: choose what they may do.", **typed)
    members = service_of(request).store.members
    try:
        link = await members.invite(viewer.account_id, email, Role(role), viewer.who)
    except ValueError as error:
        return await _show(request, viewer, 400, fault=f"E-mail: {error}.", **typed)
    except (Taken, TooMany) as refusal:
        return await _show(request, viewer, 409, fault=str(refusal), **typed)
    return await _show(request, viewer, link=_url(request, link), for_whom=email, is_new=True)


@post("/members/{member_id:str}/role", needs=Role.OWN)
async def set_role(request: HttpRequest, member_id: FromPath[str]) -> Raw:
    """It holds from their next request on."""
    viewer, form = await written(request)
    role, members = form.get("role", ""), service_of(request).store.members
    if role not in set(Role):
        return await _show(request, viewer, 400, fault="Role: choose what they may do.")
    try:
        member = await members.set_role(viewer.account_id, member_id, Role(role), viewer.who)
    except Taken as refusal:
        return await _show(request, viewer, 409, fault=str(refusal))
    words = f"{member.email} {MAY_DO[member.role]}."
    return await redirect_saying(request, viewer, words, ADDRESS)


@get("/members/{member_id:str}/remove", needs=Role.OWN)
async def ask_to_remove(request: HttpRequest, member_id: FromPath[str]) -> Raw:
    viewer = await signed_in(request)
    member = await service_of(request).store.members.get(viewer.account_id, member_id)
    return page(request, "viewer/remove_member.html", member=member)


@post("/members/{member_id:str}/remove", needs=Role.OWN)
async def remove(request: HttpRequest, member_id: FromPath[str]) -> Raw:
    """Their browsers are signed out at once."""
    viewer, _ = await written(request)
    members = service_of(request).store.members
    try:
        member = await members.remove(viewer.account_id, member_id, viewer.who)
    except Taken as refusal:
        return await _show(request, viewer, 409, fault=str(refusal))
    words = f"{member.email} is no longer a member."
    if member.until_ms is not None:
        words = f"The invitation of {member.email} is void."
    return await redirect_saying(request, viewer, words, ADDRESS)


@post("/members/{member_id:str}/link", needs=Role.OWN)
async def make_link(request: HttpRequest, member_id: FromPath[str]) -> Raw:
    """For a forgotten password. Only this answer shows the link."""
    viewer, _ = await written(request)
    store = service_of(request).store
    member = await store.members.get(viewer.account_id, member_id)
    if member.until_ms is not None:
        raise NotFound("They have not joined yet: invite the address again.")
    link = await store.sessions.make_link(viewer.account_id, member.member_id, viewer.who)
    return await _show(request, viewer, link=_url(request, link), for_whom=member.email)


def _url(request: HttpRequest, link: str) -> str:
    return f"{base_url(request)}{ROOT}/link/{link}"


async def _show(request: HttpRequest, viewer: Viewer, status: int = 200, **shown: Any) -> Raw:
    members: list[Member] = await service_of(request).store.members.all(viewer.account_id)
    nothing = {
        "fault": None,
        "link": None,
        "for_whom": "",
        "is_new": False,
        "email": "",
        "role": "",
    }
    return page(
        request,
        "viewer/members.html",
        status=status,
        members=members,
        roles=MAY_DO,
        most=MOST_MEMBERS,
        now_ms=service_of(request).store.clock.now_ms(),
        **(nothing | shown),
    )


HANDLERS = [members_page, invite, set_role, ask_to_remove, remove, make_link]

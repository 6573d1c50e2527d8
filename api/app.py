"""The app: every route, and what holds for all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from litestar import HttpMethod, Litestar, route
from litestar.datastructures import State
from litestar.types import ASGIApp

from api.batch import create_schedules
from api.cancel import cancel_schedules
from api.dashboard.routes import dashboard_router
from api.direct import Direct
from api.errors import on_exception
from api.health import healthz, readyz
from api.hosts import Hosts
from api.methods import App, tell_methods
from api.openapi import document
from api.reference import browse_schema, get_asset, get_root, get_schema
from api.replay import replay_schedule, replay_schedules
from api.schedule import (
    cancel_schedule,
    change_schedule,
    create,
    create_schedule,
    get_schedule,
    list_schedules,
)
from api.service import Service
from api.signing import get_secrets, rotate_secret
from api.stats import get_credits, get_usage, list_logs
from scheduler.settings import Settings
from scheduler.store import Store
from scheduler.version import version

_ROUTES = [
    get_root,
    create_schedule,
    list_schedules,
    create_schedules,
    get_schedule,
    change_schedule,
    cancel_schedule,
    cancel_schedules,
    replay_schedule,
    replay_schedules,
    get_usage,
    list_logs,
    get_credits,
    get_secrets,
    rotate_secret,
    healthz,
    readyz,
    browse_schema,
    get_schema,
    get_asset,
]


def create_app(settings: Settings, store: Store | None = None) -> Litestar:
    """The API as an ASGI app. It opens the store itself unless one is given; a given one stays
    open when the app ends."""
    service = Service(settings, store)
    paths = sorted({path for handler in _ROUTES for path in handler.paths})
    app = App(
        [
            # The first one: each path that has none yet gets one of litestar's.
            route(paths, http_method=HttpMethod.OPTIONS)(tell_methods),
            *_ROUTES,
            dashboard_router(),
        ],
        tally=service.tally,
        hosts=Hosts(settings),
        direct=direct_of(service),
        state=State({"service": service}),
        lifespan=[_running],
        exception_handlers={Exception: on_exception},
        openapi_config=None,  # its own cannot know what handlers make of a raw body
        logging_config=None,  # whoever runs the process configures its log
    )
    app.state.document = document(app.routes, version())
    return app


def direct_of(service: Service) -> dict[tuple[str, str], ASGIApp]:
    """What is not led through litestar, by method and path."""
    return {("POST", "/schedule"): Direct(service, create)}


@asynccontextmanager
async def _running(app: Litestar) -> AsyncIterator[None]:
    service: Service = app.state.service
    async with service.running():
        yield

"""The API as an app, over as many stores as there are tests."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable

from litestar.datastructures import State

from api.app import App, Hosts, create_app
from api.service import Service
from scheduler.runtime.settings import Settings
from scheduler.store import Store

Make = Callable[[Settings], App]


def app_of(settings: Settings, store: Store, make: Make = create_app) -> App:
    """What `create_app`, or another maker, makes of them. The routes are the same for all and were
    registered once: that takes longer than most tests do. No lifespan: all that it does is to open
    a store."""
    return _serving(copy.copy(built(make)), settings, store)


def app_of_a_fork(settings: Settings, store: Store | None = None) -> App:
    """The same for a process that makes one in its life; its lifespan opens the store."""
    return _serving(built(), settings, store)


def _serving(app: App, settings: Settings, store: Store | None) -> App:
    service = Service(settings, store)
    app.state = State({"service": service, "document": app.state.document})
    app._service, app._hosts = service, Hosts(settings)
    return app


@functools.cache
def built(make: Make = create_app) -> App:
    """The one app of a maker whose routes all others have."""
    return make(Settings())

"""The API as an app, over as many stores as there are tests."""

from __future__ import annotations

import copy
import functools

from litestar.datastructures import State

from api.app import App, Hosts, create_app
from api.service import Service
from scheduler.runtime.settings import Settings
from scheduler.store import Store


def app_of(settings: Settings, store: Store) -> App:
    """What `create_app` makes of them. The routes are the same for all and were registered once:
    that takes longer than most tests do. No lifespan: all that it does is to open a store."""
    return _serving(copy.copy(built()), settings, store)


def app_of_a_fork(settings: Settings, store: Store | None = None) -> App:
    """The same for a process that makes one in its life; its lifespan opens the store."""
    return _serving(built(), settings, store)


def _serving(app: App, settings: Settings, store: Store | None) -> App:
    service = Service(settings, store)
    app.state = State({"service": service, "document": app.state.document})
    app._service, app._hosts = service, Hosts(settings)
    return app


@functools.cache
def built() -> App:
    """The one app whose routes all others have."""
    return create_app(Settings())

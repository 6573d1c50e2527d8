"""The OpenAPI document: what the handlers cannot say of themselves, and how it is put together."""

from api.openapi.document import document

__all__ = ["document"]

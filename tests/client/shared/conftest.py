"""The TypeScript client is built as for its own tests."""

from tests.client.typescript.conftest import package

__all__ = ["package"]

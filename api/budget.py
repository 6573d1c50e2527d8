"""Bytes that may be held at once."""

from __future__ import annotations


class Budget:
    """So many bytes, of which some are taken; what was taken has to be given back."""

    def __init__(self, size_bytes: int) -> None:
        self.left_bytes = size_bytes

    def take(self, wanted_bytes: int) -> bool:
        """All of them, or none and False."""
        if wanted_bytes > self.left_bytes:
            return False
        self.left_bytes -= wanted_bytes
        return True

    def give_back(self, taken_bytes: int) -> None:
        self.left_bytes += taken_bytes

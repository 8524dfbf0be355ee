"""The platform's two interfaces, the run export and the lesson slot, and what their calls may raise."""

from __future__ import annotations

from yume.clients.export import Export, open_export
from yume.clients.http import Limits, Refused, TooLarge
from yume.clients.slot import EMPTY_VERSION, Slot, SlotConflict, SlotText, Written, open_slot

__all__ = [
    "EMPTY_VERSION",
    "Export",
    "Limits",
    "Refused",
    "Slot",
    "SlotConflict",
    "SlotText",
    "TooLarge",
    "Written",
    "open_export",
    "open_slot",
]

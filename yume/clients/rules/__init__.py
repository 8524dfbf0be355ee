"""A model without a model: answers the three questions by fixed rules, offline, the same way each time."""

from yume.clients.rules.answering import Rules

__all__ = ["Rules"]

"""S3 by rules: the first rule of the table whose words occur, else nothing is claimed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from yume.clients.rules.table import CLASS_RULES, ClassRule
from yume.domain.taxonomy import UNCLASSIFIED


def labels(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Label each item with a class that the question offers."""
    offered = {each["code"] for each in body["classes"]}
    rules = [rule for rule in CLASS_RULES if rule.code in offered]
    return [_label(item, rules) for item in body["items"]]


def _label(item: Mapping[str, Any], rules: Iterable[ClassRule]) -> dict[str, Any]:
    for rule in rules:
        if any(_shows(rule, excerpt) for excerpt in item["excerpts"]):
            return {"item": item["item"], "code": rule.code, "confidence": rule.confidence}
    return {"item": item["item"], "code": UNCLASSIFIED, "confidence": 0.0}


def _shows(rule: ClassRule, excerpt: Mapping[str, Any]) -> bool:
    if rule.sources and excerpt["source"] not in rule.sources:
        return False
    return rule.pattern.search(excerpt["text"]) is not None

"""How marks are put on things of Google's: in labels and a description; and what names may be."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from provisioner.errors import InvalidRequest
from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.marks import Marks

_LABELLED = (marks.INSTALLATION, marks.PROVIDER, marks.LAUNCH)
_LONGEST = 2048


def marked(tags: Marks) -> dict[str, Any]:
    """Labels take few letters and are there to be looked for; the description says it all."""
    text = json.dumps(dict(sorted(tags.items())), separators=(",", ":"))
    if len(text) > _LONGEST:
        raise InvalidRequest(
            f"the tags are too long for Google Compute Engine: {len(text)} letters"
        )
    return {
        "labels": {name: label(tags[name]) for name in _LABELLED if name in tags},
        "description": text,
    }


def marks_in(body: Mapping[str, Any]) -> Marks:
    try:
        found = json.loads(body.get("description", ""))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def label(value: str) -> str:
    return re.sub(r"[^a-z0-9_-]", "-", value.lower())[:63]


def name_of(value: str) -> str:
    return re.sub(r"[^a-z0-9-]", "-", value.lower())[:63].rstrip("-")

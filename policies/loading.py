"""From the text of a policy to a `Policy` that knows its lines, or to everything wrong with it.

The text is composed to a node tree in which every scalar is a string, so that `19:00` is no
number and `NO` no boolean. Aliases, anchors and tags are refused: a policy needs none, and they
are how a small file becomes a large one. No file is opened here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from policies.checking import check_policies
from policies.language import Policy
from policies.problems import PolicyError, Problem, nearest_line
from policies.spelling import nearest

__all__ = ["check_policies", "load_policy"]

TEXT_LIMIT = 64 * 1024
DEPTH_LIMIT = 12


def load_policy(text: str, filename: str) -> Policy:
    """Read one policy; `filename` is what its reasons and problems will name.

    Raises PolicyError with every problem found.
    """
    root = _compose(text, filename)
    tree = _Tree(filename)
    data = tree.read(root, "")
    try:
        policy = Policy.model_validate(data)
    except ValidationError as wrong:
        found = [tree.problem(error) for error in wrong.errors()]
        raise PolicyError([*tree.problems, *found]) from None
    if tree.problems:
        raise PolicyError(tree.problems)
    return policy.placed(filename, tree.lines)


def _compose(text: str, filename: str) -> yaml.MappingNode:
    if len(text) > TEXT_LIMIT:
        message = f"the file has {len(text)} characters, more than {TEXT_LIMIT}"
        raise PolicyError([Problem(filename, 1, message, "split it into several policies")])
    try:
        refused = _refused_syntax(text, filename)
        if refused:
            raise PolicyError(refused)
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise PolicyError([_syntax_problem(error, text, filename)]) from None
    if not isinstance(root, yaml.MappingNode):
        line = root.start_mark.line + 1 if root else 1
        hint = "begin with policy: NAME and version: 1"
        raise PolicyError([Problem(filename, line, "this is no policy", hint)])
    return root


def _refused_syntax(text: str, filename: str) -> list[Problem]:
    """What YAML allows and a policy does not; found before any tree is built."""
    problems: list[Problem] = []
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.BaseLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        tag = getattr(event, "tag", None)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            problems.append(Problem(filename, line, "anchors and aliases are not allowed"))
        elif tag is not None:
            problems.append(Problem(filename, line, f"the tag {tag} is not allowed"))
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents == 2:
                hint = "one file is one policy"
                problems.append(Problem(filename, line, "a second document begins here", hint))
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH_LIMIT:
            problems.append(Problem(filename, line, f"nested deeper than {DEPTH_LIMIT} levels"))
            break
    return problems


def _syntax_problem(error: yaml.YAMLError, text: str, filename: str) -> Problem:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        return Problem(filename, line, f"this is no YAML: {error.problem or error.context}")
    position = getattr(error, "position", 0)
    line = text.count("\n", 0, position if isinstance(position, int) else 0) + 1
    return Problem(filename, line, "a character here cannot be part of YAML")


class _Tree:
    """Plain data read from YAML nodes, with the line of each part."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []

    def read(self, node: yaml.Node, path: str) -> Any:
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, f"{path}[{i}]") for i, item in enumerate(node.value)]
        return str(node.value)

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append(Problem(self.filename, line, "a key must be a single word"))
                continue
            inner = f"{path}.{key.value}" if path else key.value
            if key.value in data:
                message = f"{inner} is written twice, first in line {self.lines[inner]}"
                self.problems.append(Problem(self.filename, line, message, "keep one of them"))
                continue
            self.lines[inner] = line
            data[key.value] = self.read(value, inner)
        return data

    def problem(self, error: Any) -> Problem:
        """A pydantic error in a team lead's words, at its line."""
        loc = tuple(error["loc"])
        path = _path(loc)
        kind = error["type"]
        if kind == "extra_forbidden":
            around = _path(loc[:-1]) or "a policy"
            message, hint = f"unknown word {loc[-1]!r} in {around}", _known_words(loc)
        elif kind == "missing":
            message, hint = f"{path} is missing", ""
        elif kind in {"literal_error", "enum"}:
            message = f"{path}: {error['input']!r} is not known here"
            hint = f"write {error['ctx']['expected'].replace(chr(39), '')}"
        elif kind in {"model_type", "model_attributes_type"}:
            message, hint = f"{path} must be a section of key: value lines", ""
        else:
            cause = error.get("ctx", {}).get("error")
            message = f"{path}: {cause or error['msg']}"
            hint = getattr(cause, "hint", "")
        return Problem(self.filename, nearest_line(self.lines, path), message, hint)


def _path(loc: Sequence[str | int]) -> str:
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


def _known_words(loc: Sequence[str | int]) -> str:
    """The nearest word that would have been known at this place."""
    model: type[BaseModel] = Policy
    for part in loc[:-1]:
        for name, field in model.model_fields.items():
            if part in {name, field.alias}:
                model = _section_in(field.annotation) or model
    words = [field.alias or name for name, field in model.model_fields.items()]
    return nearest(str(loc[-1]), words) or "known are " + ", ".join(words)


def _section_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for a in get_args(annotation) if (found := _section_in(a))), None)

from __future__ import annotations

from typing import Any

import pytest

from trainer_agent.launch.spec import SpecError, TaskSpec

LEAST = {"id": "att_1", "job_id": "job_1", "attempt": 1, "argv": ["python", "train.py"]}


def test_what_is_written_is_read_again() -> None:
    spec = TaskSpec.from_wire(LEAST | {"env": {"A": "b"}, "later": 1, "nproc": 2})
    assert TaskSpec.from_wire(spec.to_wire()) == spec
    assert (spec.nodes, spec.nproc, spec.env) == (1, 2, {"A": "b"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "../x"},
        {"id": ".x"},
        {"id": ""},
        {"id": None},
        {"argv": []},
        {"argv": "python"},
        {"argv": ["a\0b"]},
        {"env": {"A=B": "c"}},
        {"env": {"A": 1}},
        {"nproc": 0},
        {"nproc": True},
        {"node": 1},
        {"grace_s": -1},
        {"grace_s": float("nan")},
        {"attempt": "1"},
        {"job_id": None},
    ],
)
def test_what_is_no_task_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        TaskSpec.from_wire(LEAST | wrong)

from __future__ import annotations

import pytest

from trainer_agent.launch.result import RankEnd, result


@pytest.mark.parametrize(
    ("statuses", "code", "signal"),
    [
        ([0, 0], 0, None),
        ([0, 75], 75, None),  # one left: the attempt goes on elsewhere
        ([75, 75], 75, None),
        ([75, 3], 3, None),
        ([3, -9], 3, None),  # the first that failed, not the one it took along
        ([-11, -9], None, 11),
    ],
)
def test_several_ends_make_one_result(
    statuses: list[int], code: int | None, signal: int | None
) -> None:
    end = result(
        [RankEnd(rank, status) for rank, status in enumerate(statuses)],
        drained=False,
        overdue=False,
    )
    assert (end.exit_code, end.signal) == (code, signal)
    assert [rank["rank"] for rank in end.ranks] == list(range(len(statuses)))
    assert bool(end.message) == (end.exit_code not in (0, 75))


def test_a_kill_is_explained() -> None:
    alone = [RankEnd(1, -9)]
    assert "out of memory" in str(result(alone, drained=False, overdue=False).message)
    assert "grace" in str(result(alone, drained=True, overdue=True).message)

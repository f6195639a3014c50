from __future__ import annotations

from pathlib import Path

from trainer_agent.launch.output import RankLines, TaskLog


def test_a_log_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    log = TaskLog(tmp_path / "log", limit=100, tail=40)
    for number in range(30):
        log.write(b"line %05d\n" % number)
    assert (tmp_path / "log").stat().st_size == 60  # the tail is held back until the end
    log.close()
    text = (tmp_path / "log").read_text()
    head, note, tail = text.partition("[roost: 230 bytes of output left out here]\n")
    assert head.startswith("line 00000\n")
    assert note
    assert tail.endswith("line 00029\n")
    assert len(tail) == 40


def test_a_log_under_its_limit_is_left_as_it_is(tmp_path: Path) -> None:
    log = TaskLog(tmp_path / "log", limit=100, tail=40)
    log.write(b"a" * 60)
    log.write(b"b" * 40)
    log.close()
    assert (tmp_path / "log").read_bytes() == b"a" * 60 + b"b" * 40


def test_ranks_are_told_apart_line_by_line(tmp_path: Path) -> None:
    log = TaskLog(tmp_path / "log")
    zero, one = RankLines(log, 0), RankLines(log, 1)
    zero.write(b"half ")
    one.write(b"whole\n")
    zero.write(b"line\nopen")
    zero.close()
    log.close()
    assert (tmp_path / "log").read_text() == "[rank 1] whole\n[rank 0] half line\n[rank 0] open\n"

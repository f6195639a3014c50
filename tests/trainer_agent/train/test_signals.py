"""The notice: a real SIGTERM to this process sets it, once."""

from __future__ import annotations

import math
import signal

from trainer_agent.train.signals import Notice


def test_sigterm_starts_the_grace_period_once() -> None:
    before = signal.getsignal(signal.SIGTERM)
    notice = Notice(60.0)
    try:
        notice.install()
        assert not notice.given
        assert notice.left_s() == math.inf
        signal.raise_signal(signal.SIGTERM)
        assert notice.given
        first = notice.left_s()
        assert 0 < first <= 60
        signal.raise_signal(signal.SIGTERM)
        assert notice.left_s() <= first
    finally:
        signal.signal(signal.SIGTERM, before)

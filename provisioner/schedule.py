"""Recurring work of the daemon, by APScheduler: it only pokes, the truth is in rows."""

from __future__ import annotations

from collections.abc import Callable

from apscheduler.schedulers.background import BackgroundScheduler


class Schedule:
    """Jobs declared in code, kept in memory, run by the lease holder."""

    def __init__(self) -> None:
        self._scheduler = BackgroundScheduler(
            timezone="UTC",
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )

    def every(self, seconds: float, work: Callable[[], None], name: str) -> None:
        self._scheduler.add_job(work, "interval", seconds=seconds, id=name, name=name)

    def start(self) -> None:
        self._scheduler.start()

    def stop(self) -> None:
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)

"""What should run on this machine against what does."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

from trainer_agent.launch.folder import TaskFolder
from trainer_agent.launch.spec import TaskSpec
from trainer_agent.supervise.task import Task
from trainer_agent.supervise.wire import TaskReport


class Tasks:
    """All tasks whose folders are on this machine; any thread may call."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.RLock()
        self._tasks: dict[str, Task] = {}
        self._leaving = False

    def adopt(self) -> None:
        """Take over what an earlier agent left behind, running or ended."""
        self._root.mkdir(parents=True, exist_ok=True)
        with self._lock:
            for path in sorted(self._root.iterdir()):
                folder = TaskFolder(path)
                spec = folder.spec()
                if spec is None or spec.id != path.name:
                    shutil.rmtree(path, ignore_errors=True)  # its asking was cut off: asked again
                    continue
                self._tasks[spec.id] = task = Task(folder, spec)
                task.start()
                task.refresh()

    def follow(self, wanted: Sequence[TaskSpec], *, draining: bool) -> bool:
        """Start what is wanted and unknown, stop what is no longer wanted; True on a change."""
        ids = {spec.id for spec in wanted}
        with self._lock:
            changed = False
            for task in self._tasks.values():
                task.listed = task.spec.id in ids
                if not task.listed:
                    task.stop(drain=False, grace_s=task.spec.grace_s)
            for spec in wanted:
                if spec.id not in self._tasks and not (draining or self._leaving):
                    self._tasks[spec.id] = self._start(spec)
                    changed = True
            return changed

    def drain(self, grace_s: float | None, *, for_good: bool) -> None:
        """Order all to leave, within `grace_s` or each within its own grace.

        `for_good`: the machine itself goes, so that nothing new is started either, whatever the
        control plane says before it has heard of that.
        """
        with self._lock:
            self._leaving = self._leaving or for_good
            for task in self._tasks.values():
                task.stop(drain=True, grace_s=task.spec.grace_s if grace_s is None else grace_s)

    def refresh(self) -> bool:
        """Look at all of them; True when the state of one changed."""
        with self._lock:
            changed = [task.refresh() for task in self._tasks.values()]
            return any(changed)

    def reports(self) -> list[TaskReport]:
        with self._lock:
            return [task.report() for task in self._tasks.values()]

    def all(self) -> list[Task]:
        with self._lock:
            return list(self._tasks.values())

    def ended(self) -> bool:
        with self._lock:
            return all(task.state == "exited" for task in self._tasks.values())

    def forget(self, task: Task) -> None:
        """Delete what is left of a task that nobody asks about any more."""
        with self._lock:
            if not task.listed and self._tasks.pop(task.spec.id, None) is not None:
                task.remove()

    def _start(self, spec: TaskSpec) -> Task:
        folder = TaskFolder(self._root / spec.id)
        folder.ask(spec)
        task = Task(folder, spec)
        task.start()
        return task

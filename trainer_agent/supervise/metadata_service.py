"""The cloud's metadata service as a source of notices: which one it is, and how it is asked.

Asked by a thread of its own: it may hang or be away, and the agent looks for notices every 0.2 s.
"""

from __future__ import annotations

import http.client
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trainer_agent.supervise.notices import Notice

ADDRESS = "169.254.169.254"
_REPLY_LIMIT_BYTES = 1 << 20
_PAUSE_LIMIT_S = 15.0
_DMI = Path("/sys/class/dmi/id")
_AZURE_ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"

_log = logging.getLogger(__name__)


class MetadataError(Exception):
    """The service did not answer, or not as it should."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    text: str
    headers: Mapping[str, str]


class MetadataService(Protocol):
    """One cloud's."""

    @property
    def pause_s(self) -> float:
        """How long to wait between two looks."""
        ...

    def look(self) -> Sequence[Notice]:
        """What it says now. Raises `MetadataError`."""
        ...


class Watched:
    """A source of notices that asks a service in a thread and always answers at once."""

    def __init__(self, service: MetadataService) -> None:
        self._service = service
        self._notices: Sequence[Notice] = ()
        self._stopping = threading.Event()
        self._trouble = ""

    def start(self) -> None:
        threading.Thread(target=self._watch, name="metadata", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def read(self) -> Sequence[Notice]:
        return self._notices

    def _watch(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                self._notices = self._service.look()
                failures, pause_s = 0, self._service.pause_s
            except MetadataError as error:
                pause_s = min(self._service.pause_s * 2.0 ** min(failures, 30), _PAUSE_LIMIT_S)
                failures += 1
                self._complain(str(error))
            self._stopping.wait(pause_s)

    def _complain(self, trouble: str) -> None:
        """Once for each kind of trouble: a machine that is no cloud's would fill its log else."""
        if trouble != self._trouble:
            self._trouble = trouble
            _log.warning("the metadata service does not answer: %s", trouble)


def ask(
    address: str,
    path: str,
    headers: Mapping[str, str],
    *,
    method: str = "GET",
    timeout_s: float = 2.0,
) -> Reply:
    """One request to `address` (host or host:port), past all proxies. Raises `MetadataError`."""
    connection = http.client.HTTPConnection(address, timeout=timeout_s)
    try:
        connection.request(method, path, headers=dict(headers))
        reply = connection.getresponse()
        content = reply.read(_REPLY_LIMIT_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise MetadataError(f"{path}: {type(error).__name__}: {error}") from None
    finally:
        connection.close()
    found = {name.lower(): value for name, value in reply.getheaders()}
    return Reply(reply.status, content.decode(errors="replace").strip(), found)


def detected(dmi: Path = _DMI) -> str | None:
    """The cloud that this machine is of, by what its firmware says: `aws`, `gce` or `azure`."""
    if _dmi(dmi, "sys_vendor") == "Amazon EC2" or "amazon" in _dmi(dmi, "bios_version"):
        return "aws"
    if _dmi(dmi, "product_name") == "Google Compute Engine":
        return "gce"
    if _dmi(dmi, "chassis_asset_tag") == _AZURE_ASSET_TAG:
        return "azure"
    return None


def _dmi(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text().strip()
    except OSError:
        return ""

"""The user data of a machine: a shell script that fetches the agent and keeps it running.

It runs at each boot, as whatever user the provider runs user data as. It needs a POSIX shell and
Python 3.11, no package and no root beyond a writable state folder.
"""

from __future__ import annotations

from shlex import quote


def user_data(
    *,
    url: str,
    instance_id: str,
    bootstrap_token: str,
    wheel_sha256: str,
    wheel_filename: str,
) -> str:
    """The script. The token appears in it once and is never an argument or part of a URL.

    `url` is the control plane's as the machine reaches it. A first boot downloads the wheel of
    `wheel_sha256`, for as long as the control plane is away; later boots find it unpacked.
    """
    values = {
        "@URL@": quote(url.rstrip("/")),
        "@INSTANCE@": quote(instance_id),
        "@TOKEN@": quote(bootstrap_token),
        "@SHA256@": quote(wheel_sha256),
        "@FILENAME@": quote(wheel_filename),
    }
    lines = [_fill(line, values) for line in _SCRIPT.splitlines()]
    return "\n".join(lines) + "\n"


def _fill(line: str, values: dict[str, str]) -> str:
    """Put a value into a line of the script; a line holds one at most, so none is filled twice."""
    for name, value in values.items():
        if name in line:
            return line.replace(name, value)
    return line


_SCRIPT = r"""#!/bin/sh
# Starts Roost's agent on this machine. Runs at every boot.
set -eu
umask 077

state="${ROOST_STATE_DIR:-/var/lib/roost}"
python="${ROOST_PYTHON:-python3}"
sha256=@SHA256@
filename=@FILENAME@
agent="$state/agent/$sha256"
mkdir -p "$state/agent"

export ROOST_URL=@URL@
export ROOST_INSTANCE_ID=@INSTANCE@
export ROOST_STATE_DIR="$state"
export ROOST_HOME="${ROOST_HOME:-$state/home}"
export ROOST_BOOTSTRAP_TOKEN_FILE="$state/bootstrap-token"
mkdir -p "$ROOST_HOME"

# printf is part of the shell: the token is in no process's arguments.
printf '%s\n' @TOKEN@ > "$ROOST_BOOTSTRAP_TOKEN_FILE.new"
mv "$ROOST_BOOTSTRAP_TOKEN_FILE.new" "$ROOST_BOOTSTRAP_TOKEN_FILE"
rm -f "$state/boot.json"

"$python" - "$ROOST_URL/v1/agent/wheel" "$sha256" "$filename" "$agent" <<'ROOST_FETCH'
import hashlib, io, os, shutil, sys, time, urllib.request, zipfile

url, sha256, filename, target = sys.argv[1:]
if sys.version_info < (3, 11):
    sys.exit("roost: the agent needs Python 3.11 or newer, this is %d.%d; name one in ROOST_PYTHON"
             % sys.version_info[:2])
pause = 0.5
while not os.path.isdir(target):
    try:
        with urllib.request.urlopen(url, timeout=30) as reply:
            wheel = reply.read(64 << 20)
        found = hashlib.sha256(wheel).hexdigest()
        if found != sha256:
            raise ValueError("its sha256 is %s, not %s" % (found, sha256))
        draft = "%s.%d" % (target, os.getpid())
        zipfile.ZipFile(io.BytesIO(wheel)).extractall(draft)
        os.sync()
        os.rename(draft, target)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        shutil.rmtree("%s.%d" % (target, os.getpid()), ignore_errors=True)
        print("roost: %s of %s not fetched, trying again: %s" % (filename, url, error),
              file=sys.stderr, flush=True)
        time.sleep(pause)
        pause = min(pause * 2, 30.0)
ROOST_FETCH

export PYTHONPATH="$agent${PYTHONPATH:+:$PYTHONPATH}"
# An agent that dies (killed for memory, by a full disk) is started again: what it has begun goes
# on without it, and it picks that up.
child= leaving=
trap 'leaving=yes; kill "$child" 2>/dev/null || :' TERM INT
while test -z "$leaving"; do
    "$python" -m trainer_agent.supervise &
    child=$! code=0
    test -z "$leaving" || kill "$child" 2>/dev/null || :
    wait "$child" || code=$?
    while kill -0 "$child" 2>/dev/null; do code=0; wait "$child" || code=$?; done
    case "$code" in 0|75|78) exit "$code" ;; esac
    test -n "$leaving" || { echo "roost: the agent ended with $code, starting it again"; sleep 1; }
done
"""

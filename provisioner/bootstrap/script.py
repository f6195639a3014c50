"""The text of the boot script; `@NAME@` is filled in by `user_data`, one a line at most."""

SCRIPT = r"""#!/bin/sh
# Starts Roost's agent. A provider that runs this at each boot names ROOST_STATE_DIR; where that is
# missing and systemd runs the machine (cloud-init runs this once) it makes itself a service first.
set -eu
umask 077

token=@TOKEN@
url=@URL@
instance=@INSTANCE@
sha256=@SHA256@
filename=@FILENAME@
ca=@CA@
home_disk=@HOME_DISK@
python=@PYTHON@
packages=@PACKAGES@
index=@INDEX@

state="${ROOST_STATE_DIR:-/var/lib/roost}"
python="${ROOST_PYTHON:-$python}"
mkdir -p "$state/agent"

put() { # a file that is there whole or not at all; cat keeps its content out of all arguments
    cat > "$1.new"
    mv "$1.new" "$1"
}

if test -n "$token"; then
    # printf is part of the shell: the token is in no process's arguments.
    printf '%s\n' "$token" | put "$state/bootstrap-token"
fi

if test -z "${ROOST_STATE_DIR:-}" && test -d /run/systemd/system && test "$(id -u)" = 0; then
    chmod 0700 "$state"  # an image may have brought it
    sed 's/^token=.*/token=/' "$0" | put "$state/boot"
    printf 'ROOST_STATE_DIR=%s\n' "$state" | put "$state/environment"
    umask 022
    put /etc/systemd/system/roost-agent.service <<'ROOST_UNIT'
[Unit]
Description=Roost's agent
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
EnvironmentFile=/var/lib/roost/environment
Environment=ROOST_BOOT_MARK=/run/roost/booted
ExecStart=/bin/sh /var/lib/roost/boot
Restart=on-failure
RestartSec=2
RestartPreventExitStatus=78
# Tasks outlive their agent: it is stopped alone, and lets them leave when the machine goes.
KillMode=process
TimeoutStopSec=150
OOMPolicy=continue
TasksMax=infinity
Delegate=yes
# Lives as long as a boot does.
RuntimeDirectory=roost
RuntimeDirectoryPreserve=yes

[Install]
WantedBy=multi-user.target
ROOST_UNIT
    systemctl daemon-reload
    systemctl enable roost-agent.service
    exec systemctl restart --no-block roost-agent.service
fi

export ROOST_URL="$url"
export ROOST_INSTANCE_ID="$instance"
export ROOST_STATE_DIR="$state"
export ROOST_BOOTSTRAP_TOKEN_FILE="$state/bootstrap-token"
if test -n "$ca"; then
    export ROOST_CA_FILE="$state/ca.pem"
    printf '%s\n' "$ca" | put "$ROOST_CA_FILE"
fi
test -n "${ROOST_HOME:-}" || export ROOST_HOME_DISK="$home_disk"
export ROOST_HOME="${ROOST_HOME:-$state/home}"
mkdir -p "$ROOST_HOME"

# systemd starts this again within one boot; others run it once a boot.
mark="${ROOST_BOOT_MARK:-}"
if test -z "$mark" || ! test -e "$mark"; then
    rm -f "$state/boot.json" "$state/boot-parts"
    test -z "$mark" || : > "$mark"
fi

agent="$state/agent/$sha256"
"$python" - "$url/v1/agent/wheel" "$sha256" "$filename" "$agent" "$state/boot-parts" <<'ROOST_FETCH'
import glob, hashlib, http.client, io, os, shutil, ssl, sys, time, urllib.request, zipfile

url, sha256, filename, target, parts = sys.argv[1:]
if sys.version_info < (3, 11):
    sys.exit("roost: the agent needs Python 3.11 or newer, this is %d.%d; name one in ROOST_PYTHON"
             % sys.version_info[:2])
parent, began, pause = os.getppid(), time.monotonic(), 0.5
draft = "%s.%d" % (target, os.getpid())
handlers = []
if url.startswith("https:") and os.environ.get("ROOST_CA_FILE"):
    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which trusts nobody yet
    trusted.load_verify_locations(os.environ["ROOST_CA_FILE"])
    handlers.append(urllib.request.HTTPSHandler(context=trusted))
web = urllib.request.build_opener(*handlers)
while not os.path.isdir(target):
    for half in glob.glob(glob.escape(target) + ".*"):
        shutil.rmtree(half, ignore_errors=True)
    try:
        with web.open(url, timeout=30) as reply:
            wheel = reply.read(64 << 20)
        found = hashlib.sha256(wheel).hexdigest()
        if found != sha256:
            raise ValueError("its sha256 is %s, not %s" % (found, sha256))
        zipfile.ZipFile(io.BytesIO(wheel)).extractall(draft)
        os.sync()
        os.rename(draft, target)
    except (OSError, ValueError, zipfile.BadZipFile, http.client.HTTPException) as error:
        if os.getppid() != parent:
            sys.exit("roost: nobody waits for %s any more" % filename)
        print("roost: %s of %s not fetched, trying again: %s" % (filename, url, error),
              file=sys.stderr, flush=True)
        time.sleep(pause)
        pause = min(pause * 2, 30.0)
with open(parts, "a") as file:
    file.write("fetch %.3f\n" % (time.monotonic() - began))
ROOST_FETCH

export PYTHONPATH="$agent${PYTHONPATH:+:$PYTHONPATH}"
if test -n "${ROOST_HOME_DISK:-}$packages"; then
    export ROOST_PACKAGES="$packages" ROOST_PACKAGE_INDEX="$index"
    python="$("$python" -m trainer_agent.supervise.prepare)"
fi
test -z "$mark" || exec "$python" -m trainer_agent.supervise

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

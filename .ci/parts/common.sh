# shellcheck shell=bash disable=SC2034
# Sourced by the scripts beside it: where the cache is, how to take turns, how
# to start a server and stop it.
# ASSAY_CACHE overrides the cache directory (default: .cache at the root).

ROOT=${ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
PARTS=$ROOT/.ci/parts
CACHE=${ASSAY_CACHE:-$ROOT/.cache}
mkdir -p "$CACHE"
CACHE=$(cd "$CACHE" && pwd)

say() { printf '%s\n' "$*" >&2; }

die() {
  say "error: $*"
  exit 1
}

# turn NAME: hold the cache's lock of that name until this shell ends, so that
# two runs on one machine build a part once.
turn() {
  exec {turn_fd}>"$CACHE/$1.lock"
  flock "$turn_fd"
}

# lists: fetch Debian's package lists, unless that was done in the last two
# hours. The stamp lies among the lists, so that it goes when they go.
lists() {
  local stamp=/var/lib/apt/lists/assay-updated
  if [ -z "$(find "$stamp" -mmin -120 2>/dev/null)" ]; then
    apt-get update -qq >&2 || die "apt-get update failed"
    touch "$stamp"
  fi
}

# packages NAME...: install the Debian packages that are missing. The package
# lists are fetched only if something is.
packages() {
  local missing=() p
  for p in "$@"; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" = 0 ] || die "needs the Debian packages ${missing[*]}: install them, or run as root"
  (
    exec {fd}>"$CACHE/apt.lock"
    flock "$fd"
    export DEBIAN_FRONTEND=noninteractive
    lists
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 {fd}>&- ||
      die "apt-get install ${missing[*]} failed"
  )
}

# python_of_lists: ends with a reason unless python3 is the one that the parts'
# lists of requirements were made for: a hash is of one file, and other Pythons
# get other files.
python_of_lists() {
  local is
  is=$(python3 -c 'import platform, sys; print("%d.%d" % sys.version_info[:2], platform.machine())')
  [ "$is" = "3.11 x86_64" ] ||
    die "the hashes of Python's packages are those for Python 3.11 on x86_64, and this is $is: .ci/parts/pin.py makes others"
}

# listed NAME LIST: the version that a list of requirements has.
listed() { sed -n "s/^$1==\([^ ]*\) .*/\1/p" "$PARTS/$2"; }

# environment DIR LIST: a virtual environment in DIR with exactly the packages
# of LIST, each checked against its hash.
environment() {
  packages python3-venv
  python_of_lists
  rm -rf "$1"
  python3 -m venv "$1"
  "$1/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes -r "$PARTS/$2" >&2
}

# free_port: a port that was free a moment ago.
free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# free_ports N: ports below those that the system gives to outgoing connections,
# for servers that are started again: one of those might be taken while its server
# is down, and a client that tries a dead one for long enough is one day connected
# to itself.
free_ports() {
  python3 - "$1" <<'PY'
import random, socket, sys
low = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
held = []
while len(held) < int(sys.argv[1]):
    s = socket.socket()
    try:
        s.bind(("127.0.0.1", random.randrange(12000, max(low, 13000))))
        held.append(s)
    except OSError:
        s.close()
print(*(s.getsockname()[1] for s in held))
PY
}

# unprivileged COMMAND...: run a command as nobody when we are root, whom some
# servers refuse. It replaces the shell, so that the process keeps its id.
unprivileged() {
  [ "$(id -u)" != 0 ] || set -- setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"
  exec "$@"
}
export -f unprivileged

# place DIR NAME: a directory for what unprivileged runs, since DIR may lie below
# one that only root can enter. It prints the path and keeps it in DIR/place.
place() {
  local made
  made=$(mktemp -d "/tmp/assay-$2.XXXXXX")
  echo "$made" >"$1/place"
  [ "$(id -u)" != 0 ] || chown nobody:nogroup "$made"
  echo "$made"
}

# leave DIR: remove what place made.
leave() {
  [ -f "$1/place" ] || return 0
  rm -rf "$(cat "$1/place")" "$1/place"
}

# launch DIR COMMAND...: start a server in a process group of its own, its
# output in DIR/log, its group in DIR/pid.
launch() {
  local dir=$1
  shift
  halt "$dir"
  setsid nohup "$@" >"$dir/log" 2>&1 </dev/null &
  echo $! >"$dir/pid"
}

# await DIR URL SECONDS: wait until URL answers 200; fail with the end of the
# log when the server dies or the time is up.
await() {
  local dir=$1 url=$2 end=$((SECONDS + $3)) pid
  pid=$(cat "$dir/pid")
  until curl -fsS -o /dev/null --max-time 2 "$url" 2>/dev/null; do
    if ! kill -0 "$pid" 2>/dev/null; then
      tail -n 20 "$dir/log" >&2
      rm -f "$dir/pid"
      die "the server ended before it answered"
    fi
    if [ "$SECONDS" -ge "$end" ]; then
      tail -n 20 "$dir/log" >&2
      halt "$dir"
      die "no answer from $url within $3 s"
    fi
    sleep 0.1
  done
}

# halt DIR: stop the group that launch started there: politely, then at once.
# The group is killed even when its first process is gone: a killed engine may
# leave its runners behind.
halt() {
  local dir=$1 pid
  [ -f "$dir/pid" ] || return 0
  pid=$(cat "$dir/pid")
  rm -f "$dir/pid"
  kill -TERM -- "-$pid" 2>/dev/null || return 0
  for _ in $(seq 50); do
    kill -0 -- "-$pid" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -KILL -- "-$pid" 2>/dev/null || true
}

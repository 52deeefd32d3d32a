# Installs the packages of /mnt/old, runs their services, installs those of /mnt/new
# over them, removes and purges them, and looks for what is left. boot runs it.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
server=http://127.0.0.1:8700 agent=http://127.0.0.1:9470

die() {
  echo "FAILED: $*"
  for unit in assay-server assay-agent; do
    systemctl status --no-pager --lines=0 $unit || true
    journalctl --no-pager --lines=20 --unit=$unit || true
  done
  exit 1
}
trap 'die "line $LINENO: $BASH_COMMAND"' ERR

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || die "not in time: $*"
    sleep 0.1
  done
}

pid_of() { systemctl show --property=MainPID --value "$1"; }

# confined UNIT USER: it runs as that user, and without any privilege.
confined() {
  local pid
  pid=$(pid_of "$1")
  [ "$(stat -c %U "/proc/$pid")" = "$2" ] || die "$1 runs as $(stat -c %U "/proc/$pid")"
  grep -qx 'CapEff:[[:space:]]*0*' "/proc/$pid/status" || die "$1 has capabilities"
  grep -qx 'NoNewPrivs:[[:space:]]*1' "/proc/$pid/status" || die "$1 may gain privileges"
  grep -qx 'Seccomp:[[:space:]]*2' "/proc/$pid/status" || die "$1 may call anything"
  # It sees a system that it cannot write to.
  ! touch "/proc/$pid/root/usr/written" 2>/dev/null || die "$1 can write to /usr"
}

node() { runuser -u assay -- assay node "$@" --server $server --token-file /var/lib/assay/admin.token; }
checks_done() { curl -fsS $agent/metrics | grep -q '^assay_agent_checks_total{outcome="done"} [1-9]'; }

echo "== install"
dpkg --install /mnt/old/*.deb
[ "$(systemctl is-enabled assay-server)" = disabled ] || die "the server starts before it was set up"
id assay >/dev/null
id assay-agent >/dev/null

echo "== set up"
runuser -u assay -- assay server init --database sqlite:/var/lib/assay/assay.db --admin-token-file /var/lib/assay/admin.token
systemctl enable --now assay-server
wait_for 20 curl -fsS $server/readyz
runuser -u assay -- assay server token create --owner home --out /var/lib/assay/enrol-token --server $server --token-file /var/lib/assay/admin.token
install -m 0600 /var/lib/assay/enrol-token /etc/assay/enrol-token
systemd-run --quiet --unit=engine --uid=nobody assay simulate --listen 127.0.0.1:8000 --itl 10ms --ttft 20ms
cat >/etc/assay/agent.yaml <<END
server: {url: "$server", spread: 1s}
engine: {base_url: "http://127.0.0.1:8000"}
profile: chat
scenario: short
workload_profiles: [{name: chat, context_length: 64, expected_tokens: 8}]
test_scenarios: [{name: short, pattern: parallel, duration: 13s, levels: [4]}]
END
cp /etc/assay/agent.yaml /run/agent.yaml
systemctl enable --now assay-agent
confined assay-server assay
confined assay-agent assay-agent
node list --wait-for 1 --timeout 30s
before=$(node list -q)
wait_for 120 checks_done
echo "the agent made a check within its confines"

echo "== upgrade"
old_server=$(pid_of assay-server) old_agent=$(pid_of assay-agent)
dpkg --install /mnt/new/*.deb
wait_for 20 curl -fsS $server/readyz
wait_for 20 curl -fsS $agent/healthz
[ "$(pid_of assay-server)" != "$old_server" ] || die "the server runs on with the old program"
[ "$(pid_of assay-agent)" != "$old_agent" ] || die "the agent runs on with the old program"
confined assay-server assay
confined assay-agent assay-agent
cmp /etc/assay/agent.yaml /run/agent.yaml
[ "$(node list -q)" = "$before" ] || die "another node after the upgrade"
dpkg --verify assay assay-node | grep -v ' c /etc/assay/agent.yaml$' && die "files are not as they were packed" || true

echo "== remove"
dpkg --remove assay assay-node
! pgrep --uid assay,assay-agent || die "processes go on"
[ ! -e /usr/bin/assay ] && [ ! -e /usr/bin/assay-node ] || die "programs stay"
[ -s /etc/assay/agent.yaml ] && [ -s /var/lib/assay/assay.db ] && [ -d /var/lib/assay-agent/keys ] || die "settings, keys or data are gone"

echo "== purge"
dpkg --purge assay assay-node
systemctl stop engine

echo "== what is left"
# Of all that was written, what is not as it was, but for dpkg's own notes, logs and
# the second to last versions of the files with users.
cd /run/after
find . -mindepth 1 -printf '%y %P\n' | while read -r kind path; do
  case $path in
  var/lib/dpkg/info/assay*) ;;
  var/lib/dpkg/* | var/log/dpkg.log | var/log/journal/* | etc/passwd- | etc/group- | etc/shadow- | etc/gshadow- | etc/subuid- | etc/subgid- | etc/.pwd.lock) continue ;;
  esac
  case $kind in
  d) [ -d "/run/before/$path" ] || echo "directory $path" ;;
  c) echo "gone $path" ;;
  *) cmp -s "$path" "/run/before/$path" || echo "file $path" ;;
  esac
done >/run/left
cat /run/left
[ ! -s /run/left ] || die "the packages leave something behind"
! dpkg-query --show assay assay-node 2>/dev/null || die "dpkg still knows them"
echo "nothing"

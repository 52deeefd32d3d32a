#!/bin/sh
# A cloud in fifty lines of shell: the protocol assay/provider/v1, one verb a run
# (docs/providers.md). This one "rents" by writing files into $TOYCLOUD; a real one
# calls its cloud's tool in the same places. It needs jq.
set -eu
verb=$1 # also in the request, which comes on standard input
request=$(cat)
field() { printf '%s' "$request" | jq -er "$1"; }
fail() { # KIND TEXT: no_capacity, key, rate, money, gone; anything else says nothing
  jq -n --arg kind "$1" --arg text "$2" '{error: {$kind, $text}}'
  exit 0
}
cloud=${TOYCLOUD:?is the directory of the cloud}
[ ! -e "$cloud/key-revoked" ] || fail key "the key was revoked"
id() { # the id of the request, which is to be a plain name: it becomes one of a file
  id=$(field .id)
  case $id in *[!a-z0-9-]*) fail other "no such id" ;; esac
  file=$cloud/$id.json
}

case $verb in
describe) # optional verbs, and what is known: what is not said here is 0 or nothing
  echo '{"verbs": ["get", "balance"], "user": "root", "list_lag_s": 2,
    "min_interval_s": {"create": 0.01}, "dead_man": {"ends": "nothing"}}'
  ;;
offers) # prices are for the disk that is asked for
  field '.query.disk_gb' | jq '{offers: [range(1; 4) | {id: "ask-\(.)", machine: "host-\(.)",
    location: "toyland", gpu: "RTX 4090", gpus: 1, vram_gb: 24, reliability: 0.99,
    usd_hour: (0.30 + . * 0.01), usd_stopped_hour: 0.01, usd_down_gb: 0.003}]}'
  ;;
create) # the label comes back in every list, unchanged
  [ ! -e "$cloud/no-capacity" ] || { rm "$cloud/no-capacity" && fail no_capacity "none is free"; }
  id=toy-$(date +%s%N)
  field .order | jq --arg id "$id" '{$id, label: .label, state: "running", said: "up", gpu: "RTX 4090",
    gpus: 1, host: "192.0.2.10", port: 22, usd_hour: 0.31}' >"$cloud/$id.tmp"
  mv "$cloud/$id.tmp" "$cloud/$id.json" # whole, or not there
  [ ! -e "$cloud/create-lost" ] || { rm "$cloud/create-lost" && exit 1; }
  jq '{instance: .}' "$cloud/$id.json"
  ;;
list) # all of them, or an error: jq fails on a file that it cannot read
  set -- "$cloud"/*.json
  [ -e "$1" ] || set -- /dev/null
  jq -s '{instances: .}' "$@"
  ;;
get) # null says that it is gone; no file and no error would say nothing
  id
  if [ -e "$file" ]; then jq '{instance: .}' "$file"; else echo '{"instance": null}'; fi
  ;;
destroy) # what is gone already is no error
  id
  rm -f "$file"
  echo '{"destroyed": true}'
  ;;
balance) echo '{"balance_usd": 25}' ;;
*) fail unsupported "no verb $verb" ;;
esac

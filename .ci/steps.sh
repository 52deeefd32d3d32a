# shellcheck shell=bash disable=SC2154
# Sourced by run: steps, how long each took, and what they came to.
# A step counts as one check, unless it left counts of its own (the Go tests,
# the fuzz targets) in $work/counts: then those count in its place.

step_names=() step_results=() step_times=() step_cpu=() step_reasons=()
passed=0 failed=0 skipped=0
started=${EPOCHREALTIME/./}
complete='' # set when the last step is done
running='' began=0
begun=() # what runs beside the steps

# count PASSED FAILED SKIPPED: add to the counts of the step that is running.
count() {
  local p=0 f=0 s=0
  [ ! -f "$work/counts" ] || read -r p f s <"$work/counts"
  echo "$((p + $1)) $((f + $2)) $((s + $3))" >"$work/counts"
}

# wanted NAME: whether that step is among those to run.
wanted() {
  case " ${ASSAY_STEPS:-$1} " in
  *" $1 "*) return 0 ;;
  esac
  return 1
}

# begin NAME FUNCTION: run it beside the steps, in a process group of its own;
# what it prints waits for finished.
begin() {
  set -m
  (
    set +e
    (
      set -euo pipefail
      "$2"
    ) >"$work/$1.log" 2>&1
    echo $? >"$work/$1.rc"
  ) &
  begun+=($!)
  set +m
}

# finished NAME: wait for what was begun, print its output, return its result.
finished() {
  until [ -f "$work/$1.rc" ]; do sleep 0.5; done
  cat "$work/$1.log"
  return "$(cat "$work/$1.rc")"
}

# spent: seconds of processor time of what this shell has waited for. A step that
# takes much longer than its share of the cores waits for something.
spent() {
  awk -F'[ms ]+' 'NR == 2 { printf "%d", 60 * $1 + $2 + 60 * $3 + $4 }'
}

# step NAME FUNCTION [ARG...]: run it in a shell of its own, where the first
# error ends it, and go on whatever it came to.
step() {
  local name=$1 rc p=0 f=0 s=0 result reason= cpu
  shift
  wanted "${name%% *}" || return 0
  rm -f "$work/counts" "$why"
  running=$name
  began=${EPOCHREALTIME/./}
  times >"$work/times" # not in a subshell, which has times of its own
  cpu=$(spent <"$work/times")
  printf '\n== %s\n' "$name"
  set +e
  (
    set -euo pipefail
    "$@"
  )
  rc=$?
  set -e
  running=
  if [ -f "$work/counts" ]; then
    read -r p f s <"$work/counts"
  fi
  case $rc in
  0)
    result=passed
    [ $((p + f + s)) -gt 0 ] || p=1
    ;;
  "$SKIP")
    result=skipped
    reason=$(cat "$why" 2>/dev/null || echo "no reason given")
    s=$((s + 1))
    echo "skipped: $reason"
    ;;
  *)
    result=failed
    [ "$f" -gt 0 ] || f=1 # a step that failed never counts as nothing
    ;;
  esac
  # A step cannot pass with failures in it, whatever its exit code was.
  [ "$f" = 0 ] || result=failed
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  step_names+=("$name") step_results+=("$result") step_reasons+=("$reason")
  step_times+=("$((${EPOCHREALTIME/./} - began))")
  times >"$work/times"
  step_cpu+=("$(($(spent <"$work/times") - cpu))")
}

seconds() { printf '%d.%d' "$(($1 / 1000000))" "$(($1 % 1000000 / 100000))"; }

# finish: the table and the counts, at every end.
finish() {
  local rc=$? i
  trap - EXIT
  set +e
  for i in "${begun[@]}"; do kill -- "-$i" 2>/dev/null; done
  stop_engines
  if [ -z "$complete" ]; then
    failed=$((failed + 1))
    [ -n "$running" ] || began=${EPOCHREALTIME/./}
    step_names+=("${running:-between steps}") step_results+=("interrupted") step_reasons+=("")
    step_times+=("$((${EPOCHREALTIME/./} - began))") step_cpu+=("")
  fi
  printf '\n%-28s %-11s %9s %9s\n' step result seconds "of a core"
  for i in "${!step_names[@]}"; do
    printf '%-28s %-11s %9s %9s  %s\n' "${step_names[i]}" "${step_results[i]}" \
      "$(seconds "${step_times[i]}")" "${step_cpu[i]}" "${step_reasons[i]}"
  done
  printf '%-28s %-11s %9s\n\n' all "$mode" "$(seconds "$((${EPOCHREALTIME/./} - started))")"
  rm -rf "$work"
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" = 0 ] || [ "$rc" != 0 ] || rc=1
  exit "$rc"
}

# shellcheck shell=bash disable=SC2154
# Sourced by run: steps, how long each took, and what they came to.
# A step counts as one check, unless it left counts of its own (the Go tests,
# the fuzz targets) in $counts: then those count in its place.
#
# What belongs to a step lies in $work/steps/NAME: its counts, the reason why it
# was skipped, its result, its times and, for one that ran beside others, what it
# printed. So steps can run beside each other.

step_names=() step_results=() step_times=() step_cpu=() step_reasons=()
passed=0 failed=0 skipped=0
started=${EPOCHREALTIME/./}
complete='' # set when the last step is done
running=''  # the step that is running here
declare -A begun=() # process groups of what runs beside, by name

# count PASSED FAILED SKIPPED: add to the counts of the step that is running.
count() {
  local p=0 f=0 s=0
  [ ! -f "$counts" ] || read -r p f s <"$counts"
  echo "$((p + $1)) $((f + $2)) $((s + $3))" >"$counts"
}

# wanted NAME: whether that step is among those to run.
wanted() {
  case " ${ASSAY_STEPS:-$1} " in
  *" $1 "*) return 0 ;;
  esac
  return 1
}

# attempt NAME FUNCTION: run it in a shell of its own, where the first error ends
# it, and leave what it came to in its directory. The result is written last, and
# by renaming: who finds it finds all.
attempt() {
  local dir=$work/steps/$1
  mkdir -p "$dir"
  echo "${EPOCHREALTIME/./}" >"$dir/began"
  (
    set +e
    (
      set -euo pipefail
      counts=$dir/counts why=$dir/why
      "$2"
    )
    echo $? >"$dir/rc.new"
    times >"$dir/times" # of this shell, which has waited for nothing else
    echo "${EPOCHREALTIME/./}" >"$dir/ended"
    mv "$dir/rc.new" "$dir/rc"
  )
}

# begin NAME FUNCTION: run it beside the steps, in a process group of its own; what
# it prints waits for finished or join.
begin() {
  mkdir -p "$work/steps/$1"
  set -m
  attempt "$1" "$2" >"$work/steps/$1/log" 2>&1 </dev/null &
  begun[$1]=$!
  set +m
}

# finished NAME: wait for what was begun, print its output, return its result.
finished() {
  local dir=$work/steps/$1
  until [ -f "$dir/rc" ]; do
    # It may have come between the two looks.
    kill -0 -- "-${begun[$1]}" 2>/dev/null || [ -f "$dir/rc" ] || {
      cat "$dir/log"
      echo "$1 died without a result"
      return 1
    }
    sleep 0.5
  done
  cat "$dir/log"
  return "$(cat "$dir/rc")"
}

# spent FILE: seconds of processor time by what times has left there. Servers that
# outlive who started them are not in it. A step that takes much longer than its
# share of the cores waits for something.
spent() {
  awk -F'[ms ]+' 'NR == 2 { printf "%d", 60 * $1 + $2 + 60 * $3 + $4 }' "$1"
}

# step NAME FUNCTION: run it, and go on whatever it came to.
step() {
  wanted "$1" || return 0
  running=$1
  printf '\n== %s\n' "$1"
  local others
  others=$(beside)
  attempt "$1" "$2"
  running=
  record "$1" "$(cat "$work/steps/$1/rc" 2>/dev/null || echo 1)" "$others"
}

# beside: what runs beside the steps just now, as a remark for the table.
beside() {
  local name names=
  for name in "${!begun[@]}"; do
    [ -f "$work/steps/$name/rc" ] || names+=" $name"
  done
  echo "${names:+beside$names}"
}

# aside NAME FUNCTION: begin a step that join awaits, prints and counts. Nothing
# may be timed between the two.
aside() {
  ! wanted "$1" || begin "$@"
}

# join NAME: wait for a step that was begun.
join() {
  local rc=0
  wanted "$1" || return 0
  running=$1
  printf '\n== %s\n' "$1"
  finished "$1" || rc=$?
  unset "begun[$1]"
  running=
  record "$1" "$rc" "beside others"
}

# record NAME RESULT REMARK: what a step came to, into the table.
record() {
  local name=$1 rc=$2 dir=$work/steps/$1 p=0 f=0 s=0 result reason=$3
  if [ -f "$dir/counts" ]; then
    read -r p f s <"$dir/counts"
  fi
  case $rc in
  0)
    result=passed
    [ $((p + f + s)) -gt 0 ] || p=1
    ;;
  "$SKIP")
    result=skipped
    reason=$(cat "$dir/why" 2>/dev/null || echo "no reason given")
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
  row "$name" "$result" "$reason"
}

# row NAME RESULT REASON: a line of the table, with the times that are known.
row() {
  local dir=$work/steps/$1 from to=${EPOCHREALTIME/./} cpu=
  from=$(cat "$dir/began" 2>/dev/null || echo "$to")
  if [ -f "$dir/rc" ]; then
    to=$(cat "$dir/ended")
    cpu=$(spent "$dir/times")
  fi
  step_names+=("$1") step_results+=("$2") step_reasons+=("$3")
  step_times+=("$((to - from))") step_cpu+=("$cpu")
}

seconds() { printf '%d.%d' "$(($1 / 1000000))" "$(($1 % 1000000 / 100000))"; }

# interrupted: what has begun and not ended failed.
interrupted() {
  local name
  [ -z "$running" ] || unset "begun[$running]"
  for name in "${!begun[@]}" "${running:-between steps}"; do
    [ ! -f "$work/steps/$name/rc" ] || continue
    failed=$((failed + 1))
    row "$name" interrupted ""
  done
}

# left: processes that this run has started, by their environment, which has the
# run's directory.
left() { grep -lsxz "ASSAY_RUN=$work" /proc/[0-9]*/environ | cut -d / -f 3; }

# stop_all: whatever runs, also servers in sessions of their own: politely, then
# at once.
stop_all() {
  local name signal
  export -n ASSAY_RUN # what looks for them is none of them
  for name in "${!begun[@]}"; do kill -- "-${begun[$name]}" 2>/dev/null; done
  stop_engines
  for signal in TERM TERM TERM KILL; do
    left | xargs -r kill -s "$signal" 2>/dev/null
    [ -n "$(left)" ] || return 0
    sleep 1
  done
}

# finish: the table and the counts, at every end.
finish() {
  local rc=$? i
  trap - EXIT
  set +e
  stop_all
  if [ -z "$complete" ]; then interrupted; fi
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

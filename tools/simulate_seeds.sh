#!/usr/bin/env bash
# Lives many simulated lives of the scheduler (tests/sim), on all processors.
#
#   tools/simulate_seeds.sh [SEEDS] [FIRST]     default: 10,000 seeds from 0
#
# Needs a build (cmake --preset release && ninja -C build/release octavo_sim_test). A seed that breaks
# a rule is printed with the shortest list of commands that still breaks it; OCTAVO_SIM_SEED=N runs
# that seed alone. Exit status 0 when none did.
set -euo pipefail
if [ "${1:-}" = "--help" ] || [ "${1:-}" = "-h" ]; then
  sed -n '2,9s/^# \{0,1\}//p' "$0"
  exit 0
fi
seeds=${1:-10000}
first=${2:-0}
case "$seeds$first" in
  *[!0-9]*) echo "SEEDS and FIRST are whole numbers; got '$seeds' and '$first'" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
program=${OCTAVO_SIM_TEST:-$root/build/release/tests/octavo_sim_test}
[ -x "$program" ] || { echo "$program is missing: build octavo_sim_test first" >&2; exit 2; }

# One process a chunk, so that progress shows and a failure stops the rest soon.
chunk=2000
run_chunk() {
  local from=$1 count=$2 log
  log=$(mktemp)
  if OCTAVO_SIM_FIRST=$from OCTAVO_SIM_SEEDS=$count "$program" \
      --gtest_filter='*EveryScheduleGivesTheTokensOfDirectEvaluation*' >"$log" 2>&1; then
    echo "seeds $from to $((from + count - 1)): ok"
    rm -f "$log"
  else
    echo "seeds $from to $((from + count - 1)): FAILED"
    grep -v '^\[' "$log" || true
    rm -f "$log"
    return 255  # xargs stops
  fi
}
export -f run_chunk
export program
end=$((first + seeds))
for ((from = first; from < end; from += chunk)); do
  echo "$from $((end - from < chunk ? end - from : chunk))"
done | xargs -P "$(nproc)" -L 1 bash -c 'run_chunk "$0" "$1"'
echo "$seeds seeds from $first: all rules held"

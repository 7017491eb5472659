#!/usr/bin/env bash
# One run on a machine with a card: the kernels' tests, compute-sanitizer, then the benchmark.
#
#   tools/device_bench.sh --out DIR [--bin DIR] [--lib DIR] [--device N] [--only GROUPS]
#                         [--no-sanitizer] [--emulated]
#
#   --out DIR        where the table and the JSON go, with the logs of the checks; made if missing
#   --bin DIR        where octavo_cuda_bench and octavo_cuda_device_test are; default: the first of
#                    build/{cuda-release,cuda,release}/bin that has them, else they are built there
#                    with nvcc (preset cuda-release). Binaries from elsewhere run as they are
#   --lib DIR        where shared libraries are that this machine lacks (libcublasLt.so.13,
#                    libabsl_*.so): put in front of LD_LIBRARY_PATH
#   --device N       which card; default 0
#   --only GROUPS    of the benchmark, comma-separated (octavo_cuda_bench --help)
#   --no-sanitizer   leave compute-sanitizer out, which takes minutes
#   --emulated       the same at small sizes on the emulated device: proves that the script and the
#                    programs work, and says nothing about speed
#
# Writes DIR/device_bench.txt (one table), DIR/device_bench.json (the same numbers) and DIR/*.log.
# Exit status 0 when all checks passed, 1 when one failed (what could be measured was), 2 for usage.
set -u
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
OUT= BIN= LIB= DEVICE=0 ONLY= SANITIZER=yes EMULATED=no

usage() {
  sed -n '2,/^set -u/{/^set -u/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
}
fail_usage() {
  echo "device_bench.sh: $1" >&2
  exit 2
}

while [ $# -gt 0 ]; do
  case $1 in
    --out | --bin | --lib | --device | --only)
      [ $# -ge 2 ] || fail_usage "$1 needs a value"
      case $1 in
        --out) OUT=$2 ;;
        --bin) BIN=$2 ;;
        --lib) LIB=$2 ;;
        --device) DEVICE=$2 ;;
        --only) ONLY=$2 ;;
      esac
      shift 2
      ;;
    --no-sanitizer) SANITIZER=no; shift ;;
    --emulated) EMULATED=yes; shift ;;
    --help | -h) usage; exit 0 ;;
    *) fail_usage "unknown argument $1; --help lists them" ;;
  esac
done
[ -n "$OUT" ] || fail_usage "--out is required"
mkdir -p "$OUT" || exit 2
OUT=$(cd "$OUT" && pwd)
[ -z "$LIB" ] || export LD_LIBRARY_PATH="$LIB${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

BENCH=octavo_cuda_bench
[ $EMULATED = no ] || BENCH=octavo_cuda_bench_emulated
find_or_build() {
  local preset
  for preset in cuda-release cuda release; do
    BIN=$ROOT/build/$preset/bin
    [ ! -x "$BIN/$BENCH" ] || return 0
  done
  command -v nvcc > /dev/null || fail_usage "no $BENCH under build/, and no nvcc to build it; give --bin"
  (cd "$ROOT" && cmake --preset cuda-release &&
    ninja -C build/cuda-release octavo_cuda_bench octavo_cuda_device_test) > "$OUT/build.log" 2>&1 ||
    fail_usage "the build failed; $OUT/build.log says why"
  BIN=$ROOT/build/cuda-release/bin
}
[ -n "$BIN" ] || find_or_build
[ -x "$BIN/$BENCH" ] || fail_usage "$BIN has no $BENCH"

STATUS=0
NOTES=()
# check NAME COMMAND...: runs it into DIR/NAME.log and notes how it ended.
check() {
  local name=$1 ended
  shift
  echo "$name: $*" > "$OUT/$name.log"
  "$@" >> "$OUT/$name.log" 2>&1
  ended=$?
  if [ $ended = 0 ]; then
    NOTES+=("$name=passed")
  else
    NOTES+=("$name=FAILED with status $ended, see $name.log")
    STATUS=1
  fi
  echo "${NOTES[-1]}"
}

NOTES+=("date=$(date -u +%Y-%m-%dT%H:%M:%SZ)")
if [ $EMULATED = yes ]; then
  # The whole of these tests is ctest's; here one of each kind shows that they start.
  TESTS=$BIN/../tests
  for name in emulated_attention_test emulated_rows_test emulated_sampling_test cuda_host_test; do
    [ -x "$TESTS/${name}_fast" ] || continue
    check "$name" "$TESTS/${name}_fast" --gtest_brief=1 \
      --gtest_filter='PagedDecode.MatchesTheReferenceAtALongContext:RmsNorm.*:Sampling.Refuses*:Gemm.*'
  done
  NOTES+=("sanitizer=none: the asan and race builds of the tests stand for it")
else
  if command -v nvidia-smi > /dev/null; then
    nvidia-smi -q -i "$DEVICE" > "$OUT/nvidia_smi.log" 2>&1
    NOTES+=("card=$(nvidia-smi -i "$DEVICE" --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem,power.limit \
      --format=csv,noheader 2> /dev/null)")
  fi
  if [ -x "$BIN/octavo_cuda_device_test" ]; then
    CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-$DEVICE} check tests "$BIN/octavo_cuda_device_test" --gtest_brief=1
  else
    NOTES+=("tests=not there: $BIN has no octavo_cuda_device_test")
  fi
  if [ $SANITIZER = yes ] && command -v compute-sanitizer > /dev/null; then
    for tool in memcheck racecheck synccheck; do
      check "$tool" compute-sanitizer --tool "$tool" --error-exitcode 9 "$BIN/$BENCH" --sizes small --device "$DEVICE"
    done
  else
    NOTES+=("sanitizer=not run")
  fi
fi

ARGUMENTS=(--device "$DEVICE" --json "$OUT/device_bench.json")
[ -z "$ONLY" ] || ARGUMENTS+=(--only "$ONLY")
for note in "${NOTES[@]}"; do ARGUMENTS+=(--note "$note"); done
"$BIN/$BENCH" "${ARGUMENTS[@]}" 2>&1 | tee "$OUT/device_bench.txt"
[ "${PIPESTATUS[0]}" = 0 ] || STATUS=1
echo "table: $OUT/device_bench.txt   JSON: $OUT/device_bench.json"
exit $STATUS

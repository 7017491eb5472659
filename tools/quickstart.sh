#!/usr/bin/env bash
# From a bare Debian 12 machine to an answer: installs packages, builds, fetches the model, starts one
# scheduler and one worker on free loopback ports, streams an answer, and ends both.
#
#   tools/quickstart.sh ["prompt"]     answer one prompt
#   tools/quickstart.sh --serve        leave the service running
#   tools/quickstart.sh --stop         end a service that --serve left
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh

run=build/quickstart
model=build/models/SmolLM2-135M-Instruct.Q4_1.gguf
bin=build/release/bin
serve=false
prompt="What is the capital of France?"

usage() { sed -n '2,7s/^# \{0,1\}//p' "$0"; }

# end NAME: SIGTERM drains; SIGKILL only for what does not end within 20 s.
end() {
  local pid_file="$run/$1.pid" pid tries=0
  [ -f "$pid_file" ] || return 0
  pid=$(cat "$pid_file")
  rm -f "$pid_file"
  kill -TERM "$pid" 2>/dev/null || return 0
  while kill -0 "$pid" 2>/dev/null; do
    tries=$((tries + 1))
    [ "$tries" -lt 200 ] || { kill -KILL "$pid" 2>/dev/null || true; return 1; }
    sleep 0.1
  done
}

end_both() { end scheduler && end worker; }

while [ $# -gt 0 ]; do
  case "$1" in
    --serve) serve=true ;;
    --stop) end_both; say "stopped"; exit 0 ;;
    -h | --help) usage; exit 0 ;;
    --) shift; prompt="${1:?a prompt is missing}"; break ;;
    -*) usage >&2; fail "unknown option $1" ;;
    *) prompt="$1" ;;
  esac
  shift
done

[ -x "$bin/octavo" ] || need_space 3
install_packages tools/packages.txt
build_release octavo octavo-scheduler octavo-worker
tools/fetch_model.sh

mkdir -p "$run"
if [ -f "$run/scheduler.pid" ] && kill -0 "$(cat "$run/scheduler.pid")" 2>/dev/null; then
  fail "a service of an earlier --serve is still running (pid $(cat "$run/scheduler.pid"))" \
    "Talk to it, or end it with: tools/quickstart.sh --stop"
fi
rm -f "$run"/*.port "$run"/*.pid

# start NAME COMMAND...: in a session of its own, so that Ctrl-C reaches only this script.
start() {
  local name="$1"
  shift
  setsid "$@" >"$run/$name.log" 2>&1 </dev/null &
  echo $! >"$run/$name.pid"
}

# port_of NAME KEY: waits for the port file that the program writes once it listens.
port_of() {
  local tries=0
  while [ ! -s "$run/$1.port" ]; do
    kill -0 "$(cat "$run/$1.pid")" 2>/dev/null ||
      fail "octavo-$1 ended at start" "$(tail -n 3 "$run/$1.log")" "Log: $run/$1.log"
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || fail "octavo-$1 did not listen within 30 s" "Log: $run/$1.log"
    sleep 0.1
  done
  sed -n "s/^$2=//p" "$run/$1.port"
}

trap 'end_both || true' EXIT
trap 'exit 130' INT TERM

# float32: exact arithmetic on the stored weights, so that the first answer anyone sees is the
# reference's. The default for this model, int8, is faster and rounds activations.
start worker "$bin/octavo-worker" --model "$model" --dtype float32 --listen 127.0.0.1:0 --port-file "$run/worker.port"
worker=$(port_of worker grpc)
start scheduler "$bin/octavo-scheduler" --model "$model" --workers "$worker" \
  --port 0 --metrics-port 0 --port-file "$run/scheduler.port"
target=$(port_of scheduler grpc)
metrics=$(port_of scheduler metrics)
say "worker $worker, scheduler $target, metrics $metrics"

if ! "$bin/octavo" status --target "$target" --wait 120 >"$run/status.txt"; then
  fail "the service did not get ready" "$(tail -n 3 "$run/scheduler.log")" \
    "Logs: $run/scheduler.log $run/worker.log"
fi
cat "$run/status.txt" >&2

say ""
say "> $prompt"
"$bin/octavo" generate --target "$target" --chat --temperature 0 --max-tokens 128 "$prompt"

if $serve; then
  trap - EXIT INT TERM
  cat >&2 <<TEXT

The service runs on. Try:
  $bin/octavo generate --target $target --chat "Tell me a story about a lighthouse."
  $bin/octavo status   --target $target --watch
  $bin/octavo bench    --target $target --streams 32
  curl http://$metrics/metrics
  tools/quickstart.sh --stop
TEXT
  exit 0
fi

trap - EXIT
end_both || fail "a process had to be killed" "Logs: $run/scheduler.log $run/worker.log"

#!/usr/bin/env bash
# Tries an unpacked bundle on this machine: builds the plugin for its PyTorch,
# serves a device, measures it against PyTorch, trains the digits, embeds the
# sentences. Every step runs, whatever became of the others.
#
#   ./try_machine.sh [--runtime opencl] [--out DIR] [--seconds 180] [--python P]
#                    [--skip-plugin]
#
# Leaves under --out (default ./tvarant-try) the logs, bench.txt and bench.json.
# Exit status 1 if a step failed.
set -uo pipefail

here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
bundle="$(realpath "$here/../..")" # deploy/ stands in src/ of a bundle
runtime=opencl
out=tvarant-try
seconds=180
plugin=yes
export PYTHON="${PYTHON:-python3}"
while [[ $# -gt 0 ]]; do
  case "$1" in
    --runtime) runtime="$2" && shift ;;
    --out) out="$2" && shift ;;
    --seconds) seconds="$2" && shift ;;
    --python) PYTHON="$2" && shift ;;
    --skip-plugin) plugin=no ;;
    *)
      sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 64
      ;;
  esac
  shift
done
if [[ ! -x $bundle/bin/tvarantd ]]; then
  echo "try_machine: $bundle is no unpacked bundle" >&2
  exit 1
fi
mkdir -p "$out"
out="$(realpath "$out")"
work="$(mktemp -d /tmp/tvarant-try.XXXXXX)"
daemon=
failures=()

stop_daemon() {
  if [[ -z $daemon ]]; then return 0; fi
  kill "$daemon" 2>/dev/null
  wait "$daemon"
  local status=$?
  daemon=
  return "$status"
}
trap 'stop_daemon; rm -rf "$work"' EXIT

# step NAME COMMAND...: its output also goes to NAME.txt.
step() {
  local name="$1" start=$SECONDS status
  shift
  echo "== $name"
  "$@" 2>&1 | tee "$out/$name.txt"
  status=${PIPESTATUS[0]}
  echo "== $name: status $status, $((SECONDS - start)) s"
  if [[ $status != 0 ]]; then failures+=("$name"); fi
  return "$status"
}

machine() {
  uname -srm
  nproc
  command -v nvidia-smi >/dev/null && nvidia-smi -L
  ls /etc/OpenCL/vendors 2>/dev/null || echo "no /etc/OpenCL/vendors"
  env TORCH_DEVICE_BACKEND_AUTOLOAD=0 "$PYTHON" -c \
    'import sys, torch; print(sys.version.split()[0], torch.__version__)'
}

# NVIDIA's driver is at times there without being named to the OpenCL loader,
# even where another driver is.
name_the_driver() {
  if [[ -n ${OCL_ICD_VENDORS:-} ]] ||
    grep -qs nvidia /etc/OpenCL/vendors/*.icd; then
    return
  fi
  local library
  library="$({
    ldconfig -p | awk '/libnvidia-opencl\.so\.1/ { print $NF }'
    compgen -G '/usr/local/nvidia/lib*/libnvidia-opencl.so.1'
  } | head -n 1)"
  if [[ -z $library ]]; then return; fi
  mkdir -p "$work/vendors"
  echo "$library" >"$work/vendors/nvidia.icd"
  export OCL_ICD_VENDORS="$work/vendors"
  echo "OpenCL driver: $library"
}

start_daemon() {
  local socket="$work/s.sock" i
  "$bundle/bin/tvarantd" --runtime "$runtime" --listen "unix:$socket" \
    >>"$out/tvarantd.log" 2>&1 &
  daemon=$!
  for i in {1..600}; do
    if [[ -S $socket ]]; then break; fi
    if ! kill -0 "$daemon" 2>/dev/null; then break; fi
    sleep 0.1
  done
  export TVARANT_ENDPOINT="unix:$socket"
  if [[ ! -S $socket ]]; then
    echo "tvarantd did not come up:"
    tail -n 20 "$out/tvarantd.log"
    return 1
  fi
}

bench() {
  "$bundle/bin/tvarant-bench" --endpoint "$TVARANT_ENDPOINT" "$@"
}
bench_against_torch() {
  TORCH_DEVICE_BACKEND_AUTOLOAD=0 bench --seconds "$seconds" \
    --torch "$PYTHON" --json "$out/bench.json"
}

step machine machine
name_the_driver
if [[ $plugin == yes ]]; then step plugin "$bundle/build_plugin.sh"; fi
start_daemon || failures+=(daemon)
if [[ -n $daemon ]] && kill -0 "$daemon" 2>/dev/null; then
  if [[ $plugin == yes ]]; then
    step digits "$PYTHON" "$bundle/src/deploy/quickstart/digits.py"
    step sentences "$PYTHON" "$bundle/src/deploy/quickstart/sentences.py"
  fi
  step bench bench_against_torch
  # Where PyTorch sees no such device.
  if [[ ! -s $out/bench.json ]]; then
    step bench_alone bench --seconds "$seconds" --json "$out/bench.json"
  fi
  stop_daemon || failures+=("the daemon's end")
  # What a second start finds compiled.
  if start_daemon; then
    step warm_start bench --only launch --seconds 10
    stop_daemon || failures+=("the daemon's second end")
  else
    failures+=("the daemon's second start")
  fi
fi
if [[ ${#failures[@]} != 0 ]]; then
  printf 'failed: %s\n' "${failures[@]}"
  exit 1
fi
echo "all steps passed"

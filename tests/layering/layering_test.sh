#!/usr/bin/env bash
# Asks Bazel whether the arrows between the folders hold: for each forbidden
# pair there is no path from the first to the second. Prints one line a pair;
# exit status 1 if any fails. Outside of `bazel test`, since it calls bazel.
set -uo pipefail
cd "$(dirname "$0")/../.."

failed=0

# Answers with a path between two sets of targets, nothing if there is none.
path_between() {
  bazel query --noshow_progress --noimplicit_deps "somepath($1, $2)"
}

check() {
  local want="$1" from="$2" to="$3" path errors verdict=PASS
  errors="$(mktemp)"
  if ! path="$(path_between "$from" "$to" 2>"$errors")"; then
    verdict=FAIL
    path="$(grep -m 1 ERROR "$errors" || tail -n 1 "$errors")"
  elif [[ $want == none && -n $path ]] || [[ $want == some && -z $path ]]; then
    verdict=FAIL
  fi
  rm -f "$errors"
  echo "$verdict layering: $want from $from to $to"
  if [[ $verdict == FAIL ]]; then
    failed=1
    sed 's/^/    /' <<<"$path" >&2
  fi
}

# Tests may reach across, what ships may not.
shipped() { echo "($1 except attr(testonly, 1, $1))"; }

# Controls: the question can be answered with yes.
check some //daemon:tvarantd //daemon/server/...
check some //daemon:tvarantd //daemon/runtime:cpu_sim_runtime
check some //torch_plugin/... //client/...
check some //client/... //proto/...

check none //client/... //daemon/...
check none //client/... //torch_plugin/...
check none //daemon/... //client/...
check none //daemon/... //torch_plugin/...
check none //proto/... //client/...
check none //proto/... //daemon/...
check none //proto/... //torch_plugin/...
check none //torch_plugin/... //daemon/...
for runtime in //daemon/runtime:cpu_sim_runtime \
  //daemon/runtime/opencl:opencl_runtime; do
  check none "$(shipped //daemon/server/...)" "$runtime"
  check none "$(shipped //daemon/scheduler/...)" "$runtime"
done

exit $failed

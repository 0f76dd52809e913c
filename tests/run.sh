#!/usr/bin/env bash
# Everything that must hold before a change lands. Installs what is missing,
# builds, runs every suite and check, and ends with `N passed, N failed`.
#
# A suite that could not start counts as one failure. tests/run.sh PART... runs
# only those: bazel layering bundle format python.
set -uo pipefail
cd "$(dirname "$0")/.."

passed=0
failed=0
failures=()
logs="$(mktemp -d)"
trap 'rm -rf "$logs"' EXIT

# count NAME PASSED FAILED STATUS: adds a suite. A bad exit status with no failed
# test in it, or no test at all, is a failure itself.
count() {
  local name="$1" suite_passed="$2" suite_failed="$3" status="$4"
  if [[ $suite_failed == 0 ]] &&
    [[ $status != 0 || $suite_passed == 0 ]]; then
    suite_failed=1
  fi
  passed=$((passed + suite_passed))
  failed=$((failed + suite_failed))
  if [[ $suite_failed != 0 ]]; then failures+=("$name: $suite_failed"); fi
  echo "-- $name: $suite_passed good, $suite_failed bad"
}

# check NAME COMMAND...: one pass or failure.
check() {
  local name="$1"
  shift
  if "$@"; then count "$name" 1 0 0; else count "$name" 0 1 1; fi
}

matches() { grep -cE "$1" "$2" || true; }

run_bazel() {
  local log="$logs/bazel" status
  echo "== bazel test //..."
  bazel test --keep_going //... 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  # One line a target: //a:b   (cached) PASSED in 0.1s
  local result='^//[^ ]+ +(\(cached\) +)?'
  count "bazel" \
    "$(matches "$result(PASSED|FLAKY)" "$log")" \
    "$(matches "$result(FAILED|TIMEOUT|NO STATUS|INCOMPLETE|REMOTE|BLAZE)" \
      "$log")" \
    "$status"
}

run_layering() {
  local log="$logs/layering" status
  echo "== layering"
  tests/layering/layering_test.sh 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  count "layering" "$(matches '^PASS ' "$log")" "$(matches '^FAIL ' "$log")" \
    "$status"
}

run_bundle() {
  local log="$logs/bundle" status
  echo "== bundle"
  tests/bundle/bundle_test.sh 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  count "bundle" "$(matches '^PASS ' "$log")" "$(matches '^FAIL ' "$log")" \
    "$status"
}

clang_format_sources() {
  local sources
  mapfile -t sources < <(
    find bazel client daemon proto tests torch_plugin \
      \( -name '*.cc' -o -name '*.h' -o -name '*.cl' \) | sort
  )
  if [[ ${#sources[@]} == 0 ]]; then return 1; fi
  # Only the names: clang-format-14 -i FILE does the rest.
  clang-format-14 --dry-run -Werror "${sources[@]}" 2>&1 |
    grep -E '(error|warning):' | cut -d : -f 1 | uniq
  return "${PIPESTATUS[0]}"
}

run_format() {
  echo "== format"
  check "ruff check" "$PYTHON" -m ruff check .
  check "ruff format" "$PYTHON" -m ruff format --check .
  check "clang-format" clang_format_sources
}

# Prints "passed failed" of a junit file; "0 1" if it cannot be read.
junit_counts() {
  "$PYTHON" - "$1" <<'PYTHON_END'
import sys
import xml.etree.ElementTree as ElementTree

try:
    suites = list(ElementTree.parse(sys.argv[1]).getroot().iter("testsuite"))
except (OSError, ElementTree.ParseError):
    print("0 1")
    sys.exit()
totals = {
    key: sum(int(suite.get(key, 0)) for suite in suites)
    for key in ("tests", "failures", "errors", "skipped")
}
bad = totals["failures"] + totals["errors"]
print(totals["tests"] - bad - totals["skipped"], bad)
PYTHON_END
}

# run_pytest NAME [VARIABLE=VALUE...] [-- PATH...]: all paths without --.
run_pytest() {
  local name="$1" status suite_passed suite_failed variables=()
  shift
  while [[ $# -gt 0 && $1 != -- ]]; do
    variables+=("$1")
    shift
  done
  if [[ $# -gt 0 ]]; then shift; fi
  echo "== pytest, $name"
  env "${variables[@]}" "$PYTHON" -m pytest --junitxml="$logs/$name.xml" "$@"
  status=$?
  read -r suite_passed suite_failed < <(junit_counts "$logs/$name.xml")
  count "pytest $name" "$suite_passed" "$suite_failed" "$status"
}

# run_simulator NAME [VARIABLE=VALUE...]: every Python test. Those of single ops
# and models mind no neighbour and run two at a time, each with a daemon of its
# own; the rest look at processes, times and counters.
run_simulator() {
  local name="$1" file together=() alone=()
  shift
  for file in tests/python/test_*.py; do
    case "$(basename "$file")" in
      test_ops_* | test_device_generic.py | test_rnn.py | test_vision_models.py)
        together+=("$file")
        ;;
      *) alone+=("$file") ;;
    esac
  done
  run_pytest "$name together" OMP_NUM_THREADS=1 "$@" -- \
    -n 2 --dist worksteal tests/conformance tests/models "${together[@]}"
  run_pytest "$name alone" "$@" -- "${alone[@]}"
}

run_python() {
  run_simulator mapped
  # The range unreadable, as with a card.
  run_simulator unmapped TVARANT_SIM_MAP=0
  # On PoCL, where each kernel takes a while to compile: a part.
  run_pytest opencl TVARANT_BACKEND=opencl -- \
    tests/python/test_{tensors,views,optimizers,serialization,streams}.py \
    tests/python/test_{memory,random_state,faults,round_trips}.py \
    tests/python/test_device_module.py tests/models/test_minilm.py
}

parts=("$@")
if [[ ${#parts[@]} == 0 ]]; then
  parts=(bazel layering bundle format python)
fi

echo "== dependencies"
check "install_deps" deploy/install_deps.sh
# shellcheck source=deploy/python_env.sh
source deploy/python_env.sh
check "build" deploy/build.sh
for part in "${parts[@]}"; do
  case "$part" in
    bazel | layering | bundle | format | python) "run_$part" ;;
    *) check "no part called $part" false ;;
  esac
done

for failure in "${failures[@]}"; do echo "failed: $failure"; done
echo "$passed passed, $failed failed"
[[ $failed == 0 ]]

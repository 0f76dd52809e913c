#!/usr/bin/env bash
# The first case of each kernel under Oclgrind: no access out of bounds, no
# race. Its --uninitialized is left out: version 21.10 reports what
# clEnqueueWriteBuffer wrote as never written.
set -euo pipefail
suite="$PWD/tests/conformance/opencl_test"
log="${TEST_TMPDIR:-/tmp}/oclgrind.log"
: >"$log"
export TVARANT_CONFORMANCE_SAMPLE=1000000
oclgrind --global-mem-size 1073741824 --data-races \
  --max-errors 20 --log "$log" "$suite" --gtest_brief=1 2>&1 |
  grep -v 'warnings\? generated'
if [[ -s $log ]]; then
  echo "Oclgrind reports:"
  head -n 100 "$log"
  exit 1
fi

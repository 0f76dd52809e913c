#!/usr/bin/env bash
# tvarant-bench against a private daemon: every row runs, and its JSON says so.
set -euo pipefail
bench="$1"
daemon="$2"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT

run() { timeout 240 "$bench" --daemon "$daemon" --memory_mib 1024 "$@"; }

run --quick --json "$folder/all.json" >"$folder/table"
grep -E '^[0-9]+ rows in .* 0 skipped, 0 failed$' "$folder/table"
python3 - "$folder/all.json" <<'PYTHON_END'
import json
import sys

with open(sys.argv[1]) as file:
    result = json.load(file)
assert result["device"]["runtime"] == "sim", result["device"]
families = {row["family"] for row in result["rows"]}
wanted = {"attention", "copy", "gemm", "gemv", "launch", "norm", "pointwise"}
assert wanted | {"reduction", "softmax"} == families, families
for row in result["rows"]:
    assert row["median_seconds"] >= row["min_seconds"] > 0, row
    if row["family"] == "pointwise":
        assert row["bytes_per_second"] > 0 and row["of_copy"] > 0, row
    if row["family"] == "gemm":
        assert row["flops_per_second"] > 0, row
PYTHON_END

# What can't work is one line, and not status 0.
expect_failure() {
  local want="$1"
  shift
  if "$@" >"$folder/out" 2>&1; then
    echo "succeeded: $*" >&2
    exit 1
  fi
  grep -F -- "$want" "$folder/out"
}
expect_failure "tvarant-bench: " timeout 60 "$bench" --endpoint "unix:$folder/no"
expect_failure "can't be started" run --quick --torch "$folder/no-python"
expect_failure "ended" run --quick --torch true
echo ok

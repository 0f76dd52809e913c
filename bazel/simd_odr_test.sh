#!/bin/bash
# Fails when an object compiled for a wide instruction set defines a weak
# function that is not in that set's namespace: the linker may keep this copy
# for code that runs on every CPU.
set -euo pipefail

if [[ $# == 0 ]]; then
  echo "no object to look at" >&2
  exit 1
fi

# W is a weak function (V, weak data, holds no code).
weak_functions() {
  nm --defined-only "$1" | awk '$2 == "W" { print $3 }'
}

status=0
for object in "$@"; do
  case "$object" in
    *_avx512/*) namespace=6avx512 ;;
    *_avx2/*) namespace=4avx2 ;;
    *) echo "$object: which instruction set?" >&2; exit 1 ;;
  esac
  stray=$(weak_functions "$object" | { grep -v "$namespace" || true; })
  if [[ -n $stray ]]; then
    echo "$object:" >&2
    c++filt <<<"$stray" >&2
    status=1
  fi
done
if [[ $status != 0 ]]; then
  echo "inline these functions, or move them out of the SIMD sources" >&2
fi
exit $status

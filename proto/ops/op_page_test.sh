#!/bin/bash
# The committed op page is what the tables say.
set -eu
printer=$1
page=$2
if ! diff <("$printer") "$page"; then
  echo "docs/ops.md is stale: bazel run //proto/ops:print_op_page > docs/ops.md"
  exit 1
fi

#!/bin/bash
# A committed page is what its program prints:
# generated_page_test.sh PRINTER PAGE LABEL
set -eu
printer=$1
page=$2
label=$3
if ! diff <("$printer") "$page"; then
  echo "${page} is stale: bazel run ${label} > ${page}"
  exit 1
fi

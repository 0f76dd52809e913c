#!/usr/bin/env bash
# noisy_neighbour BINARY DAEMON: it runs and prints every row; short runs on a
# busy machine say nothing about the figures.
set -euo pipefail
out=$("$1" --daemon "$2" --seconds 0.2)
echo "$out"
for row in "small client alone" "beside pointwise" "beside gemm" \
  "beside streams" "two clients, pointwise" "two clients, gemm" "goals "; do
  grep -q "$row" <<<"$out" || {
    echo "no row \"$row\""
    exit 1
  }
done

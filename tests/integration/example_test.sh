#!/bin/sh
# The example program adds two vectors on a daemon of its own.
set -eu
output="$("$1" --daemon "$2")"
case "$output" in
  *"0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5"*) ;;
  *) echo "unexpected: $output" >&2; exit 1 ;;
esac
if "$1" unix:/nonexistent/socket; then
  echo "connected to nothing" >&2
  exit 1
fi

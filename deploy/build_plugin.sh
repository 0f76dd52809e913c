#!/usr/bin/env bash
# Builds the PyTorch plugin for the installed torch (2.11 or later) with the
# client library of a bundle, and installs it. $PYTHON, else python3.
#
#   ./build_plugin.sh                             in an unpacked bundle
#   deploy/build_plugin.sh --bundle FOLDER        in a checkout
#
# --help lists the options.
set -euo pipefail
here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
exec "${PYTHON:-python3}" "$here/build_plugin.py" "$@"

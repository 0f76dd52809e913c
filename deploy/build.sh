#!/usr/bin/env bash
# Builds daemon, client programs and plugin, packs them into a wheel under
# build/, and installs it for $PYTHON. Arguments go to `bazel build`.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=deploy/python_env.sh
source deploy/python_env.sh

echo "== building"
mapfile -t client_programs < <(
  bazel query --noshow_progress 'kind("cc_binary rule", //client/...)' \
    2>/dev/null || true
)
bazel build "$@" //daemon:tvarantd //client/ctl:tvarantctl \
  //torch_plugin:_C.so "${client_programs[@]}"

echo "== packing the wheel"
rm -rf build/wheel
wheel="$("$PYTHON" deploy/wheel.py build build/wheel \
  --plugin bazel-bin/torch_plugin/_C.so --daemon bazel-bin/daemon/tvarantd \
  --ctl bazel-bin/client/ctl/tvarantctl)"

if "$PYTHON" deploy/wheel.py installed "$wheel"; then
  echo "== $wheel is installed already"
else
  echo "== installing $wheel for $PYTHON"
  "$PYTHON" -m pip install --quiet --disable-pip-version-check \
    --root-user-action=ignore --no-deps --force-reinstall "$wheel"
fi

# Sourced: sets PYTHON, the interpreter that this checkout builds for and runs.
# $PYTHON_BIN if given, else the checkout's .venv, else python3. The same choice
# as bazel/python.bzl.
_tvarant_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
if [[ -n "${PYTHON_BIN:-}" ]]; then
  PYTHON="$PYTHON_BIN"
elif [[ -x "$_tvarant_root/.venv/bin/python" ]]; then
  PYTHON="$_tvarant_root/.venv/bin/python"
else
  PYTHON="$(command -v python3 || echo python3)"
fi
export PYTHON
unset _tvarant_root

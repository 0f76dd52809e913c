#!/usr/bin/env bash
# Writes a C++ header with the text of .cl files (or tables for them):
# embed_opencl.sh NAME FILE...
set -euo pipefail
name="$1"
shift
guard="TVARANT_OPENCL_${name^^}_H_"
echo "// Made of .cl files by bazel/embed_opencl.sh."
echo "#ifndef $guard"
echo "#define $guard"
echo '#include "daemon/jit/cl_source.h"'
echo 'namespace tvarant::opencl {'
for file in "$@"; do
  base="$(basename "${file%.*}")"
  constant="k$(sed -E 's/(^|_)([a-z0-9])/\U\2/g' <<<"$base")Cl"
  echo "inline constexpr ClSource $constant = {\"$base\", R\"OPENCL_C("
  cat "$file"
  echo ')OPENCL_C"};'
done
echo '}  // namespace tvarant::opencl'
echo "#endif  // $guard"

// What differs between the versions of torch that the plugin builds with: 2.11
// and later.

#ifndef TVARANT_TORCH_PLUGIN_ATEN_TORCH_VERSIONS_H_
#define TVARANT_TORCH_PLUGIN_ATEN_TORCH_VERSIONS_H_

#include <torch/headeronly/version.h>

#define TVARANT_TORCH_BEFORE(major, minor) \
  (TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < (major)*1000 + (minor))

// Structured ops gave their outputs the names of dimensions: the last parameter
// of a virtual function, and what we pass for it.
#if TVARANT_TORCH_BEFORE(2, 13)
#define TVARANT_NAMES_PARAMETER , at::DimnameList /*names*/
#define TVARANT_NAMES_ARGUMENT \
  , {}
#else
#define TVARANT_NAMES_PARAMETER
#define TVARANT_NAMES_ARGUMENT
#endif

#endif  // TVARANT_TORCH_PLUGIN_ATEN_TORCH_VERSIONS_H_

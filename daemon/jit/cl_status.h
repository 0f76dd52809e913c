// OpenCL's error numbers as absl::Status.

#ifndef TVARANT_DAEMON_JIT_CL_STATUS_H_
#define TVARANT_DAEMON_JIT_CL_STATUS_H_

#include <CL/cl.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tvarant::opencl {

// "CL_OUT_OF_RESOURCES"; "OpenCL error -1234" for one that is not known.
const char* ClErrorName(cl_int error);

// OK for CL_SUCCESS. RESOURCE_EXHAUSTED when memory ran out, UNAVAILABLE when
// the device or its queue is lost, else INTERNAL; the text names the call.
absl::Status ClStatus(cl_int error, absl::string_view call);

// Returns from the enclosing function when an OpenCL call fails.
#define RETURN_IF_CL_ERROR(call)                                          \
  do {                                                                    \
    const cl_int tvarant_cl_error_ = (call);                              \
    if (ABSL_PREDICT_FALSE(tvarant_cl_error_ != CL_SUCCESS)) {            \
      return ::tvarant::opencl::ClStatus(                                 \
          tvarant_cl_error_, absl::string_view(#call).substr(             \
                                 0, absl::string_view(#call).find('('))); \
    }                                                                     \
  } while (false)

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_JIT_CL_STATUS_H_

// A named piece of OpenCL C, embedded in the binary.

#ifndef TVARANT_DAEMON_JIT_CL_SOURCE_H_
#define TVARANT_DAEMON_JIT_CL_SOURCE_H_

namespace tvarant::opencl {

struct ClSource {
  const char* name;  // for logs and errors
  const char* text;
};

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_JIT_CL_SOURCE_H_

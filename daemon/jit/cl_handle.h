// ClHandle: owns one reference to an OpenCL object.

#ifndef TVARANT_DAEMON_JIT_CL_HANDLE_H_
#define TVARANT_DAEMON_JIT_CL_HANDLE_H_

#include <CL/cl.h>

#include <utility>

namespace tvarant::opencl {

inline void ReleaseCl(cl_context object) { clReleaseContext(object); }
inline void ReleaseCl(cl_command_queue object) {
  clReleaseCommandQueue(object);
}
inline void ReleaseCl(cl_mem object) { clReleaseMemObject(object); }
inline void ReleaseCl(cl_program object) { clReleaseProgram(object); }
inline void ReleaseCl(cl_kernel object) { clReleaseKernel(object); }
inline void ReleaseCl(cl_event object) { clReleaseEvent(object); }

// Thread-compatible, as a pointer.
template <typename T>
class ClHandle {
 public:
  ClHandle() = default;
  explicit ClHandle(T object) : object_(object) {}
  ClHandle(ClHandle&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)) {}
  ClHandle& operator=(ClHandle&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~ClHandle() {
    if (object_ != nullptr) ReleaseCl(object_);
  }

  T get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T object_ = nullptr;
};

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_JIT_CL_HANDLE_H_

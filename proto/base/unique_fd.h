// UniqueFd: owns a file descriptor.
//
// Example:
//   base::UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
//   if (!fd.ok()) return absl::ErrnoToStatus(errno, "open");

#ifndef TVARANT_PROTO_BASE_UNIQUE_FD_H_
#define TVARANT_PROTO_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tvarant::base {

// Thread-compatible. Empty (-1) when made without a descriptor or moved from.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  bool ok() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // The caller closes it from now on.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  // Closes what is held. errno stays as it was.
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

inline void UniqueFd::reset(int fd) {
  const int old = std::exchange(fd_, fd);
  if (old < 0) return;
  const int saved = errno;
  // Not repeated on EINTR: Linux has closed it then.
  ::close(old);
  errno = saved;
}

}  // namespace tvarant::base

#endif  // TVARANT_PROTO_BASE_UNIQUE_FD_H_

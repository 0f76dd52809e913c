// A Python process that does the same rows with PyTorch (torch_rows.py), one
// row at a time, in turns with ours. Thread-compatible.
//
// Example:
//   auto peer = TorchPeer::Start("python3");
//   if (peer.ok()) peer.value()->Time(row, 0.5, &timing);

#ifndef TVARANT_TESTS_BENCHMARKS_DEVICE_TORCH_PEER_H_
#define TVARANT_TESTS_BENCHMARKS_DEVICE_TORCH_PEER_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "tests/benchmarks/device/suite.h"

namespace tvarant::benchmarks {

class TorchPeer {
 public:
  // Waits until torch is imported. UNAVAILABLE, with the process's own words,
  // if it doesn't start, has no torch or no such device.
  static Result<std::unique_ptr<TorchPeer>> Start(const std::string& python);
  // Ends the process.
  ~TorchPeer();
  TorchPeer(const TorchPeer&) = delete;
  TorchPeer& operator=(const TorchPeer&) = delete;

  // What it measures: torch's version and its device.
  const std::string& description() const { return description_; }

  // Waits. INTERNAL with Python's message if the row fails there;
  // UNAVAILABLE once the process is gone or silent for minutes.
  Status Time(const Row& row, double seconds, Timing* timing);

 private:
  TorchPeer(pid_t pid, int socket) : pid_(pid), socket_(socket) {}

  // The rest of an answer that begins with "ok".
  Result<std::string> ReadAnswer(double timeout_seconds);
  Status Stopped(const std::string& why);

  pid_t pid_;
  int socket_;
  std::string pending_;
  std::string description_;
};

}  // namespace tvarant::benchmarks

#endif  // TVARANT_TESTS_BENCHMARKS_DEVICE_TORCH_PEER_H_

// doctor: looks for what stands between this user and the device, from the
// socket to the bandwidth, and says what to do about it.

#ifndef TVARANT_CLIENT_CTL_DOCTOR_H_
#define TVARANT_CLIENT_CTL_DOCTOR_H_

#include <chrono>
#include <string>
#include <vector>

namespace tvarant::client {

struct Finding {
  enum class State { kGood, kWarning, kBad };
  std::string check;  // "socket"
  State state = State::kGood;
  std::string detail;  // what was found
  std::string fix;     // what to do; empty if good
};

// Runs the checks in order and stops at the first that the rest needs. Uses the
// device as a small program would, for less than a second.
std::vector<Finding> Diagnose(const std::string& endpoint,
                              std::chrono::milliseconds timeout);

// "good", "warning", "bad".
const char* NameOf(Finding::State state);

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_CTL_DOCTOR_H_

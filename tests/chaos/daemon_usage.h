// What a daemon's process holds, from /proc.

#ifndef TVARANT_TESTS_CHAOS_DAEMON_USAGE_H_
#define TVARANT_TESTS_CHAOS_DAEMON_USAGE_H_

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tvarant {

struct DaemonUsage {
  int descriptors = 0;
  int threads = 0;
  int64_t resident_bytes = 0;  // shared memory included

  static DaemonUsage Of(pid_t pid) {
    const std::string folder = "/proc/" + std::to_string(pid);
    DaemonUsage usage;
    std::error_code error;
    usage.descriptors = static_cast<int>(std::distance(
        std::filesystem::directory_iterator(folder + "/fd", error),
        std::filesystem::directory_iterator()));
    std::ifstream file(folder + "/status");
    for (std::string word; file >> word;) {
      if (word == "Threads:") file >> usage.threads;
      if (word == "VmRSS:") {
        file >> usage.resident_bytes;
        usage.resident_bytes *= 1024;
      }
    }
    return usage;
  }
};

}  // namespace tvarant

#endif  // TVARANT_TESTS_CHAOS_DAEMON_USAGE_H_

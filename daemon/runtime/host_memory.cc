#include "daemon/runtime/host_memory.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "absl/strings/numbers.h"

namespace tvarant {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

uint64_t ReadLimit(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  uint64_t limit;
  if (!(file >> word) || !absl::SimpleAtoi(word, &limit)) return kNoLimit;
  return limit;
}

// The least limit of the group at `path` and the groups around it.
uint64_t LimitOfGroup(const std::string& root, std::string path,
                      const std::string& file) {
  uint64_t limit = kNoLimit;
  for (;;) {
    limit = std::min(limit, ReadLimit(root + path + "/" + file));
    const size_t slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return limit;
    path.resize(slash);
  }
}

uint64_t ControlGroupLimit() {
  // Lines: "0::/path" (version 2), "4:memory:/path" (version 1).
  std::ifstream file("/proc/self/cgroup");
  uint64_t limit = kNoLimit;
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    if (first == std::string::npos) continue;
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers.empty()) {
      limit =
          std::min(limit, LimitOfGroup("/sys/fs/cgroup", path, "memory.max"));
    } else if (("," + controllers + ",").find(",memory,") !=
               std::string::npos) {
      limit = std::min(limit, LimitOfGroup("/sys/fs/cgroup/memory", path,
                                           "memory.limit_in_bytes"));
    }
  }
  return limit;
}

}  // namespace

uint64_t UsableMemoryBytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  const uint64_t physical =
      pages > 0 && page_bytes > 0
          ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes)
          : uint64_t{1} << 30;
  return std::min(physical, ControlGroupLimit());
}

int UsableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    return std::max(1, CPU_COUNT(&set));
  }
  return std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace tvarant

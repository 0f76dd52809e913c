#include "daemon/runtime/opencl/driver_folders.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/jit/binary_store.h"

namespace tvarant::opencl {
namespace {

namespace fs = std::filesystem;

void RemoveThoseOfTheDead(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry->path().filename().string(), &pid)) continue;
    if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) {
      std::error_code ignored;
      fs::remove_all(entry->path(), ignored);
    }
  }
}

// A folder that is this user's alone; empty if there is none.
std::string OwnFolder(const std::string& folder) {
  return BinaryStore::Open(folder, 0).ok() ? folder : "";
}

}  // namespace

void GivePoclAFolder(const std::string& parent) {
  if (std::getenv("POCL_CACHE_DIR") != nullptr) return;
  std::string shared =
      parent.empty() ? "" : OwnFolder(absl::StrCat(parent, "/pocl"));
  if (shared.empty()) {
    shared = OwnFolder(absl::StrCat("/tmp/tvarant-pocl-", ::geteuid()));
  }
  if (shared.empty()) return;
  RemoveThoseOfTheDead(shared);
  // Not destroyed: the handler below may run after static objects are gone.
  static std::string* const own = new std::string;
  *own = absl::StrCat(shared, "/", ::getpid());
  std::error_code error;
  fs::remove_all(*own, error);
  if (OwnFolder(*own).empty()) return;
  ::setenv("POCL_CACHE_DIR", own->c_str(), 0);
  std::atexit([] {
    std::error_code ignored;
    fs::remove_all(*own, ignored);
  });
}

void GiveNvidiaAFolder(const std::string& parent) {
  if (parent.empty() || std::getenv("CUDA_CACHE_PATH") != nullptr) return;
  const std::string folder = OwnFolder(absl::StrCat(parent, "/nvidia"));
  if (!folder.empty()) ::setenv("CUDA_CACHE_PATH", folder.c_str(), 0);
}

}  // namespace tvarant::opencl

// Bytes as a file of the kernel cache: refused and removed, or whole.
//
// An odd first byte lays the rest over a whole entry, so that also a file that
// is nearly right is met.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "daemon/jit/binary_store.h"
#include "spdlog/spdlog.h"

namespace {

using tvarant::BinaryStore;

void Require(bool condition) {
  if (!condition) std::abort();
}

class World {
 public:
  World() {
    spdlog::set_level(spdlog::level::off);
    char pattern[] = "/tmp/tvcXXXXXX";
    Require(::mkdtemp(pattern) != nullptr);
    folder_ = pattern;
    auto opened = BinaryStore::Open(folder_, 1 << 20);
    Require(opened.ok());
    store_ = *std::move(opened);
    Require(store_->Save("whole", "a program").ok());
    whole_ = Read("whole");
  }
  ~World() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  BinaryStore& store() { return *store_; }
  const std::string& whole() const { return whole_; }
  std::string Path(const std::string& key) const {
    return folder_ + "/" + key + ".tvk";
  }
  std::string Read(const std::string& key) const {
    std::ifstream file(Path(key), std::ios::binary);
    return {std::istreambuf_iterator<char>(file),
            std::istreambuf_iterator<char>()};
  }

 private:
  std::string folder_;
  std::unique_ptr<BinaryStore> store_;
  std::string whole_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  static World world;
  if (size_bytes < 1) return 0;
  std::string bytes(reinterpret_cast<const char*>(data + 1), size_bytes - 1);
  if (data[0] % 2 == 1) {
    std::string over = world.whole();
    for (size_t i = 0; i < bytes.size() && i < over.size(); ++i) {
      over[i] = static_cast<char>(over[i] ^ bytes[i]);
    }
    bytes = over;
  }
  std::ofstream(world.Path("given"), std::ios::binary) << bytes;
  const std::optional<std::string> loaded = world.store().Load("given");
  if (!loaded.has_value()) {
    Require(!std::filesystem::exists(world.Path("given")));
    return 0;
  }
  // What is handed out is what such a file stands for, to the last byte.
  Require(world.store().Save("again", *loaded).ok());
  Require(world.Read("again") == bytes);
  return 0;
}

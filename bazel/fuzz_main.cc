// main() for a fuzz target without libFuzzer: replays the files named on the
// command line, then a fixed number of pseudo-random inputs, mutated from them.
// The run is the same each time, so that it can be a test.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr int kRuns = 20000;
constexpr size_t kMaxBytes = 512;

Bytes Mutate(const Bytes& seed, std::mt19937& random) {
  Bytes bytes = seed;
  if (bytes.empty() || random() % 4 == 0) {
    bytes.resize(random() % kMaxBytes);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    return bytes;
  }
  for (uint32_t i = random() % 8 + 1; i > 0; --i) {
    bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
  }
  if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Bytes> seeds = {Bytes{}};
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "cannot read %s\n", argv[i]);
      return 1;
    }
    seeds.emplace_back(std::istreambuf_iterator<char>(file),
                       std::istreambuf_iterator<char>());
  }
  for (const Bytes& seed : seeds) {
    LLVMFuzzerTestOneInput(seed.data(), seed.size());
  }
  std::mt19937 random(20240229);
  for (int i = 0; i < kRuns; ++i) {
    const Bytes bytes = Mutate(seeds[random() % seeds.size()], random);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%d inputs\n", kRuns);
  return 0;
}

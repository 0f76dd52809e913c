// Bytes as a config file, and as a command line of one word a line.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/options.h"
#include "daemon/config/value.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), size_bytes);
  tvarant::Options options;
  (void)tvarant::ParseConfig(text, "fuzz.conf", &options);
  (void)tvarant::ParseSize(text);
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == '\n') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  // Not a file of this machine.
  for (std::string& word : words) {
    if (word.rfind("--config", 0) == 0) word = "--config=/nonexistent";
  }
  (void)tvarant::ParseArguments(words);
  return 0;
}

// Options of tvarantd: one table for the command line and the config file.
//
// --max-sessions=8, --max-sessions 8 and, in a file, max_sessions = 8 are the
// same. The command line wins over the file. To add an option: a member, and a
// row in options.cc; a limit is a row of daemon/base/limits.cc. A file ends
// with sections for users (user_section.h).

#ifndef TVARANT_DAEMON_CONFIG_OPTIONS_H_
#define TVARANT_DAEMON_CONFIG_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/limits.h"
#include "daemon/config/user_section.h"

namespace tvarant {

struct Options {
  std::vector<std::string> listen;  // "unix:PATH"; empty: the default's
  std::string runtime = "sim";
  std::string opencl_platform;     // empty: from the environment, or the best
  std::string opencl_device;       // likewise
  uint64_t opencl_group_size = 0;  // 0: chosen by the device
  std::string kernel_cache;        // folder, "off", or empty: the default
  uint64_t kernel_cache_bytes = uint64_t{1} << 30;
  uint64_t memory_bytes = 0;  // 0: chosen by the runtime
  uint64_t threads = 0;       // 0: as many as processors
  uint64_t socket_mode = 0660;
  std::string socket_group;  // empty: the daemon's
  std::string admin_group;   // empty: none
  std::string metrics;       // "HOST:PORT"; empty: not served

  std::vector<std::string> listen_tcp;  // "HOST:PORT"
  std::string tls_cert;
  std::string tls_key;
  std::string tls_client_ca;
  std::string token_file;
  bool allow_plain_tcp = false;

  Limits limits;                   // of the daemon, and of users not named
  std::vector<UserOptions> users;  // sections of the file
  uint64_t drain_seconds = 5;

  int64_t exit_with_parent = 0;  // pid; 0: no
  int64_t ready_fd = -1;

  bool show_help = false;
  bool show_version = false;
};

// Parses argv[1..] and the file that --config names. INVALID_ARGUMENT with one
// sentence that names the word, or file and line.
absl::StatusOr<Options> ParseArguments(const std::vector<std::string>& args);

// Reads "key = value" lines into *options. '#' starts a comment. `file` is for
// the error text. Options of the command line alone are unknown keys here.
absl::Status ParseConfig(std::string_view text, const std::string& file,
                         Options* options);

// Options that are different and count only from the next start on: all but
// the limits of users and sessions, and the users.
std::vector<std::string> NeedRestart(const Options& before,
                                     const Options& after);

// What the daemon serves when neither `listen` nor systemd says it.
inline constexpr char kDefaultListen[] = "unix:/run/tvarant/tvarant.sock";

// What --help prints.
std::string HelpText();

}  // namespace tvarant

#endif  // TVARANT_DAEMON_CONFIG_OPTIONS_H_

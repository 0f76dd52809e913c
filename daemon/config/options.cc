#include "daemon/config/options.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/config/value.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

enum class Kind { kText, kList, kCount, kSize, kOctal, kSigned, kFlag, kLimit };

struct Row {
  std::string_view name;  // as on the command line
  Kind kind;
  // Where the value goes: exactly one of these, by kind.
  std::string Options::*text = nullptr;
  std::vector<std::string> Options::*list = nullptr;
  uint64_t Options::*number = nullptr;
  int64_t Options::*integer = nullptr;
  bool Options::*flag = nullptr;
  const LimitRow* limit = nullptr;
  uint64_t min = 0;
  uint64_t max = std::numeric_limits<uint64_t>::max();
  bool command_line_only = false;
  std::string_view value = {};
  std::string_view doc = {};
};

std::vector<Row> OwnRows() {
  return {
      {.name = "listen",
       .kind = Kind::kList,
       .list = &Options::listen,
       .value = "unix:PATH",
       .doc = "socket to serve; may be repeated (default "
              "unix:/run/tvarant/tvarant.sock)"},
      {.name = "runtime",
       .kind = Kind::kText,
       .text = &Options::runtime,
       .value = "sim|opencl",
       .doc = "what runs the commands: sim, the CPU simulator (default), or "
              "opencl, alias fpga"},
      {.name = "opencl-platform",
       .kind = Kind::kText,
       .text = &Options::opencl_platform,
       .value = "NAME",
       .doc = "OpenCL platform, by number or part of its name (default "
              "TVARANT_OPENCL_PLATFORM, else the best)"},
      {.name = "opencl-device",
       .kind = Kind::kText,
       .text = &Options::opencl_device,
       .value = "NAME",
       .doc = "OpenCL devices, by number or part of their names, with commas "
              "(default TVARANT_OPENCL_DEVICE, else Tvarant cards, else "
              "accelerators, GPUs, CPUs)"},
      {.name = "opencl-group-size",
       .kind = Kind::kCount,
       .number = &Options::opencl_group_size,
       .min = 1,
       .max = 1024,
       .value = "N",
       .doc = "work-items of a group (default chosen by the device; 32 on the "
              "Tvarant card)"},
      {.name = "kernel-cache",
       .kind = Kind::kText,
       .text = &Options::kernel_cache,
       .value = "FOLDER|off",
       .doc = "where compiled kernels are kept (default "
              "TVARANT_KERNEL_CACHE_DIR, else the user's cache folder)"},
      {.name = "kernel-cache-bytes",
       .kind = Kind::kSize,
       .number = &Options::kernel_cache_bytes,
       .min = 1 << 20,
       .value = "SIZE",
       .doc = "what the kernel cache may grow to (default 1GiB)"},
      {.name = "memory",
       .kind = Kind::kSize,
       .number = &Options::memory_bytes,
       .min = 1 << 20,
       .value = "SIZE",
       .doc = "memory of the simulated device, e.g. 4GiB (default 3/4 of the "
              "machine's)"},
      {.name = "threads",
       .kind = Kind::kCount,
       .number = &Options::threads,
       .min = 1,
       .max = 4096,
       .value = "N",
       .doc = "threads a kernel may use (default one per processor)"},
      {.name = "socket-mode",
       .kind = Kind::kOctal,
       .number = &Options::socket_mode,
       .max = 0777,
       .value = "MODE",
       .doc = "permissions of the sockets, octal (default 0660)"},
      {.name = "socket-group",
       .kind = Kind::kText,
       .text = &Options::socket_group,
       .value = "NAME",
       .doc = "group of the sockets (default the daemon's own)"},
      {.name = "admin-group",
       .kind = Kind::kText,
       .text = &Options::admin_group,
       .value = "NAME",
       .doc = "group whose members may end sessions and drain, beside root and "
              "the daemon's user (default none)"},
      {.name = "metrics",
       .kind = Kind::kText,
       .text = &Options::metrics,
       .value = "HOST:PORT",
       .doc = "serve Prometheus metrics there, on a loopback address (default "
              "not)"},
      {.name = "listen-tcp",
       .kind = Kind::kList,
       .list = &Options::listen_tcp,
       .value = "HOST:PORT",
       .doc = "serve other machines there, over TLS; may be repeated (default "
              "not)"},
      {.name = "tls-cert",
       .kind = Kind::kText,
       .text = &Options::tls_cert,
       .value = "FILE",
       .doc = "the daemon's certificate, PEM, its issuers' after it"},
      {.name = "tls-key",
       .kind = Kind::kText,
       .text = &Options::tls_key,
       .value = "FILE",
       .doc = "the certificate's key, PEM, closed to other users"},
      {.name = "tls-client-ca",
       .kind = Kind::kText,
       .text = &Options::tls_client_ca,
       .value = "FILE",
       .doc = "who signs the certificates of clients, PEM"},
      {.name = "token-file",
       .kind = Kind::kText,
       .text = &Options::token_file,
       .value = "FILE",
       .doc = "\"user token\" lines: clients that may come with a token in "
              "place of a certificate"},
      {.name = "allow-plain-tcp",
       .kind = Kind::kFlag,
       .flag = &Options::allow_plain_tcp,
       .command_line_only = true,
       .doc = "serve listen-tcp without TLS, on loopback addresses"},
      {.name = "drain-seconds",
       .kind = Kind::kCount,
       .number = &Options::drain_seconds,
       .max = 3600,
       .value = "N",
       .doc = "how long SIGTERM lets running commands finish (default 5)"},
      {.name = "exit-with-parent",
       .kind = Kind::kSigned,
       .integer = &Options::exit_with_parent,
       .min = 1,
       .command_line_only = true,
       .value = "PID",
       .doc = "end when the parent process PID does, and remove the folder of "
              "the socket if it is empty then"},
      {.name = "ready-fd",
       .kind = Kind::kSigned,
       .integer = &Options::ready_fd,
       .max = std::numeric_limits<int>::max(),
       .command_line_only = true,
       .value = "FD",
       .doc =
           "write \"ready\", or \"error: \" and why not, there and close it"},
      {.name = "help",
       .kind = Kind::kFlag,
       .flag = &Options::show_help,
       .command_line_only = true,
       .doc = "print this and exit"},
      {.name = "version",
       .kind = Kind::kFlag,
       .flag = &Options::show_version,
       .command_line_only = true,
       .doc = "print the version and exit"},
  };
}

const std::vector<Row>& Table() {
  static const std::vector<Row>& table = *[] {
    auto* const rows = new std::vector<Row>(OwnRows());
    for (const LimitRow& limit : LimitTable()) {
      rows->push_back({.name = limit.option,
                       .kind = Kind::kLimit,
                       .limit = &limit,
                       .value = limit.is_size() ? "SIZE" : "N",
                       .doc = limit.doc});
    }
    return rows;
  }();
  return table;
}

const Row* FindRow(std::string_view name) {
  for (const Row& row : Table()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

absl::Status Invalid(std::string text) {
  return absl::InvalidArgumentError(std::move(text));
}

absl::Status SetNumber(const Row& row, std::string_view text, uint64_t* value) {
  const std::string quoted = "\"" + std::string(text) + "\"";
  if (row.kind == Kind::kSize) {
    auto size = ParseSize(text);
    if (!size.ok()) return size.status();
    *value = *size;
  } else if (!ParseDigits(text, row.kind == Kind::kOctal ? 8 : 10, value)) {
    return Invalid(quoted + (row.kind == Kind::kOctal
                                 ? " is not an octal number"
                                 : " is not a number"));
  }
  if (*value < row.min || *value > row.max) {
    if (row.max == std::numeric_limits<uint64_t>::max()) {
      return Invalid(absl::StrCat(quoted, " is less than ", row.min));
    }
    return Invalid(
        absl::StrCat(quoted, " is not in ", row.min, " to ", row.max));
  }
  return absl::OkStatus();
}

absl::Status SetValue(const Row& row, std::string_view text, Options* options) {
  switch (row.kind) {
    case Kind::kText:
      if (text.empty()) return Invalid("the value is empty");
      options->*row.text = std::string(text);
      return absl::OkStatus();
    case Kind::kList:
      if (text.empty()) return Invalid("the value is empty");
      (options->*row.list).emplace_back(text);
      return absl::OkStatus();
    case Kind::kCount:
    case Kind::kSize:
    case Kind::kOctal:
      return SetNumber(row, text, &(options->*row.number));
    case Kind::kSigned: {
      uint64_t value;
      RETURN_IF_ERROR(SetNumber(row, text, &value));
      if (value > std::numeric_limits<int32_t>::max()) {
        return Invalid("\"" + std::string(text) + "\" is too large");
      }
      options->*row.integer = static_cast<int64_t>(value);
      return absl::OkStatus();
    }
    case Kind::kFlag:
      options->*row.flag = true;
      return absl::OkStatus();
    case Kind::kLimit: {
      ASSIGN_OR_RETURN(options->limits[row.limit->limit],
                       ParseLimit(*row.limit, text));
      return absl::OkStatus();
    }
  }
  return absl::InternalError("unknown kind of option");
}

// "256", "256MiB".
std::string DefaultOf(const LimitRow& row) {
  return row.is_size() ? absl::StrCat(row.default_value >> 20, "MiB")
                       : absl::StrCat(row.default_value);
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Invalid("can't read the config file " + path);
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) return Invalid("can't read the config file " + path);
  return text.str();
}

struct Argument {
  std::string name;
  std::string value;
};

absl::StatusOr<std::vector<Argument>> SplitArguments(
    const std::vector<std::string>& args) {
  std::vector<Argument> result;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& word = args[i];
    if (word == "-h") {
      result.push_back({"help", ""});
      continue;
    }
    if (word.rfind("--", 0) != 0 || word.size() == 2) {
      return Invalid("unknown argument \"" + word + "\"; see --help");
    }
    Argument argument;
    const size_t equals = word.find('=');
    argument.name = word.substr(
        2, equals == std::string::npos ? std::string::npos : equals - 2);
    const Row* row = FindRow(argument.name);
    if (row == nullptr && argument.name != "config") {
      return Invalid("unknown option --" + argument.name + "; see --help");
    }
    const bool takes_value = row == nullptr || row->kind != Kind::kFlag;
    if (equals != std::string::npos) {
      if (!takes_value) {
        return Invalid("option --" + argument.name + " takes no value");
      }
      argument.value = word.substr(equals + 1);
    } else if (takes_value) {
      if (i + 1 == args.size()) {
        return Invalid("option --" + argument.name + " needs a value");
      }
      argument.value = args[++i];
    }
    result.push_back(std::move(argument));
  }
  return result;
}

}  // namespace

absl::Status ParseConfig(std::string_view text, const std::string& file,
                         Options* options) {
  std::set<std::string> seen;
  UserOptions* user = nullptr;  // whose section it is
  int line_number = 0;
  while (!text.empty()) {
    ++line_number;
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = TrimSpace(line.substr(0, std::min(line.find('#'), line.size())));
    if (line.empty()) continue;
    const auto at_line = [&](std::string_view fault) {
      return Invalid(file + ":" + std::to_string(line_number) + ": " +
                     std::string(fault));
    };
    const auto failed = [&](const absl::Status& status) {
      const auto message = status.message();
      return at_line(std::string(message.data(), message.size()));
    };
    if (line.front() == '[') {
      const auto name = ParseUserHeading(line);
      if (!name.ok()) return failed(name.status());
      for (const UserOptions& other : options->users) {
        if (other.name == *name) return at_line("[user " + *name + "] again");
      }
      options->users.push_back({.name = *name});
      user = &options->users.back();
      seen.clear();
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      return at_line("not of the form key = value");
    }
    const std::string key(TrimSpace(line.substr(0, equals)));
    if (user != nullptr) {
      if (!seen.insert(key).second) {
        return at_line("key \"" + key + "\" is there twice");
      }
      const absl::Status status =
          SetUserValue(key, TrimSpace(line.substr(equals + 1)), user);
      if (!status.ok()) return failed(status);
      continue;
    }
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', '-');
    const Row* row = key == name && key.find('-') != std::string::npos
                         ? nullptr  // keys are written with underscores
                         : FindRow(name);
    if (row == nullptr || row->command_line_only) {
      return at_line("unknown key \"" + key + "\"");
    }
    if (row->kind != Kind::kList && !seen.insert(name).second) {
      return at_line("key \"" + key + "\" is there twice");
    }
    const absl::Status status =
        SetValue(*row, TrimSpace(line.substr(equals + 1)), options);
    if (!status.ok()) {
      const auto message = status.message();
      return at_line(key + ": " + std::string(message.data(), message.size()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Options> ParseArguments(const std::vector<std::string>& args) {
  ASSIGN_OR_RETURN(const std::vector<Argument> arguments, SplitArguments(args));
  Options options;
  for (const Argument& argument : arguments) {
    if (argument.name != "config") continue;
    ASSIGN_OR_RETURN(const std::string text, ReadFile(argument.value));
    RETURN_IF_ERROR(ParseConfig(text, argument.value, &options));
  }
  std::set<std::string> replaced;  // lists of the file
  for (const Argument& argument : arguments) {
    if (argument.name == "config") continue;
    const Row& row = *FindRow(argument.name);
    if (row.kind == Kind::kList && replaced.insert(argument.name).second) {
      (options.*row.list).clear();
    }
    const absl::Status status = SetValue(row, argument.value, &options);
    if (!status.ok()) {
      return Invalid(absl::StrCat("--", argument.name, ": ", status.message()));
    }
  }
  return options;
}

std::vector<std::string> NeedRestart(const Options& before,
                                     const Options& after) {
  std::vector<std::string> names;
  for (const Row& row : OwnRows()) {
    const bool same =
        (row.text == nullptr || before.*row.text == after.*row.text) &&
        (row.list == nullptr || before.*row.list == after.*row.list) &&
        (row.number == nullptr || before.*row.number == after.*row.number);
    if (!same) names.emplace_back(row.name);
  }
  for (const LimitRow& row : LimitTable()) {
    if (row.scope == LimitScope::kDaemon &&
        before.limits[row.limit] != after.limits[row.limit]) {
      names.emplace_back(row.option);
    }
  }
  return names;
}

std::string HelpText() {
  std::string text =
      "Usage: tvarantd [options]\n\n"
      "Serves one Tvarant device to PyTorch processes on this machine.\n\n"
      "  --config FILE\n"
      "      read \"key = value\" lines; keys are the options below, written\n"
      "      with underscores; the command line wins\n";
  for (const Row& row : Table()) {
    text += "  --" + std::string(row.name);
    if (!row.value.empty()) text += " " + std::string(row.value);
    text += "\n      " + std::string(row.doc);
    if (row.limit != nullptr) {
      text += " (default " +
              (row.limit->default_value != 0 ? DefaultOf(*row.limit)
                                             : std::string("all")) +
              ")";
    }
    text += "\n";
  }
  return text;
}

}  // namespace tvarant

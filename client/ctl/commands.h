// What the commands of tvarantctl do.

#ifndef TVARANT_CLIENT_CTL_COMMANDS_H_
#define TVARANT_CLIENT_CTL_COMMANDS_H_

#include "client/ctl/command_line.h"

namespace tvarant::client {

// From sysexits.h.
inline constexpr int kExitInPart = 1;
inline constexpr int kExitUsage = 64;
inline constexpr int kExitUnavailable = 69;
inline constexpr int kExitCantWrite = 73;
inline constexpr int kExitNotAllowed = 77;

// Runs settings.command; prints the result, and faults to stderr. Returns the
// exit status.
int RunCommand(const Settings& settings, const CLI::App& app);

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_CTL_COMMANDS_H_

// The command line of tvarantctl: one definition, from which the parser, the
// help, the manual page and the shell completions come.
//
// To add a command: an entry in MakeCommandLine, and a function in commands.cc.

#ifndef TVARANT_CLIENT_CTL_COMMAND_LINE_H_
#define TVARANT_CLIENT_CTL_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tvarant::client {

// What the command line says; members of other commands keep their defaults.
struct Settings {
  std::string command;  // "status", "cache list", ...

  std::string endpoint;
  bool json = false;
  double timeout_seconds = 5;

  double interval_seconds = 1;     // clients, top
  uint64_t count = 0;              // top; 0: until interrupted
  std::vector<uint64_t> sessions;  // kill
  int64_t pid = 0;                 // kill
  double wait_seconds = 0;         // drain
  bool cancel = false;             // drain
  double trace_seconds = 5;        // trace
  std::string output = "trace.json";
  std::string shell;  // completion
};

// Fills *settings, which must outlive it, when it parses.
std::unique_ptr<CLI::App> MakeCommandLine(Settings* settings);

// tvarantctl(1), in roff.
std::string ManualPage(const CLI::App& app);

// A completion script for "bash", "zsh" or "fish".
std::string Completion(const CLI::App& app, const std::string& shell);

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_CTL_COMMAND_LINE_H_

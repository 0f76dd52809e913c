#include "client/ctl/command_line.h"

#include "tvarant_version.h"

namespace tvarant::client {
namespace {

constexpr char kDefaultEndpoint[] = "unix:/run/tvarant/tvarant.sock";

// Without a text of its own, which would become part of the type's name.
CLI::Validator Between(double low, double high) {
  return CLI::Range(low, high).description("");
}

// A command without arguments of its own; `name` is what Settings::command
// becomes.
CLI::App* Add(CLI::App* parent, Settings* settings, const std::string& name,
              const std::string& doc, const std::string& prefix = "") {
  CLI::App* const command = parent->add_subcommand(name, doc);
  command->fallthrough();
  command->callback([settings, full = prefix + name] {
    if (settings->command.empty()) settings->command = full;
  });
  return command;
}

}  // namespace

std::unique_ptr<CLI::App> MakeCommandLine(Settings* settings) {
  auto app = std::make_unique<CLI::App>(
      "Shows and steers a Tvarant device daemon (tvarantd).", "tvarantctl");
  app->require_subcommand(1);
  app->set_version_flag("--version", std::string("tvarantctl ") + kVersion,
                        "print the version and exit");
  settings->endpoint = kDefaultEndpoint;
  app->add_option("--endpoint", settings->endpoint,
                  "daemon to ask (default unix:/run/tvarant/tvarant.sock)")
      ->envname("TVARANT_ENDPOINT")
      ->type_name("unix:PATH");
  app->add_flag("--json", settings->json, "print JSON, for programs");
  app->add_option("--timeout", settings->timeout_seconds,
                  "how long the daemon may take to answer (default 5)")
      ->type_name("SECONDS")
      ->check(Between(0.01, 3600));

  Add(app.get(), settings, "status", "version, uptime, memory and sessions");
  Add(app.get(), settings, "devices", "each device, and how busy it is");
  CLI::App* const clients =
      Add(app.get(), settings, "clients",
          "who uses the device: process, user, command, memory, share of the "
          "device, queue");
  CLI::App* const top =
      Add(app.get(), settings, "top", "clients and devices, again and again");
  for (CLI::App* const command : {clients, top}) {
    command
        ->add_option("--interval", settings->interval_seconds,
                     "time over which shares are measured (default 1)")
        ->type_name("SECONDS")
        ->check(Between(0.05, 3600));
  }
  top->add_option("--count", settings->count,
                  "end after so many pictures (default never)")
      ->type_name("N");
  CLI::App* const kill =
      Add(app.get(), settings, "kill",
          "end sessions; their processes see a lost device and go on");
  CLI::Option* const ids =
      kill->add_option("session", settings->sessions,
                       "numbers of sessions, as clients shows them")
          ->type_name("N");
  kill->add_option("--pid", settings->pid, "all sessions of a process")
      ->type_name("PID")
      ->excludes(ids);
  CLI::App* const drain =
      Add(app.get(), settings, "drain",
          "take no new sessions, before the daemon is stopped");
  drain
      ->add_option("--wait", settings->wait_seconds,
                   "wait so long for the sessions to end (default 0)")
      ->type_name("SECONDS")
      ->check(Between(0, 1e6));
  drain->add_flag("--cancel", settings->cancel, "take new sessions again");
  CLI::App* const cache =
      app->add_subcommand("cache", "the runtime's compiled kernels");
  cache->require_subcommand(1);
  cache->fallthrough();
  Add(cache, settings, "list", "show them", "cache ");
  Add(cache, settings, "clear", "forget them", "cache ");
  Add(app.get(), settings, "counters", "what the daemon has counted");
  Add(app.get(), settings, "doctor",
      "test the way to the device and say what to do about faults");
  CLI::App* const trace = Add(app.get(), settings, "trace",
                              "record what clients, daemon and device do, for "
                              "https://ui.perfetto.dev");
  trace
      ->add_option("--seconds", settings->trace_seconds, "how long (default 5)")
      ->type_name("SECONDS")
      ->check(Between(0.05, 3600));
  trace
      ->add_option("-o,--output", settings->output,
                   "file to write (default trace.json)")
      ->type_name("FILE");
  Add(app.get(), settings, "completion", "print a completion script")
      ->add_option("shell", settings->shell, "bash, zsh or fish")
      ->type_name("SHELL")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""));
  Add(app.get(), settings, "man", "print the manual page, in roff");
  return app;
}

}  // namespace tvarant::client

// tvarantctl: shows and steers a tvarantd. See docs/runbook.md.

#include <signal.h>

#include "client/ctl/command_line.h"
#include "client/ctl/commands.h"

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_DFL);
  tvarant::client::Settings settings;
  const auto app = tvarant::client::MakeCommandLine(&settings);
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app->exit(error);
    return status == 0 ? 0 : tvarant::client::kExitUsage;
  }
  return tvarant::client::RunCommand(settings, *app);
}

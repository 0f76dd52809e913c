// The users of the configuration as the server takes them, and reading them
// again while it serves (SIGHUP).

#ifndef TVARANT_DAEMON_RELOAD_H_
#define TVARANT_DAEMON_RELOAD_H_

#include <string>
#include <vector>

#include "daemon/config/options.h"
#include "daemon/server/server.h"

namespace tvarant {

// Names of this machine's users become their numbers. A name that is not known
// is logged and left out: it may be made later.
UserPolicies ToUserPolicies(const Options& options);

// Parses the command line and its file again, gives the server its users'
// limits and shares, and tells systemd before and after. With a fault in the
// file everything stays as it is, and the log says why. Other options that are
// different from those at the start are named in the log.
void Reload(const std::vector<std::string>& args, const Options& started,
            Server& server);

}  // namespace tvarant

#endif  // TVARANT_DAEMON_RELOAD_H_

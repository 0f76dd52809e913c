// Which daemon this process talks to, and how it gets there.
//
//   1. TVARANT_ENDPOINT, if set ("unix:PATH" or "tcp://HOST:PORT"; several,
//      with commas, are as many devices);
//   2. else the system's daemon, if its socket answers;
//   3. else a private daemon, started here, that ends with this process.
//
// Environment:
//   TVARANT_ENDPOINT  where daemons listen; client/client.h names the variables
//                     that a tcp endpoint needs
//   TVARANT_BACKEND   runtime of a private daemon: sim (default)
//   TVARANT_DAEMON    path of tvarantd
//   TVARANT_MEMORY    memory of a private daemon, e.g. 8G
//   TVARANT_SIM_MAP   0: never map the simulator's memory
//
// Every failure is one sentence that says what to do.

#ifndef TVARANT_TORCH_PLUGIN_RUNTIME_CONNECTION_H_
#define TVARANT_TORCH_PLUGIN_RUNTIME_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "client/client.h"

namespace tvarant::torch_plugin {

inline constexpr char kSystemSocket[] = "/run/tvarant/tvarant.sock";

struct Connection {
  std::shared_ptr<client::Session> session;
  // Null unless the daemon is our own.
  std::unique_ptr<client::PrivateDaemon> daemon;
  std::string endpoint;
};

// Where tvarantd lies beside the installed package. Called at import.
void SetDaemonPath(std::string path);

// Runtime that TVARANT_BACKEND asks for ("sim" if unset).
std::string BackendName();

// False if it is certain that Connect would fail: no endpoint given, no system
// daemon, and no binary to start. Never raises, never connects to anything but
// the system socket's file.
bool MayConnect() noexcept;

inline constexpr int kMaxEndpoints = 16;

// How many devices the configuration names: 1 to kMaxEndpoints.
int EndpointCount();

// Blocks until connected to the daemon of a device, below EndpointCount().
// Thread-compatible.
client::Result<Connection> Connect(int device = 0);

// "512M", "8G", "1048576"; 0 if it is no size.
uint64_t ParseBytes(const std::string& text);

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_RUNTIME_CONNECTION_H_

// The clients of a daemon with what tvarantctl knows beyond it: user names,
// command lines, shares of the device over a time.

#ifndef TVARANT_CLIENT_CTL_CLIENT_LIST_H_
#define TVARANT_CLIENT_CTL_CLIENT_LIST_H_

#include <chrono>
#include <map>
#include <string>

#include "client/ctl/admin_client.h"
#include "proto/tvarant/v1/admin.pb.h"

namespace tvarant::client {

// Thread-compatible.
class ClientList {
 public:
  // A table, and one line of JSON.
  std::string Text() const;
  std::string Json() const;

 private:
  friend Result<ClientList> ReadClients(AdminClient& client,
                                        std::chrono::milliseconds interval,
                                        const ClientList* before);

  v1::ListSessionsResponse sessions_;
  std::chrono::steady_clock::time_point read_at_;
  // By session: 100 is one stream that has held the device all the time.
  std::map<uint64_t, double> percent_;
};

// Reads the clients, waits and reads them again. Given the list of the last
// reading it waits only for the rest of the interval.
Result<ClientList> ReadClients(AdminClient& client,
                               std::chrono::milliseconds interval,
                               const ClientList* before);

// The devices as a table.
std::string DeviceTable(const v1::ListDevicesResponse& devices);

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_CTL_CLIENT_LIST_H_

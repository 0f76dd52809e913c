// A tvarantd process that serves TCP with mutual TLS on loopback.
//
// Example:
//   auto daemon = StartTcpDaemon(256 << 20);
//   auto session = Session::Connect({.endpoint = daemon->endpoint()});

#ifndef TVARANT_TESTS_INTEGRATION_TCP_DAEMON_H_
#define TVARANT_TESTS_INTEGRATION_TCP_DAEMON_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"

namespace tvarant::client {

// Certificates of an authority made for this process: ca.pem, daemon.pem,
// alice.pem, bob.pem and their keys. Also sets TVARANT_TLS_CA, _CERT and _KEY,
// for user alice.
const std::string& CertificateFolder();

// Fails the test if it does not come up. `port` 0: a free one. `options` stand
// in place of those for mutual TLS. In a network namespace if one is named.
std::unique_ptr<PrivateDaemon> StartTcpDaemon(
    uint64_t memory_bytes, int port = 0,
    const std::vector<std::string>& options = {},
    const std::string& host = "127.0.0.1",
    const std::string& net_namespace = "");

}  // namespace tvarant::client

#endif  // TVARANT_TESTS_INTEGRATION_TCP_DAEMON_H_

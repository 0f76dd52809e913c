// A trace of a daemon in the Chrome trace format, which Perfetto
// (https://ui.perfetto.dev) opens.
//
// A batch is a span in its client (sent to arrived), a span in the daemon
// (arrived to its last command's end) and its commands on the device, joined by
// arrows: client, daemon, device.

#ifndef TVARANT_CLIENT_CTL_TRACE_FILE_H_
#define TVARANT_CLIENT_CTL_TRACE_FILE_H_

#include <string>

#include "proto/tvarant/v1/admin.pb.h"

namespace tvarant::client {

// `trace` has all the events of the trace; `sessions` those that are known.
// Events come in any order between streams and in order within one.
std::string ChromeTrace(const v1::TraceResponse& trace,
                        const v1::ListSessionsResponse& sessions,
                        const v1::GetStatusResponse& daemon);

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_CTL_TRACE_FILE_H_

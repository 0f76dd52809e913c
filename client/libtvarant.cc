// What libtvarant.so is made of: an archive's members are linked only where
// something names them, so the way in is named here.

#include "client/client.h"
#include "proto/ops/program.h"

namespace tvarant::client {
namespace {

[[gnu::used]] constexpr auto kConnect = &Session::Connect;
[[gnu::used]] constexpr auto kStart = &PrivateDaemon::Start;
[[gnu::used]] constexpr auto kValidate = &ValidateProgram;

}  // namespace
}  // namespace tvarant::client

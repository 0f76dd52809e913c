#include "daemon/process/ready_notifier.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tvarant {

bool NotifySystemd(std::string_view state) {
  const char* name = std::getenv("NOTIFY_SOCKET");
  // A path, or '@' and a name in the abstract namespace.
  if (name == nullptr || (name[0] != '/' && name[0] != '@')) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t length = std::strlen(name);
  if (length >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, name, length);
  if (name[0] == '@') address.sun_path[0] = '\0';
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.ok()) return false;
  return ::sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL,
                  reinterpret_cast<const sockaddr*>(&address),
                  static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                         length)) ==
         static_cast<ssize_t>(state.size());
}

void ReadyNotifier::Ready() {
  NotifySystemd("READY=1");
  WriteLine("ready\n");
}

void ReadyNotifier::Failed(std::string_view sentence) {
  WriteLine("error: " + std::string(sentence) + "\n");
}

void ReadyNotifier::Stopping() { NotifySystemd("STOPPING=1"); }

void ReadyNotifier::WriteLine(std::string line) {
  if (!ready_fd_.ok()) return;
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t written =
        ::write(ready_fd_.get(), line.data() + done, line.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;  // nobody listens any more
    done += static_cast<size_t>(written);
  }
  ready_fd_.reset();
}

}  // namespace tvarant

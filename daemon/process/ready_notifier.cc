#include "daemon/process/ready_notifier.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "daemon/process/systemd.h"

namespace tvarant {

void ReadyNotifier::Ready() {
  NotifySystemd("READY=1\nSTATUS=serving");
  WriteLine("ready\n");
}

void ReadyNotifier::Failed(std::string_view sentence) {
  WriteLine("error: " + std::string(sentence) + "\n");
}

void ReadyNotifier::Stopping(std::chrono::seconds at_most) {
  const std::chrono::microseconds at_most_us = at_most;
  NotifySystemd("STOPPING=1\nEXTEND_TIMEOUT_USEC=" +
                std::to_string(at_most_us.count()));
}

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

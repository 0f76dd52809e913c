#include "daemon/process/watchdog.h"

#include <utility>

#include "daemon/process/systemd.h"

namespace tvarant {

Watchdog::Watchdog(std::optional<std::chrono::microseconds> timeout,
                   std::function<void()> probe)
    : probe_(std::move(probe)) {
  if (!timeout.has_value()) return;
  thread_ = std::thread([this, period = *timeout / 4] { Run(period); });
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  {
    base::MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyOne();
  }
  thread_.join();
}

void Watchdog::Run(std::chrono::microseconds period) {
  for (;;) {
    probe_();
    NotifySystemd("WATCHDOG=1");
    base::MutexLock lock(mutex_);
    if (!stop_) changed_.WaitFor(mutex_, period);
    if (stop_) return;
  }
}

}  // namespace tvarant

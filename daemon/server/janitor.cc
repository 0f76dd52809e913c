#include "daemon/server/janitor.h"

#include <chrono>
#include <utility>

namespace tvarant {
namespace {

constexpr std::chrono::milliseconds kBusyPeriod = BusyTracker::kIdleAfter;
constexpr std::chrono::milliseconds kIdlePeriod{1000};

}  // namespace

Janitor::Janitor(SessionRegistry& sessions, BusyTracker& busy)
    : sessions_(sessions), busy_(busy), thread_([this] { Run(); }) {}

Janitor::~Janitor() {
  {
    base::MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyOne();
  }
  thread_.join();
}

void Janitor::EndSoon(std::shared_ptr<Session> session) {
  base::MutexLock lock(mutex_);
  gone_.push_back(std::move(session));
  changed_.NotifyOne();
}

void Janitor::Run() {
  std::chrono::milliseconds period = kIdlePeriod;
  for (;;) {
    std::vector<std::shared_ptr<Session>> gone;
    {
      base::MutexLock lock(mutex_);
      if (gone_.empty() && !stop_) changed_.WaitFor(mutex_, period);
      if (stop_) return;
      gone.swap(gone_);
    }
    for (const auto& session : gone) sessions_.End(session, "client_gone");
    gone.clear();
    sessions_.Sweep();
    const auto now = std::chrono::nanoseconds(
        std::chrono::steady_clock::now().time_since_epoch());
    period = busy_.Sweep(now.count()) ? kBusyPeriod : kIdlePeriod;
  }
}

}  // namespace tvarant

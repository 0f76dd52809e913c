#include "client/thread.h"

#include <signal.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace tvarant::client {
namespace {

struct Start {
  const char* name;
  std::function<void()> body;
};

void* Run(void* argument) {
  std::unique_ptr<Start> start(static_cast<Start*>(argument));
  ::pthread_setname_np(::pthread_self(), start->name);
  start->body();
  return nullptr;
}

}  // namespace

Status Thread::Start(const char* name, std::function<void()> body) {
  auto start = std::make_unique<struct Start>();
  start->name = name;
  start->body = std::move(body);
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = ::pthread_create(&thread_, nullptr, Run, start.get());
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    return Status(Code::kResourceExhausted,
                  std::string("can't start a thread: ") + std::strerror(error));
  }
  (void)start.release();  // Run() owns it
  started_ = true;
  return Status();
}

void Thread::Join() {
  if (!started_) return;
  ::pthread_join(thread_, nullptr);
  started_ = false;
}

}  // namespace tvarant::client

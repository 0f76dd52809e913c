#include "tests/benchmarks/noisy_neighbour/client_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace tvarant::benchmarks {

std::unique_ptr<ClientProcess> ClientProcess::Start(const std::string& role,
                                                    const std::string& endpoint,
                                                    double seconds) {
  int to[2], from[2];
  if (::pipe2(to, O_CLOEXEC) != 0) return nullptr;
  base::UniqueFd to_read(to[0]), to_write(to[1]);
  if (::pipe2(from, O_CLOEXEC) != 0) return nullptr;
  base::UniqueFd from_read(from[0]), from_write(from[1]);
  const std::string time = std::to_string(seconds);
  const pid_t pid = ::fork();
  if (pid < 0) return nullptr;
  if (pid == 0) {
    ::dup2(to_read.get(), STDIN_FILENO);
    ::dup2(from_write.get(), STDOUT_FILENO);
    ::execl("/proc/self/exe", "noisy_neighbour", "--role", role.c_str(),
            "--endpoint", endpoint.c_str(), "--seconds", time.c_str(),
            static_cast<char*>(nullptr));
    ::_exit(127);
  }
  std::unique_ptr<ClientProcess> process(new ClientProcess);
  process->pid_ = pid;
  process->to_ = std::move(to_write);
  process->from_ = std::move(from_read);
  return process;
}

ClientProcess::~ClientProcess() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool ClientProcess::WaitReady() {
  char byte;
  return ::read(from_.get(), &byte, 1) == 1;
}

void ClientProcess::Go() { to_.reset(); }

std::optional<RoleResult> ClientProcess::Wait() {
  char text[256] = {};
  size_t length = 0;
  ssize_t got;
  while (length < sizeof(text) - 1 &&
         (got = ::read(from_.get(), text + length, sizeof(text) - 1 - length)) >
             0) {
    length += static_cast<size_t>(got);
  }
  int status = -1;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  RoleResult result;
  if (status != 0 ||
      std::sscanf(text, "%lf %lf %lf %lf", &result.per_second, &result.p50_us,
                  &result.p99_us, &result.max_us) != 4) {
    return std::nullopt;
  }
  return result;
}

int RunClient(const std::string& role, const std::string& endpoint,
              double seconds) {
  const auto ready = [] {
    char byte = 'r';
    if (::write(STDOUT_FILENO, &byte, 1) != 1) ::_exit(1);
    // The end of the pipe is the sign to go.
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
  };
  const auto result =
      RunRole(role, endpoint, std::chrono::duration<double>(seconds), ready);
  if (!result.ok()) {
    std::fprintf(stderr, "%s: %s\n", role.c_str(),
                 result.status().message().c_str());
    return 1;
  }
  const RoleResult& r = result.value();
  std::printf("%f %f %f %f\n", r.per_second, r.p50_us, r.p99_us, r.max_us);
  return 0;
}

}  // namespace tvarant::benchmarks

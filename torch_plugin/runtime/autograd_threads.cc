#include "torch_plugin/runtime/autograd_threads.h"

#include <dirent.h>

#include <chrono>
#include <fstream>
#include <map>
#include <string>
#include <thread>

namespace tvarant::torch_plugin {
namespace {

// How often each sleeping autograd thread has gone to sleep, by thread id;
// false if one of them runs.
bool AllSleep(std::map<std::string, std::string>* sleeps) {
  sleeps->clear();
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return true;  // nothing to go by
  bool all_sleep = true;
  while (const dirent* entry = readdir(tasks)) {
    const std::string id = entry->d_name;
    if (id[0] == '.') continue;
    std::ifstream status("/proc/self/task/" + id + "/status");
    std::string line;
    bool is_autograd = false;
    while (std::getline(status, line)) {
      if (line.rfind("Name:", 0) == 0) {
        is_autograd = line.find("autograd") != std::string::npos;
        if (!is_autograd) break;
      } else if (line.rfind("State:", 0) == 0) {
        if (line.find('S') == std::string::npos ||
            line.find("S (sleeping)") == std::string::npos) {
          all_sleep = false;
        }
      } else if (line.rfind("voluntary_ctxt_switches:", 0) == 0) {
        (*sleeps)[id] = line;
      }
    }
  }
  closedir(tasks);
  return all_sleep;
}

}  // namespace

void WaitForAutogradThreads(int timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end =
      Clock::now() + std::chrono::milliseconds(timeout_ms);
  std::map<std::string, std::string> before;
  std::map<std::string, std::string> after;
  bool slept = AllSleep(&before);
  if (before.empty() && slept) return;  // there are none
  // Asleep twice, without having woken in between: a thread that waits for a
  // lock for a moment looks asleep, too.
  while (Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const bool sleeps = AllSleep(&after);
    if (slept && sleeps && before == after) return;
    slept = sleeps;
    before.swap(after);
  }
}

}  // namespace tvarant::torch_plugin

#include "daemon/scheduler/device_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tvarant {
namespace {

// Ends a wait for something that other threads do at once.
void WaitUntil(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::yield();
}

TEST(DeviceGateTest, LetsWidthStreamsIn) {
  DeviceGate gate(2);
  DeviceGate::Member member;
  DeviceGate::Pass a(gate, member), b(gate, member), c(gate, member);
  a.Enter();
  b.Enter();
  a.Enter();  // inside already
  EXPECT_EQ(gate.running(), 2u);
  std::atomic<bool> entered{false};
  std::thread third([&] {
    c.Enter();
    entered = true;
  });
  WaitUntil([&] { return gate.waiting() == 1; });
  EXPECT_FALSE(entered);
  a.Leave();
  third.join();
  EXPECT_TRUE(entered);
  EXPECT_EQ(gate.running(), 2u);
  b.Leave();
  c.Leave();
  EXPECT_EQ(gate.running(), 0u);
  EXPECT_EQ(gate.waiting(), 0u);
}

// One session queues three streams, then another session one: the other's comes
// second, not fourth.
TEST(DeviceGateTest, SessionsTakeTurns) {
  DeviceGate gate(1);
  DeviceGate::Member greedy, modest;
  DeviceGate::Pass holder(gate, greedy);
  holder.Enter();
  std::mutex mutex;
  std::vector<char> order;
  std::vector<std::thread> threads;
  const auto queue = [&](DeviceGate::Member& member, char name) {
    const uint32_t before = gate.waiting();
    threads.emplace_back([&gate, &member, &mutex, &order, name] {
      DeviceGate::Pass pass(gate, member);
      pass.Enter();
      std::lock_guard<std::mutex> lock(mutex);
      order.push_back(name);
    });
    WaitUntil([&] { return gate.waiting() == before + 1; });
  };
  queue(greedy, 'g');
  queue(greedy, 'g');
  queue(greedy, 'g');
  queue(modest, 'm');
  holder.Leave();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<char>{'g', 'm', 'g', 'g'}));
}

TEST(DeviceGateTest, YieldsOnlyWhenOthersWaitAndTheQuantumIsOver) {
  DeviceGate gate(1);
  DeviceGate::Member a, b;
  DeviceGate::Pass first(gate, a);
  EXPECT_FALSE(first.ShouldYield());
  first.Enter();
  const auto busy_until =
      std::chrono::steady_clock::now() + 2 * DeviceGate::kQuantum;
  while (std::chrono::steady_clock::now() < busy_until) {
  }
  EXPECT_FALSE(first.ShouldYield());
  std::atomic<bool> ran{false};
  std::thread other([&] {
    DeviceGate::Pass pass(gate, b);
    pass.Enter();
    ran = true;
  });
  WaitUntil([&] { return gate.waiting() == 1; });
  EXPECT_TRUE(first.ShouldYield());
  first.Yield();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(first.inside());
  other.join();
  first.Leave();
}

TEST(DeviceGateTest, ChargesTheTimeInside) {
  DeviceGate gate(1);
  DeviceGate::Member member, idle;
  {
    DeviceGate::Pass pass(gate, member);
    pass.Enter();
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(3);
    while (std::chrono::steady_clock::now() < until) {
    }
  }
  EXPECT_GE(member.busy_ns(), 3000000u);
  EXPECT_EQ(gate.total_busy_ns(), member.busy_ns());
  EXPECT_EQ(idle.busy_ns(), 0u);
}

TEST(DeviceGateTest, NeverLetsMoreInWhateverTheOrder) {
  constexpr int kWidth = 2, kThreads = 8, kRounds = 3000;
  DeviceGate gate(kWidth);
  std::vector<std::unique_ptr<DeviceGate::Member>> members;
  for (int i = 0; i < 3; ++i) {
    members.push_back(std::make_unique<DeviceGate::Member>());
  }
  std::atomic<int> inside{0};
  std::atomic<bool> too_many{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      DeviceGate::Pass pass(gate, *members[t % members.size()]);
      for (int i = 0; i < kRounds; ++i) {
        pass.Enter();
        if (++inside > kWidth) too_many = true;
        if (i % 64 == 0) std::this_thread::yield();
        --inside;
        pass.Leave();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(too_many);
  EXPECT_EQ(gate.running(), 0u);
  EXPECT_EQ(gate.waiting(), 0u);
}

}  // namespace
}  // namespace tvarant

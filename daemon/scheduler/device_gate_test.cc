#include "daemon/scheduler/device_gate.h"

#include <gtest/gtest.h>

#include <algorithm>
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

// Streams of one place each that keep the device busy until told to stop; says
// what share of the time each group had.
class Contest {
 public:
  ~Contest() { Stop(); }

  // Three streams, so that there is always one that waits.
  void AddSession(DeviceGate::Member& member) {
    for (int i = 0; i < 3; ++i) Add(member, std::chrono::microseconds(500));
  }
  void Add(DeviceGate::Member& member, std::chrono::microseconds turn) {
    threads_.emplace_back([this, &member, turn] {
      DeviceGate::Pass pass(gate_, member);
      while (!stop_) {
        pass.Enter();
        const auto until = std::chrono::steady_clock::now() + turn;
        while (std::chrono::steady_clock::now() < until) {
          if (pass.ShouldYield()) pass.Yield();
        }
        pass.Leave();
      }
    });
  }
  void Run(std::chrono::milliseconds time) {
    WaitUntil([&] { return gate_.waiting() + 1 >= threads_.size(); });
    std::this_thread::sleep_for(time);
    Stop();
  }
  DeviceGate& gate() { return gate_; }

 private:
  void Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  DeviceGate gate_{1};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

double Share(uint64_t a_ns, uint64_t b_ns) {
  return static_cast<double>(a_ns) / static_cast<double>(a_ns + b_ns);
}

// Four sessions give a user no more than one session does.
TEST(DeviceGateTest, UsersShareWhateverTheirSessions) {
  DeviceGate::User many, one;
  DeviceGate::Member a(&many), b(&many), c(&many), d(&many), e(&one);
  Contest contest;
  for (DeviceGate::Member* member : {&a, &b, &c, &d}) {
    contest.Add(*member, std::chrono::microseconds(300));
  }
  contest.Add(e, std::chrono::microseconds(3000));
  contest.Run(std::chrono::milliseconds(800));
  EXPECT_NEAR(Share(one.busy_ns(), many.busy_ns()), 0.5, 0.08);
  EXPECT_EQ(one.busy_ns(), e.busy_ns());
}

TEST(DeviceGateTest, WeightsAreShares) {
  DeviceGate::User light, heavy;
  DeviceGate::Member a(&light), b(&heavy);
  Contest contest;
  contest.gate().Configure(heavy, 4, Priority::kNormal);
  contest.AddSession(a);
  contest.AddSession(b);
  contest.Run(std::chrono::milliseconds(800));
  EXPECT_NEAR(Share(heavy.busy_ns(), light.busy_ns()), 0.8, 0.08);
}

TEST(DeviceGateTest, HighPriorityGoesFirstAndNormalIsNotStarved) {
  DeviceGate::User normal, high;
  DeviceGate::Member a(&normal), b(&high);
  Contest contest;
  contest.gate().Configure(high, 1, Priority::kHigh);
  contest.AddSession(a);
  contest.AddSession(b);
  contest.Run(std::chrono::milliseconds(800));
  EXPECT_GE(Share(high.busy_ns(), normal.busy_ns()), 0.8);
  EXPECT_GT(normal.busy_ns(), 0u);
}

// Who asks now and then waits for a slice of a stream, not for the round of
// eight that want the device all the time.
TEST(DeviceGateTest, WhoAsksNowAndThenIsNext) {
  DeviceGate::User flood;
  std::vector<std::unique_ptr<DeviceGate::Member>> members;
  DeviceGate::Member small;
  Contest contest;
  for (int i = 0; i < 8; ++i) {
    members.push_back(std::make_unique<DeviceGate::Member>(&flood));
    contest.Add(*members.back(), std::chrono::microseconds(5000));
  }
  WaitUntil([&] { return contest.gate().waiting() == 7; });
  std::vector<std::chrono::steady_clock::duration> waits;
  DeviceGate::Pass pass(contest.gate(), small);
  for (int i = 0; i < 51; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const auto before = std::chrono::steady_clock::now();
    pass.Enter();
    waits.push_back(std::chrono::steady_clock::now() - before);
    pass.Leave();
  }
  std::sort(waits.begin(), waits.end());
  // A round would be 8 ms; 200 us is what it takes on an idle machine.
  EXPECT_LT(waits[waits.size() / 2], std::chrono::milliseconds(4));
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

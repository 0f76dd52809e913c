#include "client/flusher.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tvarant::client {
namespace {

// Counts what becomes pending and what is sent.
class FakeStream : public Flushable {
 public:
  // True when the batch was empty.
  bool Append() { return pending_.fetch_add(1) == 0; }
  bool HasPending() const override { return pending_.load() > 0; }
  bool Visit() override {
    const int taken = pending_.exchange(0);
    sent_ += taken;
    return taken > 0;
  }
  int sent() const { return sent_.load(); }

 private:
  std::atomic<int> pending_{0};
  std::atomic<int> sent_{0};
};

void WaitForSent(const FakeStream& stream, int count) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (stream.sent() < count && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  ASSERT_EQ(stream.sent(), count);
}

TEST(FlusherTest, SendsWhatIsLeftAsleepOrAwake) {
  Flusher flusher;
  ASSERT_TRUE(flusher.Start().ok());
  auto stream = std::make_shared<FakeStream>();
  flusher.Add(stream);
  for (int i = 1; i <= 300; ++i) {
    if (stream->Append()) flusher.Notify();
    WaitForSent(*stream, i);
    // Now and then long enough for it to fall asleep.
    if (i % 50 == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

TEST(FlusherTest, StreamsComeAndGoWhileItRuns) {
  Flusher flusher;
  ASSERT_TRUE(flusher.Start().ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&flusher] {
      for (int i = 0; i < 100; ++i) {
        auto stream = std::make_shared<FakeStream>();
        flusher.Add(stream);
        if (stream->Append()) flusher.Notify();
        WaitForSent(*stream, 1);
        flusher.Remove(stream.get());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(FlusherTest, StopsWhileAsleepAndUnstarted) {
  { Flusher never_started; }
  Flusher flusher;
  ASSERT_TRUE(flusher.Start().ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  flusher.Stop();
  flusher.Stop();
}

}  // namespace
}  // namespace tvarant::client

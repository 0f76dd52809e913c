#include "daemon/scheduler/fair_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace tvarant {
namespace {

using Arrival = FairQueue::Arrival;

// A device of one place that entries keep busy: each waits again as soon as its
// turn has ended.
class Device {
 public:
  FairEntry& Add(uint32_t weight, int64_t turn_ns) {
    entries_.push_back(std::make_unique<Entry>());
    Entry& entry = *entries_.back();
    entry.turn_ns = turn_ns;
    queue_.SetWeight(entry.fair, weight);
    queue_.Arrive(entry.fair, Arrival::kNew, now_ns_);
    return entry.fair;
  }

  void Run(int64_t time_ns) {
    const int64_t end_ns = now_ns_ + time_ns;
    while (now_ns_ < end_ns) Turn();
  }

  void Turn() {
    FairEntry* next = queue_.Next();
    ASSERT_NE(next, nullptr);
    queue_.Grant(*next);
    for (const auto& entry : entries_) {
      if (&entry->fair != next) continue;
      now_ns_ += entry->turn_ns;
      queue_.Finish(entry->fair, entry->turn_ns, true, now_ns_);
      queue_.Arrive(entry->fair, Arrival::kYielded, now_ns_);
      entry->busy_ns += entry->turn_ns;
    }
  }

  // Of all that was done, in percent.
  double Share(const FairEntry& of) const {
    int64_t all = 0, own = 0;
    for (const auto& entry : entries_) {
      all += entry->busy_ns;
      if (&entry->fair == &of) own = entry->busy_ns;
    }
    return 100.0 * static_cast<double>(own) / static_cast<double>(all);
  }

  FairQueue& queue() { return queue_; }
  int64_t now_ns() const { return now_ns_; }

 private:
  struct Entry {
    FairEntry fair;
    int64_t turn_ns = 0;
    int64_t busy_ns = 0;
  };
  FairQueue queue_;
  std::vector<std::unique_ptr<Entry>> entries_;
  int64_t now_ns_ = 1;
};

TEST(FairQueueTest, EqualWeightsGetEqualTimeWhateverATurnTakes) {
  Device device;
  const FairEntry& small = device.Add(1, 20000);
  const FairEntry& medium = device.Add(1, 700000);
  const FairEntry& large = device.Add(1, 9000000);
  device.Run(2000000000);
  EXPECT_NEAR(device.Share(small), 33.3, 1.5);
  EXPECT_NEAR(device.Share(medium), 33.3, 1.5);
  EXPECT_NEAR(device.Share(large), 33.3, 1.5);
}

TEST(FairQueueTest, WeightsAreShares) {
  Device device;
  const FairEntry& one = device.Add(1, 300000);
  const FairEntry& three = device.Add(3, 200000);
  device.Run(1000000000);
  EXPECT_NEAR(device.Share(one), 25, 2);
  EXPECT_NEAR(device.Share(three), 75, 2);
}

TEST(FairQueueTest, WhoAsksNowAndThenIsNext) {
  Device device;
  for (int i = 0; i < 8; ++i) device.Add(1, 1000000);
  device.Run(100000000);
  FairEntry sparse;
  device.queue().Arrive(sparse, Arrival::kNew, device.now_ns());
  EXPECT_TRUE(sparse.fresh());
  EXPECT_EQ(device.queue().fresh_size(), 1u);
  EXPECT_EQ(device.queue().Next(), &sparse);
  device.queue().Grant(sparse);
  EXPECT_EQ(device.queue().fresh_size(), 0u);
  EXPECT_NE(device.queue().Next(), &sparse);
}

// Short pauses between turns are no way to more than one's share.
TEST(FairQueueTest, PausesGiveNoMore) {
  FairQueue queue;
  FairEntry steady, sly;
  int64_t now_ns = 1, steady_ns = 0, sly_ns = 0;
  constexpr int64_t kTurnNs = 900000, kPauseNs = 20000;
  queue.Arrive(steady, Arrival::kNew, now_ns);
  int64_t sly_back_at_ns = now_ns;
  for (int i = 0; i < 10000; ++i) {
    if (!sly.waits() && now_ns >= sly_back_at_ns)
      queue.Arrive(sly, Arrival::kNew, now_ns);
    FairEntry* next = queue.Next();
    queue.Grant(*next);
    now_ns += kTurnNs;
    if (next == &steady) {
      queue.Finish(steady, kTurnNs, true, now_ns);
      queue.Arrive(steady, Arrival::kYielded, now_ns);
      steady_ns += kTurnNs;
    } else {
      queue.Finish(sly, kTurnNs, true, now_ns);
      sly_back_at_ns = now_ns + kPauseNs;
      sly_ns += kTurnNs;
    }
  }
  const double share =
      static_cast<double>(sly_ns) / static_cast<double>(sly_ns + steady_ns);
  EXPECT_LE(share, 0.52);
  EXPECT_GE(share, 0.35);
}

TEST(FairQueueTest, ADebtIsPaidBackAndBounded) {
  FairQueue queue;
  FairEntry debtor, other;
  queue.Arrive(debtor, Arrival::kNew, 1);
  queue.Grant(*queue.Next());
  queue.Finish(debtor, int64_t{3600} * 1000000000, true, 2);
  EXPECT_GE(debtor.credit_ns(), -int64_t{10} * 1000000000);
  // Waits for its turn behind the others, and gets it when there are none.
  queue.Arrive(debtor, Arrival::kNew, 3);
  EXPECT_FALSE(debtor.fresh());
  EXPECT_EQ(queue.Next(), &debtor);
  queue.Arrive(other, Arrival::kNew, 3);
  EXPECT_EQ(queue.Next(), &other);
}

TEST(FairQueueTest, RemovedAndInserted) {
  FairQueue a, b;
  FairEntry entry;
  a.Arrive(entry, Arrival::kNew, 1);
  a.Arrive(entry, Arrival::kNew, 1);
  a.Remove(entry);
  EXPECT_EQ(a.Next(), nullptr);
  b.Insert(entry);
  EXPECT_EQ(b.Next(), &entry);
  b.Grant(entry);
  EXPECT_EQ(b.Next(), &entry);
  b.Grant(entry);
  EXPECT_EQ(b.Next(), nullptr);
}

}  // namespace
}  // namespace tvarant

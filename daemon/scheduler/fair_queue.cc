#include "daemon/scheduler/fair_queue.h"

#include <algorithm>
#include <limits>

namespace tvarant {
namespace {

// No debt keeps an entry out for longer than this: it may have been a launch
// that nothing could split, of an hour.
constexpr int64_t kMaxDebtNs = 10 * int64_t{1000000000};

}  // namespace

int64_t FairQueue::QuantumOf(const FairEntry& entry) {
  return kQuantumNs * static_cast<int64_t>(entry.weight_);
}

FairQueue::Entries& FairQueue::ListOf(const FairEntry& entry) {
  return entry.list_ == FairEntry::List::kFresh ? fresh_ : round_;
}

void FairQueue::Append(FairEntry& entry, FairEntry::List list) {
  entry.list_ = list;
  ListOf(entry).push_back(&entry);
}

void FairQueue::Remove(FairEntry& entry) {
  if (entry.list_ == FairEntry::List::kNone) return;
  Entries& list = ListOf(entry);
  list.erase(std::find(list.begin(), list.end(), &entry));
  entry.list_ = FairEntry::List::kNone;
}

void FairQueue::Insert(FairEntry& entry) {
  if (entry.waits()) Append(entry, FairEntry::List::kRound);
}

void FairQueue::Arrive(FairEntry& entry, Arrival arrival, int64_t now_ns) {
  if (entry.waiting_++ > 0) return;
  if (arrival == Arrival::kYielded || entry.running_ > 0) {
    // It goes on with what it has left.
    if (entry.credit_ns_ > 0) {
      entry.list_ = FairEntry::List::kRound;
      round_.push_front(&entry);
    } else {
      Append(entry, FairEntry::List::kRound);
    }
    return;
  }
  const int64_t idle_ns = std::max<int64_t>(now_ns - entry.idle_since_ns_, 0) /
                          static_cast<int64_t>(1 + size());
  entry.credit_ns_ = entry.credit_ns_ > QuantumOf(entry) - idle_ns
                         ? QuantumOf(entry)
                         : entry.credit_ns_ + idle_ns;
  Append(entry, entry.credit_ns_ > 0 ? FairEntry::List::kFresh
                                     : FairEntry::List::kRound);
}

FairEntry* FairQueue::Next() {
  if (!fresh_.empty()) return fresh_.front();
  if (round_.empty()) return nullptr;
  // As many rounds at once as it takes until somebody has credit.
  int64_t rounds = std::numeric_limits<int64_t>::max();
  for (const FairEntry* entry : round_) {
    rounds = std::min(rounds, entry->credit_ns_ > 0
                                  ? 0
                                  : -entry->credit_ns_ / QuantumOf(*entry) + 1);
  }
  if (rounds > 0) {
    for (FairEntry* entry : round_) {
      entry->credit_ns_ += rounds * QuantumOf(*entry);
    }
  }
  while (round_.front()->credit_ns_ <= 0) {
    round_.push_back(round_.front());
    round_.pop_front();
  }
  return round_.front();
}

void FairQueue::Grant(FairEntry& entry) {
  ++entry.running_;
  entry.credit_ns_ -= kQuantumNs;
  if (--entry.waiting_ == 0) {
    Remove(entry);
  } else if (entry.list_ == FairEntry::List::kFresh || entry.credit_ns_ <= 0) {
    Remove(entry);
    Append(entry, FairEntry::List::kRound);
  }
}

void FairQueue::Finish(FairEntry& entry, int64_t busy_ns, bool was_granted,
                       int64_t now_ns) {
  if (was_granted) {
    --entry.running_;
    entry.credit_ns_ += kQuantumNs;
  }
  entry.credit_ns_ = std::max(entry.credit_ns_ - busy_ns, -kMaxDebtNs);
  if (entry.running_ == 0) entry.idle_since_ns_ = now_ns;
}

void FairQueue::SetWeight(FairEntry& entry, uint32_t weight) {
  entry.weight_ = std::max<uint32_t>(weight, 1);
}

}  // namespace tvarant

// FairQueue: who is next, by deficit round robin over measured time.
//
// An entry is whoever waits for the device with others: a user, or a session
// among those of its user. It is queued while something of it waits. Its credit
// is time: it falls by what its work took, and when nobody who waits has any
// left, all of them get a quantum times their weight (Shreedhar and Varghese,
// 1995). What a turn costs is known only afterwards, so a turn is charged a
// quantum when it is granted and settled when it ends.
//
// Who comes back after a pause, and owes nothing, goes before those who keep
// the queue full, for one quantum (as in FQ-CoDel, RFC 8290): a client that
// asks now and then waits for one slice of the others, not for a round. A pause
// pays off a debt as fast as the entry's share would have.
//
// Thread-compatible: the gate's mutex guards it.

#ifndef TVARANT_DAEMON_SCHEDULER_FAIR_QUEUE_H_
#define TVARANT_DAEMON_SCHEDULER_FAIR_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>

namespace tvarant {

// The time that an entry of weight 1 gets in a round.
inline constexpr int64_t kQuantumNs = 1000000;

class FairEntry {
 public:
  bool waits() const { return waiting_ > 0; }
  // Whether it came back after a pause and has not had its turn.
  bool fresh() const { return list_ == List::kFresh; }
  int64_t credit_ns() const { return credit_ns_; }

 private:
  friend class FairQueue;
  enum class List : uint8_t { kNone, kFresh, kRound };

  uint32_t weight_ = 1;
  uint32_t waiting_ = 0;
  uint32_t running_ = 0;
  List list_ = List::kNone;
  int64_t credit_ns_ = 0;
  int64_t idle_since_ns_ = 0;
};

class FairQueue {
 public:
  // Something of the entry waits from now on: it comes, or it had its turn and
  // would go on (kYielded).
  enum class Arrival { kNew, kYielded };
  void Arrive(FairEntry& entry, Arrival arrival, int64_t now_ns);
  // Whose turn it is; null if nobody waits. Changes nothing but credits.
  FairEntry* Next();
  // One of the entry's waiting things has its turn.
  void Grant(FairEntry& entry);
  // A turn has ended that took `busy_ns`. One that was not granted, since
  // nobody waited when it began, is only charged.
  void Finish(FairEntry& entry, int64_t busy_ns, bool was_granted,
              int64_t now_ns);

  // 1 or more. Any time.
  void SetWeight(FairEntry& entry, uint32_t weight);
  // Takes an entry out, and puts one in, with all that it waits for.
  void Remove(FairEntry& entry);
  void Insert(FairEntry& entry);

  // Entries that wait.
  size_t size() const { return fresh_.size() + round_.size(); }
  size_t fresh_size() const { return fresh_.size(); }

 private:
  using Entries = std::deque<FairEntry*>;
  static int64_t QuantumOf(const FairEntry& entry);
  Entries& ListOf(const FairEntry& entry);
  void Append(FairEntry& entry, FairEntry::List list);

  Entries fresh_;
  Entries round_;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SCHEDULER_FAIR_QUEUE_H_

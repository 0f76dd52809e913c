#include "daemon/server/flight_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "proto/base/logging.h"
#include "proto/ops/op_ids.h"

namespace tvarant {
namespace {

// Where the crash handler finds the recorders. Those beyond are not written;
// there are at most as many as streams.
constexpr size_t kMaxWritten = 4096;
constexpr size_t kWrittenEvents = 4;
std::array<std::atomic<const FlightRecorder*>, kMaxWritten> g_recorders{};
// Slots at and above were never used.
std::atomic<size_t> g_recorder_bound{0};

int64_t NowNs() {
  return std::chrono::nanoseconds(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

constexpr uint64_t Pack(const FlightEvent& event) {
  return static_cast<uint64_t>(event.what) |
         static_cast<uint64_t>(event.kernel) << 16 |
         static_cast<uint64_t>(event.code) << 32;
}

// A line put together without allocation. What does not fit is cut.
class Line {
 public:
  void Text(const char* text) {
    while (*text != '\0' && size_ < sizeof(bytes_)) bytes_[size_++] = *text++;
  }
  void Number(const char* key, uint64_t value) {
    char digits[20];
    size_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    Text(key);
    while (count > 0 && size_ < sizeof(bytes_))
      bytes_[size_++] = digits[--count];
  }
  void Write(int fd) {
    bytes_[std::min(size_, sizeof(bytes_) - 1)] = '\n';
    [[maybe_unused]] const ssize_t written =
        ::write(fd, bytes_, std::min(size_ + 1, sizeof(bytes_)));
    size_ = 0;
  }

 private:
  char bytes_[256];
  size_t size_ = 0;
};

}  // namespace

const char* NameOf(RecordKind kind) {
  switch (kind) {
    case RecordKind::kLaunch:
      return "launch";
    case RecordKind::kUpload:
    case RecordKind::kUploadStaged:
    case RecordKind::kUploadBulk:
      return "upload";
    case RecordKind::kRead:
    case RecordKind::kDownloadStaged:
    case RecordKind::kDownloadBulk:
      return "download";
    case RecordKind::kCopyBytes:
      return "copy_bytes";
    case RecordKind::kDefineProgram:
      return "define_program";
    case RecordKind::kRecordEvent:
      return "record_event";
    case RecordKind::kWaitEvent:
      return "wait_event";
    case RecordKind::kMarker:
      return "marker";
  }
  return "unknown";
}

const char* FlightEvent::Name() const {
  if (what == kBatch) return "batch";
  if (what == kWait) return "wait_for_device";
  if (what == static_cast<uint16_t>(RecordKind::kLaunch)) {
    return NameOf(static_cast<Kernel>(kernel));
  }
  return what > 0xff ? "unknown" : NameOf(static_cast<RecordKind>(what));
}

FlightRecorder::FlightRecorder(uint64_t session, uint32_t stream)
    : session_(session), stream_(stream) {
  for (size_t i = 0; i < kMaxWritten; ++i) {
    const FlightRecorder* none = nullptr;
    if (g_recorders[i].load(std::memory_order_relaxed) == nullptr &&
        g_recorders[i].compare_exchange_strong(none, this)) {
      size_t bound = g_recorder_bound.load();
      while (bound <= i &&
             !g_recorder_bound.compare_exchange_weak(bound, i + 1)) {
      }
      return;
    }
  }
}

FlightRecorder::~FlightRecorder() {
  const size_t bound = g_recorder_bound.load();
  for (size_t i = 0; i < bound; ++i) {
    const FlightRecorder* self = this;
    if (g_recorders[i].compare_exchange_strong(self, nullptr)) return;
  }
}

void FlightRecorder::Begin(const FlightEvent& event) {
  const uint64_t number = next_.load(std::memory_order_relaxed);
  // Who reads what is stored below also sees that the slot is being reused.
  std::atomic_thread_fence(std::memory_order_release);
  Slot& slot = slots_[number % kEvents];
  slot.sequence.store(event.sequence, std::memory_order_relaxed);
  slot.start_ns.store(event.start_ns, std::memory_order_relaxed);
  slot.end_ns.store(event.end_ns, std::memory_order_relaxed);
  slot.packed.store(Pack(event), std::memory_order_relaxed);
  next_.store(number + 1, std::memory_order_release);
}

void FlightRecorder::End(int64_t end_ns, absl::StatusCode code) {
  Slot& slot = slots_[(next_.load(std::memory_order_relaxed) - 1) % kEvents];
  if (code != absl::StatusCode::kOk) {
    slot.packed.store(slot.packed.load(std::memory_order_relaxed) |
                          static_cast<uint64_t>(code) << 32,
                      std::memory_order_relaxed);
  }
  slot.end_ns.store(end_ns, std::memory_order_release);
}

FlightEvent FlightRecorder::Load(uint64_t number) const {
  const Slot& slot = slots_[number % kEvents];
  FlightEvent event;
  event.end_ns = slot.end_ns.load(std::memory_order_acquire);
  event.sequence = slot.sequence.load(std::memory_order_relaxed);
  event.start_ns = slot.start_ns.load(std::memory_order_relaxed);
  const uint64_t packed = slot.packed.load(std::memory_order_relaxed);
  event.what = static_cast<uint16_t>(packed);
  event.kernel = static_cast<uint16_t>(packed >> 16);
  event.code = static_cast<absl::StatusCode>(packed >> 32);
  return event;
}

uint64_t FlightRecorder::ReadSince(uint64_t* next,
                                   std::vector<FlightEvent>* events) const {
  // The writer may be at work on the slot of number `next_`, which is that of
  // the oldest event: kEvents - 1 can be read.
  const uint64_t end = next_.load(std::memory_order_acquire);
  const uint64_t oldest = end < kEvents ? 0 : end - (kEvents - 1);
  uint64_t lost = oldest > *next ? oldest - *next : 0;
  *next = std::max(*next, oldest);
  while (*next < end) {
    const FlightEvent event = Load(*next);
    std::atomic_thread_fence(std::memory_order_acquire);
    const bool overwritten =
        next_.load(std::memory_order_relaxed) >= *next + kEvents;
    if (!overwritten && event.end_ns == 0) break;  // goes on
    if (overwritten) {
      ++lost;
    } else {
      events->push_back(event);
    }
    ++*next;
  }
  return lost;
}

void FlightRecorder::Log(const char* reason, size_t count) const {
  const uint64_t end = next();
  const int64_t now_ns = NowNs();
  for (uint64_t i = end - std::min<uint64_t>({count, end, kEvents - 1});
       i < end; ++i) {
    const FlightEvent event = Load(i);
    spdlog::warn(
        "event=flight reason={} session={} stream={} sequence={} what={} "
        "started_us_ago={} took_us={} code={}",
        reason, session_, stream_, event.sequence, event.Name(),
        (now_ns - event.start_ns) / 1000,
        event.end_ns == 0 ? -1 : (event.end_ns - event.start_ns) / 1000,
        static_cast<int>(event.code));
  }
}

void FlightRecorder::WriteLast(int fd, size_t count) const {
  const uint64_t end = next();
  Line line;
  for (uint64_t i = end - std::min<uint64_t>({count, end, kEvents - 1});
       i < end; ++i) {
    const FlightEvent event = Load(i);
    line.Number("event=flight reason=crash session=", session_);
    line.Number(" stream=", stream_);
    line.Number(" sequence=", event.sequence);
    line.Text(" what=");
    line.Text(event.Name());
    line.Number(" start_ns=", static_cast<uint64_t>(event.start_ns));
    if (event.end_ns == 0) {
      line.Text(" running=1");
    } else {
      line.Number(" took_ns=",
                  static_cast<uint64_t>(event.end_ns - event.start_ns));
    }
    line.Write(fd);
  }
}

void FlightRecorder::WriteAll(int fd) {
  const size_t bound = g_recorder_bound.load();
  for (size_t i = 0; i < bound; ++i) {
    const FlightRecorder* recorder = g_recorders[i].load();
    if (recorder != nullptr) recorder->WriteLast(fd, kWrittenEvents);
  }
}

}  // namespace tvarant

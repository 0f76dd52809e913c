#include "torch_plugin/runtime/activity_recorder.h"

#include <c10/util/ApproximateClock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "torch_plugin/runtime/device_impl.h"

namespace tvarant::torch_plugin {
namespace {

// About 130 MB here, and a gigabyte more once they are PyTorch's events.
constexpr size_t kMaxActivities = 1 << 19;
// Times are fetched in blocks, well before the client forgets old markers.
constexpr size_t kMaxPending = 8192;
constexpr int kClockSamples = 5;

struct ThreadState {
  uint64_t generation = 0;
  std::vector<uint64_t> ops;
  std::vector<uint64_t> ranges;
};

// What an earlier recording left behind is void: its ends were never told.
ThreadState& State(uint64_t generation) {
  thread_local ThreadState state;
  if (state.generation != generation) {
    state.generation = generation;
    state.ops.clear();
    state.ranges.clear();
  }
  return state;
}

int32_t ThreadNumber() {
  thread_local const int32_t number = static_cast<int32_t>(syscall(SYS_gettid));
  return number;
}

uint64_t LastOf(const std::vector<uint64_t>& ids) {
  return ids.empty() ? 0 : ids.back();
}

}  // namespace

ActivityRecorder& ActivityRecorder::Get() {
  static auto* recorder = new ActivityRecorder;
  return *recorder;
}

void ActivityRecorder::Start() {
  std::lock_guard<std::mutex> lock(mutex_);
  generation_.fetch_add(1);
  clocks_.clear();
  pending_.clear();
  recording_ = {};
  for (c10::DeviceIndex i = 0; i < Device::Count(); ++i) {
    DeviceImpl* device = DeviceImpl::GetIfConnected(i);
    if (device != nullptr && !device->lost()) CompareClocksLocked(*device);
  }
  on_.store(true);
}

Recording ActivityRecorder::Stop() {
  on_.store(false);
  std::lock_guard<std::mutex> lock(mutex_);
  CollectLocked(0);
  Recording recording = std::move(recording_);
  recording_ = {};
  // Nothing starts on the device before it was asked for, which bounds the
  // difference of the clocks more tightly than the round trips did.
  for (const Activity& a : recording.activities) {
    if (a.label.kind == ActivityKind::kHostCopy) continue;
    Clock& clock = clocks_.at(a.device);
    clock.lower_ns = std::max(clock.lower_ns, a.call_begin_ns - a.begin_ns);
  }
  for (Activity& a : recording.activities) {
    if (a.label.kind == ActivityKind::kHostCopy) continue;
    const Clock& clock = clocks_.at(a.device);
    const int64_t offset =
        clock.lower_ns +
        std::max<int64_t>(0, clock.upper_ns - clock.lower_ns) / 2;
    a.begin_ns += offset;
    a.end_ns += offset;
  }
  return recording;
}

void ActivityRecorder::PushOp(uint64_t id) {
  State(generation_.load()).ops.push_back(id);
}

void ActivityRecorder::PopOp() {
  auto& ops = State(generation_.load()).ops;
  if (!ops.empty()) ops.pop_back();
}

void ActivityRecorder::PushRange(uint64_t id) {
  State(generation_.load()).ranges.push_back(id);
}

void ActivityRecorder::PopRange() {
  auto& ranges = State(generation_.load()).ranges;
  if (!ranges.empty()) ranges.pop_back();
}

void ActivityRecorder::Record(DeviceImpl& device, c10::StreamId stream,
                              const ActivityLabel& label,
                              c10::function_ref<bool()> queue) {
  // Held throughout, so that no other thread's launch gets in between.
  std::unique_lock<std::mutex> lock(mutex_);
  Pending made;
  if (!BeginLocked(device, stream, &made)) {
    lock.unlock();
    queue();
    return;
  }
  if (queue()) EndLocked(std::move(made), label);
}

void ActivityRecorder::RecordWaiting(DeviceImpl& device, c10::StreamId stream,
                                     const ActivityLabel& label,
                                     c10::function_ref<bool()> queue) {
  Pending made;
  uint64_t generation = 0;
  bool begun;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    begun = BeginLocked(device, stream, &made);
    generation = generation_.load();
  }
  if (!queue() || !begun) return;
  std::lock_guard<std::mutex> lock(mutex_);
  if (is_on() && generation == generation_.load()) {
    EndLocked(std::move(made), label);
  }
}

void ActivityRecorder::AddHostCopy(DeviceImpl& device,
                                   const ActivityLabel& label,
                                   int64_t begin_ns) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!is_on() || IsFullLocked()) return;
  const ThreadState& state = State(generation_.load());
  Activity made;
  made.label = label;
  made.device = &device;
  made.call_begin_ns = made.begin_ns = begin_ns;
  made.call_end_ns = made.end_ns = c10::getTime();
  made.thread = ThreadNumber();
  made.op = LastOf(state.ops);
  made.range = LastOf(state.ranges);
  recording_.activities.push_back(made);
}

bool ActivityRecorder::IsFullLocked() {
  if (recording_.activities.size() + pending_.size() < kMaxActivities) {
    return false;
  }
  ++recording_.num_dropped;
  return true;
}

bool ActivityRecorder::BeginLocked(DeviceImpl& device, c10::StreamId stream,
                                   Pending* made) {
  if (!is_on() || IsFullLocked()) return false;
  if (clocks_.count(&device) == 0) {
    CompareClocksLocked(device);
    if (clocks_.count(&device) == 0) return false;
  }
  const ThreadState& state = State(generation_.load());
  Activity& activity = made->activity;
  activity.device = &device;
  activity.stream = stream;
  activity.thread = ThreadNumber();
  activity.op = LastOf(state.ops);
  activity.range = LastOf(state.ranges);
  activity.call_begin_ns = c10::getTime();
  client::Result<uint64_t> marker = device.stream(stream).Marker();
  if (!marker.ok()) return false;  // the call itself will say why
  made->begin_marker = marker.value();
  return true;
}

void ActivityRecorder::EndLocked(Pending made, const ActivityLabel& label) {
  Activity& activity = made.activity;
  client::Result<uint64_t> marker =
      activity.device->stream(activity.stream).Marker();
  activity.call_end_ns = c10::getTime();
  if (!marker.ok()) {
    ++recording_.num_lost;
    return;
  }
  made.end_marker = marker.value();
  activity.label = label;
  pending_.push_back(made);
  if (pending_.size() >= kMaxPending) CollectLocked(kMaxPending / 2);
}

void ActivityRecorder::CompareClocksLocked(DeviceImpl& device) {
  Clock clock{};
  client::Stream& stream = device.stream(0);
  for (int i = 0; i < kClockSamples; ++i) {
    const int64_t before = c10::getTime();
    client::Result<uint64_t> marker = stream.Marker();
    if (!marker.ok()) return;
    client::Result<uint64_t> time = stream.MarkerTimeNs(marker.value());
    if (!time.ok()) return;
    const int64_t after = c10::getTime();
    const auto device_ns = static_cast<int64_t>(time.value());
    const Clock sample{before - device_ns, after - device_ns};
    clock.lower_ns =
        i == 0 ? sample.lower_ns : std::max(clock.lower_ns, sample.lower_ns);
    clock.upper_ns =
        i == 0 ? sample.upper_ns : std::min(clock.upper_ns, sample.upper_ns);
  }
  clocks_[&device] = clock;
}

void ActivityRecorder::CollectLocked(size_t leave) {
  while (pending_.size() > leave) {
    Pending& oldest = pending_.front();
    Activity& activity = oldest.activity;
    client::Stream& stream = activity.device->stream(activity.stream);
    client::Result<uint64_t> begin = stream.MarkerTimeNs(oldest.begin_marker);
    client::Result<uint64_t> end = stream.MarkerTimeNs(oldest.end_marker);
    if (begin.ok() && end.ok()) {
      activity.begin_ns = static_cast<int64_t>(begin.value());
      activity.end_ns = static_cast<int64_t>(end.value());
      recording_.activities.push_back(activity);
    } else {
      ++recording_.num_lost;
    }
    pending_.pop_front();
  }
}

HostCopyScope::HostCopyScope(DeviceImpl& device, const char* name,
                             uint64_t bytes)
    : device_(device), name_(name), bytes_(bytes) {
  if (C10_UNLIKELY(ActivityRecorder::is_on())) begin_ns_ = c10::getTime();
}

HostCopyScope::~HostCopyScope() {
  if (C10_LIKELY(begin_ns_ == 0)) return;
  ActivityRecorder::Get().AddHostCopy(
      device_,
      {.name = name_, .kind = ActivityKind::kHostCopy, .bytes = bytes_},
      begin_ns_);
}

}  // namespace tvarant::torch_plugin

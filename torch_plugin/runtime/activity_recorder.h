// What a device did while torch.profiler looked on.
//
// While a recording runs, every launch and copy lies between two markers of its
// stream, whose times the device tells later. Else it costs one relaxed load.
//
// Example (a launch):
//   if (C10_UNLIKELY(ActivityRecorder::is_on())) {
//     ActivityRecorder::Get().Record(device, stream, {.name = "Gemm"}, queue);
//   } else {
//     queue();
//   }

#ifndef TVARANT_TORCH_PLUGIN_RUNTIME_ACTIVITY_RECORDER_H_
#define TVARANT_TORCH_PLUGIN_RUNTIME_ACTIVITY_RECORDER_H_

#include <c10/core/Stream.h>
#include <c10/util/FunctionRef.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

namespace tvarant::torch_plugin {

class DeviceImpl;

enum class ActivityKind : uint8_t {
  kKernel,
  kCopy,
  kHostCopy,  // by the host, in mapped memory: the device takes no part
};

struct ActivityLabel {
  const char* name = "";  // static
  ActivityKind kind = ActivityKind::kKernel;
  uint64_t program = 0;  // of a pointwise kernel
  uint64_t bytes = 0;    // of a copy
};

// Times in nanoseconds of c10::getTime(), the host's clock.
struct Activity {
  ActivityLabel label;
  DeviceImpl* device = nullptr;
  c10::StreamId stream = 0;
  int64_t call_begin_ns = 0;  // on the host, around the call that queued it
  int64_t call_end_ns = 0;
  int64_t begin_ns = 0;  // on the device
  int64_t end_ns = 0;
  int32_t thread = 0;  // of the host, as the system numbers it
  // PyTorch's numbers of the operator and of the user's range around the call;
  // 0: none.
  uint64_t op = 0;
  uint64_t range = 0;
};

struct Recording {
  std::vector<Activity> activities;
  uint64_t num_dropped = 0;  // past the limit
  uint64_t num_lost = 0;     // whose times never came: the daemon died
};

// Thread-safe. One recording at a time.
class ActivityRecorder {
 public:
  static bool is_on() noexcept { return on_.load(std::memory_order_relaxed); }
  static ActivityRecorder& Get();

  // Waits for the device, if it is in use, to compare the clocks.
  void Start();
  // Waits for what was recorded.
  Recording Stop();

  // Which operators and ranges this thread is in.
  void PushOp(uint64_t id);
  void PopOp();
  void PushRange(uint64_t id);
  void PopRange();

  // Runs `queue` between two markers. Its result says if it queued anything.
  void Record(DeviceImpl& device, c10::StreamId stream,
              const ActivityLabel& label, c10::function_ref<bool()> queue);
  // The same for what waits for the device: other threads go on meanwhile.
  void RecordWaiting(DeviceImpl& device, c10::StreamId stream,
                     const ActivityLabel& label,
                     c10::function_ref<bool()> queue);
  void AddHostCopy(DeviceImpl& device, const ActivityLabel& label,
                   int64_t begin_ns);

 private:
  // The host's time minus the device's lies between the two: a marker's time
  // is no earlier than its call and no later than its answer.
  struct Clock {
    int64_t lower_ns;
    int64_t upper_ns;
  };
  struct Pending {
    Activity activity;
    uint64_t begin_marker;
    uint64_t end_marker;
  };

  ActivityRecorder() = default;
  bool BeginLocked(DeviceImpl& device, c10::StreamId stream, Pending* made);
  void EndLocked(Pending made, const ActivityLabel& label);
  void CompareClocksLocked(DeviceImpl& device);
  void CollectLocked(size_t leave);
  bool IsFullLocked();

  static inline std::atomic<bool> on_{false};
  static inline std::atomic<uint64_t> generation_{0};

  std::mutex mutex_;  // guards what follows
  std::map<DeviceImpl*, Clock> clocks_;
  std::deque<Pending> pending_;
  Recording recording_;  // times of the device's own clock
};

// Records a copy that the host makes in mapped memory, from here to the end of
// the scope.
class HostCopyScope {
 public:
  HostCopyScope(DeviceImpl& device, const char* name, uint64_t bytes);
  ~HostCopyScope();
  HostCopyScope(const HostCopyScope&) = delete;
  HostCopyScope& operator=(const HostCopyScope&) = delete;

 private:
  DeviceImpl& device_;
  const char* const name_;
  const uint64_t bytes_;
  int64_t begin_ns_ = 0;  // 0: not recorded
};

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_RUNTIME_ACTIVITY_RECORDER_H_

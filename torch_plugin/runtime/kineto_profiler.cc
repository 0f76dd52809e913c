// torch.profiler on the device: what ActivityRecorder saw, as events of Kineto,
// the library that collects PyTorch's traces.
//
// Of each launch and copy two events: the call on the host's thread, and what
// the device did, on the track of its stream. An arrow joins the two, and both
// belong to the operator that the thread was in.

#pragma GCC visibility push(default)
#include <IActivityProfiler.h>
#include <libkineto.h>
#include <output_base.h>
#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#endif
#pragma GCC visibility pop

#include <c10/util/Exception.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "torch_plugin/runtime/activity_recorder.h"
#include "torch_plugin/runtime/device_impl.h"

namespace tvarant::torch_plugin {
namespace {

using libkineto::ActivityType;

constexpr int64_t kDevice = 0;
// The host's copies in mapped memory lie beside the streams: they may run while
// a stream does.
constexpr int32_t kHostCopyTrack = kStreams;

// In torch 2.11 it has a constructor, which takes the members in another order.
template <class Info = libkineto::ResourceInfo>
Info MakeTrack(int32_t track, const std::string& name) {
  if constexpr (std::is_aggregate_v<Info>) {
    return Info{
        .id = track, .sortIndex = track, .deviceId = kDevice, .name = name};
  } else {
    return Info(kDevice, track, track, name);
  }
}

// Makes its JSON when asked for, instead of keeping a map.
class Event final : public libkineto::GenericTraceActivity {
 public:
  Event(const libkineto::TraceSpan& span, ActivityType type, std::string name)
      : GenericTraceActivity(span, type, name) {}

  const std::string metadataJson() const override {
    std::string json;
    if (activityType != ActivityType::PRIVATEUSE1_RUNTIME) {
      json = "\"device\": " + std::to_string(device) + ", ";
      if (resource != kHostCopyTrack) {
        json += "\"stream\": " + std::to_string(resource) + ", ";
      }
    }
    json += "\"correlation\": " + std::to_string(id);
    if (bytes != 0) json += ", \"bytes\": " + std::to_string(bytes);
    return json;
  }

  uint64_t bytes = 0;
};

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(const std::set<ActivityType>& types) : types_(types) {}
  ~Session() override {
    if (is_running_) ActivityRecorder::Get().Stop();
  }

  void start() override {
    ActivityRecorder::Get().Start();
    is_running_ = true;
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() override {
    if (!is_running_) return;
    is_running_ = false;
    recording_ = ActivityRecorder::Get().Stop();
    status_ = libkineto::TraceStatus::PROCESSING;
    if (recording_.num_dropped != 0) {
      TORCH_WARN("torch.profiler recorded the first ",
                 recording_.activities.size(),
                 " launches and copies of the device; ", recording_.num_dropped,
                 " more are left out. Profile fewer steps at a time.");
    }
  }

  std::vector<std::string> errors() override {
    std::vector<std::string> texts;
    if (recording_.num_lost != 0) {
      texts.push_back("the times of " + std::to_string(recording_.num_lost) +
                      " launches and copies were lost with the daemon");
    }
    return texts;
  }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(
        logger, [](int32_t) { return nullptr; }, 0, 0);
  }

  void processTrace(libkineto::ActivityLogger& logger,
                    libkineto::getLinkedActivityCallback find_op,
                    int64_t begin_ns, int64_t end_ns) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(begin_ns, end_ns, "tvarant");
    buffer_->gpuOpCount = static_cast<int>(recording_.activities.size());
    ranges_.clear();
    uint32_t correlation = 0;
    for (const Activity& activity : recording_.activities) {
      Add(activity, ++correlation, find_op);
    }
    for (auto& [key, range] : ranges_) {
      buffer_->activities.push_back(std::move(range));
    }
    ranges_.clear();
    recording_.activities = {};
    for (const auto& event : buffer_->activities) {
      if (types_.count(event->type()) != 0) logger.handleActivity(*event);
    }
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return std::make_unique<libkineto::DeviceInfo>(
        libkineto::DeviceInfo{kDevice,  // id, place, name, label
                              libkineto::kExceedMaxPid + kDevice, "tvarant",
                              "tvarant:" + std::to_string(kDevice)});
  }

  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> infos;
    for (const int32_t track : tracks_) {
      infos.push_back(MakeTrack(
          track, track == kHostCopyTrack ? "copies by the host"
                                         : "stream " + std::to_string(track)));
    }
    return infos;
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::move(buffer_);
  }

  void pushCorrelationId(uint64_t id) override {
    ActivityRecorder::Get().PushOp(id);
  }
  void popCorrelationId() override { ActivityRecorder::Get().PopOp(); }
  void pushUserCorrelationId(uint64_t id) override {
    ActivityRecorder::Get().PushRange(id);
  }
  void popUserCorrelationId() override { ActivityRecorder::Get().PopRange(); }

 private:
  void Add(const Activity& activity, uint32_t correlation,
           const libkineto::getLinkedActivityCallback& find_op) {
    const bool is_by_host = activity.label.kind == ActivityKind::kHostCopy;
    const libkineto::ITraceActivity* op =
        activity.op == 0 ? nullptr : find_op(static_cast<int32_t>(activity.op));

    Event& done = AddEvent(activity.label.kind == ActivityKind::kKernel
                               ? ActivityType::CONCURRENT_KERNEL
                               : ActivityType::GPU_MEMCPY,
                           NameOf(activity), correlation, op);
    done.startTime = activity.begin_ns;
    done.endTime = activity.end_ns;
    done.device = kDevice;
    done.resource =
        is_by_host ? kHostCopyTrack : static_cast<int32_t>(activity.stream);
    done.bytes = activity.label.bytes;
    tracks_.insert(done.resource);
    if (activity.range != 0) {
      ExtendRange(done, activity.range,
                  find_op(static_cast<int32_t>(activity.range)));
    }
    if (is_by_host) return;

    Event& call =
        AddEvent(ActivityType::PRIVATEUSE1_RUNTIME,
                 activity.label.kind == ActivityKind::kKernel ? "tvarantLaunch"
                                                              : "tvarantMemcpy",
                 correlation, op);
    call.startTime = activity.call_begin_ns;
    call.endTime = activity.call_end_ns;
    call.device = libkineto::processId();
    call.resource = activity.thread;
    call.threadId = activity.thread;
    for (Event* event : {&call, &done}) {
      event->flow.id = correlation;
      event->flow.type = libkineto::kLinkAsyncCpuGpu;
      event->flow.start = event == &call;
    }
  }

  Event& AddEvent(ActivityType type, std::string name, uint32_t correlation,
                  const libkineto::ITraceActivity* op) {
    auto event = std::make_unique<Event>(buffer_->span, type, std::move(name));
    event->id = static_cast<int32_t>(correlation);
    event->linked = op;
    Event& added = *event;
    buffer_->activities.push_back(std::move(event));
    return added;
  }

  // record_function's ranges, as far as the device worked for them.
  void ExtendRange(const Event& done, uint64_t id,
                   const libkineto::ITraceActivity* range) {
    if (range == nullptr) return;
    std::unique_ptr<Event>& seen = ranges_[{done.resource, id}];
    if (seen == nullptr) {
      seen = std::make_unique<Event>(
          buffer_->span, ActivityType::GPU_USER_ANNOTATION, range->name());
      seen->id = static_cast<int32_t>(id);
      seen->startTime = done.startTime;
      seen->endTime = done.endTime;
      seen->device = done.device;
      seen->resource = done.resource;
    }
    seen->startTime = std::min(seen->startTime, done.startTime);
    seen->endTime = std::max(seen->endTime, done.endTime);
  }

  const std::string& NameOf(const Activity& activity) {
    std::string& name = names_[{activity.label.name,
                                {activity.device, activity.label.program}}];
    if (name.empty()) {
      name = activity.label.program == 0
                 ? activity.label.name
                 : activity.device->DescribeProgram(activity.label.program);
    }
    return name;
  }

  const std::set<ActivityType> types_;
  bool is_running_ = false;
  Recording recording_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
  std::map<std::pair<int32_t, uint64_t>, std::unique_ptr<Event>> ranges_;
  std::map<std::pair<const char*, std::pair<DeviceImpl*, uint64_t>>,
           std::string>
      names_;
  std::set<int32_t> tracks_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string name = "tvarant";
    return name;
  }

  const std::set<ActivityType>& availableActivities() const override {
    static const std::set<ActivityType> types = {
        ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY,
        ActivityType::GPU_USER_ANNOTATION, ActivityType::PRIVATEUSE1_RUNTIME};
    return types;
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>& types,
      const libkineto::Config& /*config*/) override {
    // A profile of the CPU alone asks for the calls, too; they aren't worth
    // the markers.
    if (types.count(ActivityType::CONCURRENT_KERNEL) == 0 &&
        types.count(ActivityType::GPU_MEMCPY) == 0) {
      return nullptr;
    }
    return std::make_unique<Session>(types);
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t /*begin_ms*/, int64_t /*duration_ms*/,
      const std::set<ActivityType>& types,
      const libkineto::Config& config) override {
    return configure(types, config);
  }
};

#ifdef REGISTER_PRIVATEUSE1_PROFILER
using TvarantProfiler = Profiler;
REGISTER_PRIVATEUSE1_PROFILER(TvarantProfiler);
#else
// torch 2.11 has no registry of its own, but Kineto's.
[[maybe_unused]] const bool kRegistered = [] {
  libkineto::api().registerProfilerFactory(
      [] { return std::make_unique<Profiler>(); });
  return true;
}();
#endif

}  // namespace
}  // namespace tvarant::torch_plugin

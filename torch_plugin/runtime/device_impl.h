// The one implementation of Device: a session, its streams, its allocator.
//
// When the daemon is lost, the DeviceImpl stays as it is, for threads that
// still hold it, and the next use makes a new one. So a handle can never meet
// the session of another daemon: an address of the old device is refused by
// the new one. Private to torch_plugin/runtime and the core ops.

#ifndef TVARANT_TORCH_PLUGIN_RUNTIME_DEVICE_IMPL_H_
#define TVARANT_TORCH_PLUGIN_RUNTIME_DEVICE_IMPL_H_

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "torch_plugin/runtime/activity_recorder.h"
#include "torch_plugin/runtime/caching_allocator.h"
#include "torch_plugin/runtime/connection.h"
#include "torch_plugin/runtime/device.h"
#include "torch_plugin/runtime/host_allocator.h"

namespace tvarant::torch_plugin {

// PyTorch's stream ids: 0 the default, then a pool of each priority. Streams
// have no end in PyTorch, so a new one may be an old one again, as with CUDA.
inline constexpr int kNormalStreams = 24;  // including the default
inline constexpr int kHighPriorityStreams = 8;
inline constexpr int kStreams = kNormalStreams + kHighPriorityStreams;

class DeviceImpl final : public Device, public SegmentSource {
 public:
  static DeviceImpl& Get(c10::DeviceIndex index) {
    return static_cast<DeviceImpl&>(Device::Get(index));
  }
  static DeviceImpl* GetIfConnected(c10::DeviceIndex index) noexcept {
    return static_cast<DeviceImpl*>(Device::GetIfConnected(index));
  }

  // Raises if the first stream can't be made.
  DeviceImpl(c10::DeviceIndex index, uint64_t epoch, Connection connection);

  client::Session& session() override { return *session_; }
  c10::DeviceIndex index() const override { return index_; }
  const client::DeviceProperties& properties() const override {
    return session_->properties();
  }
  bool is_mapped() const override { return is_mapped_; }
  Location Locate(const void* address) const override;
  bool Owns(const void* address) const override;
  client::Stream& stream(c10::StreamId id) override;
  void Launch(const LaunchParams& params) override;
  uint64_t DefineProgram(const Program& program) override;
  // What a program computes, such as "pointwise: mul, add". Slow.
  std::string DescribeProgram(uint64_t handle);
  uint64_t epoch() const override { return epoch_; }
  void Synchronize() override;

  CachingAllocator& allocator() { return *allocator_; }
  const std::string& endpoint() const { return endpoint_; }
  int daemon_pid();  // 0 if the daemon is not our own

  // Waits until a stream has passed `sequence`. Raises what failed on it.
  void Wait(c10::StreamId id, uint64_t sequence);
  void Wait(c10::StreamId id) { Wait(id, stream(id).last_sequence()); }
  // Device bytes -> host, in order of the stream.
  void Download(c10::StreamId id, const void* address, void* data,
                uint64_t bytes);
  // Host bytes -> device, in order of the stream; the bytes have been taken
  // when it returns.
  void Upload(c10::StreamId id, void* address, const void* data,
              uint64_t bytes);
  // The same where it may wait for the stream: pinned bytes then need no copy
  // on the way.
  void UploadWaiting(c10::StreamId id, void* address, const void* data,
                     uint64_t bytes);
  // Device bytes -> device bytes, in order of the stream.
  void CopyBytes(c10::StreamId id, void* dst, const void* src, uint64_t bytes);
  // Raises, and waits when TVARANT_LAUNCH_BLOCKING=1.
  void Check(c10::StreamId id, const client::Result<uint64_t>& queued);

  // Place for operands that have no address: empty tensors.
  Location Nowhere();

  // True once the daemon is gone.
  bool lost() const { return !session_->alive(); }
  // The first call after the loss; later ones return false.
  bool TakeLossReport() { return !loss_reported_.exchange(true); }
  void MarkLossReported() { loss_reported_ = true; }
  // The device has been replaced.
  void Abandon();

  // In the child of a fork; async-signal-safe.
  void ForkChild();

  DeviceImpl* older = nullptr;  // list of all that ever were, for ForkChild

 private:
  // SegmentSource
  client::Result<uint64_t> CreateSegment(uint64_t size_bytes,
                                         void* at) override;
  void ReleaseSegments(const std::vector<uint64_t>& handles) override;
  uint64_t LastSequence(int stream) override;
  uint64_t CompletedSequence(int stream) override;
  void WaitForStreams() override;
  [[noreturn]] void RaiseAllocationError(uint64_t asked_bytes,
                                         const client::Status& status,
                                         const std::string& usage) override;
  const void* owner() const override { return static_cast<const void*>(this); }

  // Where a copy of so many bytes needs no other on the way.
  std::optional<HostAllocator::Place> FindPinned(const void* data,
                                                 uint64_t bytes) const;
  // Queues under the eyes of the profiler.
  void Queue(c10::StreamId id, const ActivityLabel& label,
             c10::function_ref<client::Result<uint64_t>()> queue);
  void MakeStream(int id);
  // What WaitForStreams found on a stream, for whoever waits for it next.
  void ThrowDeferred(int id);
  [[noreturn]] void RaiseBadAddress(const void* address) const;

  const c10::DeviceIndex index_;
  const uint64_t epoch_;  // 1, 2, ...: how many there have been
  std::shared_ptr<client::Session> session_;
  const std::string endpoint_;
  const bool is_mapped_;
  const bool is_blocking_;
  Arena& arena_;
  std::unique_ptr<CachingAllocator> allocator_;

  std::array<std::atomic<client::Stream*>, kStreams> streams_{};
  std::mutex mutex_;  // guards what follows
  std::unique_ptr<client::PrivateDaemon> daemon_;
  std::array<std::shared_ptr<client::Stream>, kStreams> stream_owners_;
  std::array<client::Status, kStreams> deferred_;
  std::unordered_map<std::string, uint64_t> programs_;
  Block* nowhere_ = nullptr;

  std::atomic<bool> has_deferred_{false};
  std::atomic<bool> loss_reported_{false};
};

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_RUNTIME_DEVICE_IMPL_H_

#include "torch_plugin/runtime/device_impl.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tvarant::torch_plugin {
namespace {

// Smaller copies cost less than finding out where they lie and waiting.
constexpr uint64_t kMinDirectBytes = 256 << 10;

bool EnvIsOne(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && std::strcmp(value, "1") == 0;
}

std::string SizeText(uint64_t bytes) {
  const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[64];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.2f %s", value,
                units[unit]);
  return text;
}

}  // namespace

DeviceImpl::DeviceImpl(c10::DeviceIndex index, uint64_t epoch,
                       Connection connection)
    : index_(index),
      epoch_(epoch),
      session_(std::move(connection.session)),
      endpoint_(std::move(connection.endpoint)),
      is_mapped_(session_->memory_is_mapped()),
      is_blocking_(EnvIsOne("TVARANT_LAUNCH_BLOCKING")),
      arena_(Arena::Get()),
      allocator_(std::make_unique<CachingAllocator>(*this, arena_)),
      daemon_(std::move(connection.daemon)) {
  MakeStream(0);
}

Location DeviceImpl::Locate(const void* address) const {
  if (address == nullptr) return Location{};
  const ArenaSegment* segment = arena_.Find(address);
  if (C10_UNLIKELY(segment == nullptr || segment->owner != this)) {
    RaiseBadAddress(address);
  }
  return Location{
      segment->handle,
      static_cast<uint64_t>(static_cast<const char*>(address) - segment->base)};
}

void DeviceImpl::RaiseBadAddress(const void* address) const {
  TORCH_CHECK(!arena_.Contains(address) || arena_.Find(address) == nullptr,
              "tvarant: the tensor's memory was lost with the daemon that held "
              "it; make the tensor again");
  TORCH_CHECK(false, "tvarant: ", address,
              " is no address of this device's memory");
}

bool DeviceImpl::Owns(const void* address) const {
  return arena_.Contains(address);
}

client::Stream& DeviceImpl::stream(c10::StreamId id) {
  TORCH_CHECK(id >= 0 && id < kStreams, "tvarant: there is no stream ", id);
  const size_t i = static_cast<size_t>(id);
  client::Stream* stream = streams_[i].load(std::memory_order_acquire);
  if (C10_LIKELY(stream != nullptr)) return *stream;
  MakeStream(static_cast<int>(id));
  return *streams_[i].load(std::memory_order_acquire);
}

void DeviceImpl::MakeStream(int id) {
  client::Result<std::shared_ptr<client::Stream>> made =
      session_->CreateStream(/*high_priority=*/id >= kNormalStreams);
  TVARANT_THROW_IF_ERROR(made.status());
  std::lock_guard<std::mutex> lock(mutex_);
  const size_t i = static_cast<size_t>(id);
  if (stream_owners_[i] != nullptr) return;  // another thread was quicker
  stream_owners_[i] = std::move(made.value());
  streams_[i].store(stream_owners_[i].get(), std::memory_order_release);
}

void DeviceImpl::Check(c10::StreamId id,
                       const client::Result<uint64_t>& queued) {
  TVARANT_THROW_IF_ERROR(queued.status());
  if (is_blocking_) Wait(id, queued.value());
}

void DeviceImpl::Launch(const LaunchParams& params) {
  const c10::StreamId id = CurrentStreamId(index_);
  if (C10_UNLIKELY(ActivityRecorder::is_on())) {
    Queue(id, {.name = NameOf(params.kernel), .program = params.program},
          [&] { return stream(id).Launch(params); });
    return;
  }
  Check(id, stream(id).Launch(params));
}

void DeviceImpl::CopyBytes(c10::StreamId id, void* dst, const void* src,
                           uint64_t bytes) {
  const Location to = Locate(dst);
  const Location from = Locate(src);
  auto copy = [&] {
    return stream(id).CopyBytes(to.segment, to.offset_bytes, from.segment,
                                from.offset_bytes, bytes);
  };
  Queue(id,
        {.name = "Memcpy DtoD", .kind = ActivityKind::kCopy, .bytes = bytes},
        copy);
}

void DeviceImpl::Queue(c10::StreamId id, const ActivityLabel& label,
                       c10::function_ref<client::Result<uint64_t>()> queue) {
  if (C10_LIKELY(!ActivityRecorder::is_on())) {
    Check(id, queue());
    return;
  }
  client::Result<uint64_t> queued(uint64_t{0});
  ActivityRecorder::Get().Record(*this, id, label, [&] {
    queued = queue();
    return queued.ok();
  });
  Check(id, queued);
}

uint64_t DeviceImpl::DefineProgram(const Program& program) {
  std::string key = program.Serialize();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = programs_.find(key);
    if (it != programs_.end()) return it->second;
  }
  client::Result<uint64_t> handle = session_->DefineProgram(program);
  TVARANT_THROW_IF_ERROR(handle.status());
  std::lock_guard<std::mutex> lock(mutex_);
  programs_.emplace(std::move(key), handle.value());
  return handle.value();
}

std::string DeviceImpl::DescribeProgram(uint64_t handle) {
  constexpr int kMaxNamed = 8;
  Program program;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [bytes, defined] : programs_) {
      if (defined == handle)
        Program::Parse(bytes.data(), bytes.size(), &program);
    }
  }
  std::string text = NameOf(Kernel::kPointwise);
  int named = 0;
  for (const ProgramNode& node : program.nodes) {
    if (node.op == PointwiseOp::kLoad || node.op == PointwiseOp::kScalar ||
        node.op == PointwiseOp::kConst) {
      continue;
    }
    if (++named > kMaxNamed) return text + ", ...";
    text += named == 1 ? ": " : ", ";
    text += NameOf(node.op);
  }
  return text;
}

void DeviceImpl::Wait(c10::StreamId id, uint64_t sequence) {
  client::Status status = stream(id).Wait(sequence);
  if (C10_UNLIKELY(has_deferred_.load(std::memory_order_acquire))) {
    ThrowDeferred(static_cast<int>(id));
  }
  TVARANT_THROW_IF_ERROR(status);
}

void DeviceImpl::ThrowDeferred(int id) {
  client::Status status;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::swap(status, deferred_[static_cast<size_t>(id)]);
  }
  TVARANT_THROW_IF_ERROR(status);
}

void DeviceImpl::Download(c10::StreamId id, const void* address, void* data,
                          uint64_t bytes) {
  if (bytes == 0) return;
  const Location location = Locate(address);
  client::Status status;
  const auto pinned = FindPinned(data, bytes);
  auto fetch = [&] {
    client::Stream& from = stream(id);
    status = pinned.has_value()
                 ? from.DownloadTo(location.segment, location.offset_bytes,
                                   *pinned->memory, pinned->offset_bytes, bytes)
                 : from.Download(location.segment, location.offset_bytes, data,
                                 bytes);
    return status.ok();
  };
  if (C10_UNLIKELY(ActivityRecorder::is_on())) {
    ActivityRecorder::Get().RecordWaiting(
        *this, id,
        {.name = "Memcpy DtoH", .kind = ActivityKind::kCopy, .bytes = bytes},
        fetch);
  } else {
    fetch();
  }
  if (C10_UNLIKELY(has_deferred_.load(std::memory_order_acquire))) {
    ThrowDeferred(static_cast<int>(id));
  }
  TVARANT_THROW_IF_ERROR(status);
}

void DeviceImpl::Upload(c10::StreamId id, void* address, const void* data,
                        uint64_t bytes) {
  if (bytes == 0) return;
  const Location location = Locate(address);
  auto upload = [&] {
    return stream(id).Upload(location.segment, location.offset_bytes, data,
                             bytes);
  };
  Queue(id,
        {.name = "Memcpy HtoD", .kind = ActivityKind::kCopy, .bytes = bytes},
        upload);
}

void DeviceImpl::UploadWaiting(c10::StreamId id, void* address,
                               const void* data, uint64_t bytes) {
  const auto pinned = FindPinned(data, bytes);
  if (!pinned.has_value()) {
    Upload(id, address, data, bytes);
    return;
  }
  const Location location = Locate(address);
  client::Stream& to = stream(id);
  const ActivityLabel label{
      .name = "Memcpy HtoD", .kind = ActivityKind::kCopy, .bytes = bytes};
  Queue(id, label, [&] {
    return to.UploadFrom(location.segment, location.offset_bytes,
                         *pinned->memory, pinned->offset_bytes, bytes);
  });
  Wait(id);
}

std::optional<HostAllocator::Place> DeviceImpl::FindPinned(
    const void* data, uint64_t bytes) const {
  if (bytes < kMinDirectBytes) return std::nullopt;
  return HostAllocator::Get().Find(*session_, data, bytes);
}

void DeviceImpl::Synchronize() {
  // Stops at the first failure; those of other streams stay latched for
  // whoever waits next.
  for (int id = 0; id < kStreams; ++id) {
    if (streams_[static_cast<size_t>(id)].load() != nullptr) Wait(id);
  }
}

Location DeviceImpl::Nowhere() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (nowhere_ != nullptr) return Locate(nowhere_->address);
  }
  Block* block = allocator_->Allocate(1, 0);
  std::lock_guard<std::mutex> lock(mutex_);
  if (nowhere_ == nullptr) {
    nowhere_ = block;
  } else {
    allocator_->Free(block);
  }
  return Locate(nowhere_->address);
}

void DeviceImpl::Abandon() {
  allocator_->Abandon();
  // A private daemon is dead, or useless now. Ending it may take a moment, so
  // not under the lock.
  std::unique_ptr<client::PrivateDaemon> daemon;
  std::lock_guard<std::mutex> lock(mutex_);
  daemon.swap(daemon_);
}

int DeviceImpl::daemon_pid() {
  std::lock_guard<std::mutex> lock(mutex_);
  return daemon_ != nullptr ? daemon_->pid() : 0;
}

void DeviceImpl::ForkChild() {
  session_->ForkChild();
  if (daemon_ != nullptr) daemon_->ForkChild();
}

client::Result<uint64_t> DeviceImpl::CreateSegment(uint64_t size_bytes,
                                                   void* at) {
  return session_->CreateSegment(size_bytes, is_mapped_ ? at : nullptr);
}

void DeviceImpl::ReleaseSegments(const std::vector<uint64_t>& handles) {
  // Fails only when the daemon is gone, and the segments with it.
  (void)session_->ReleaseSegments(handles.data(),
                                  static_cast<int>(handles.size()));
}

uint64_t DeviceImpl::LastSequence(int stream) {
  client::Stream* s =
      streams_[static_cast<size_t>(stream)].load(std::memory_order_acquire);
  return s == nullptr ? 0 : s->last_sequence();
}

uint64_t DeviceImpl::CompletedSequence(int stream) {
  client::Stream* s =
      streams_[static_cast<size_t>(stream)].load(std::memory_order_acquire);
  return s == nullptr ? 0 : s->completed_sequence();
}

void DeviceImpl::WaitForStreams() {
  for (size_t i = 0; i < kStreams; ++i) {
    client::Stream* stream = streams_[i].load(std::memory_order_acquire);
    if (stream == nullptr) continue;
    client::Status status = stream->Synchronize();
    if (status.ok()) continue;
    std::lock_guard<std::mutex> lock(mutex_);
    if (deferred_[i].ok()) deferred_[i] = std::move(status);
    has_deferred_.store(true, std::memory_order_release);
  }
}

void DeviceImpl::RaiseAllocationError(uint64_t asked_bytes,
                                      const client::Status& status,
                                      const std::string& usage) {
  if (status.code() != client::Code::kResourceExhausted) ThrowStatus(status);
  client::Result<client::MemoryInfo> info = session_->GetMemoryInfo();
  TVARANT_THROW_IF_ERROR(info.status());
  TORCH_CHECK_WITH(
      OutOfMemoryError, false, "tvarant out of memory. Tried to allocate ",
      SizeText(asked_bytes), ". Device ", static_cast<int>(index_),
      " has a total capacity of ", SizeText(info.value().total_bytes),
      " of which ", SizeText(info.value().free_bytes), " is free. ", usage);
  std::abort();  // not reached
}

}  // namespace tvarant::torch_plugin

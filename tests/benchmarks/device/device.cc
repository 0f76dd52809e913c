#include "tests/benchmarks/device/device.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <utility>

namespace tvarant::benchmarks {
namespace {

constexpr uint64_t kPatternBytes = 4 << 20;

Dims DenseStrides(const Dims& sizes) {
  Dims strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= sizes[i];
  }
  return strides;
}

// Sign, exponent and fraction of a number between 2^-4 and 1.
struct Number {
  uint32_t sign;
  uint32_t exponent;  // 1..4: below 1 by that power of two
  uint32_t fraction;  // 23 bits
};

template <typename Bits>
void Append(std::string* out, Bits bits) {
  out->append(reinterpret_cast<const char*>(&bits), sizeof(bits));
}

void AppendNumber(DType dtype, const Number& number, std::string* out) {
  const uint32_t single =
      number.sign << 31 | (127 - number.exponent) << 23 | number.fraction;
  switch (dtype) {
    case DType::kFloat16:
      Append<uint16_t>(out, static_cast<uint16_t>(number.sign << 15 |
                                                  (15 - number.exponent) << 10 |
                                                  number.fraction >> 13));
      break;
    case DType::kBFloat16:
      Append<uint16_t>(out, static_cast<uint16_t>(single >> 16));
      break;
    case DType::kFloat64:
      Append<double>(out, std::bit_cast<float>(single));
      break;
    default:
      Append<uint32_t>(out, single);
  }
}

}  // namespace

std::string RandomBytes(DType dtype, uint64_t count) {
  std::mt19937 random(1);
  std::string bytes;
  bytes.reserve(count * SizeOf(dtype));
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t word = random();
    AppendNumber(dtype, {word >> 31, 1 + (word >> 23 & 3), word & 0x7fffff},
                 &bytes);
  }
  return bytes;
}

int64_t Tensor::numel() const {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

Tensor Tensor::Transposed(int a, int b) const {
  Tensor view = *this;
  std::swap(view.sizes[a], view.sizes[b]);
  std::swap(view.strides[a], view.strides[b]);
  return view;
}

Tensor Tensor::Broadcast(int dim, int64_t size) const {
  Tensor view = *this;
  view.sizes[dim] = size;
  view.strides[dim] = 0;
  return view;
}

Tensor Tensor::Reshaped(Dims new_sizes) const {
  Tensor view = *this;
  view.strides = DenseStrides(new_sizes);
  view.sizes = std::move(new_sizes);
  return view;
}

LaunchOf::LaunchOf(Kernel kernel, std::vector<Tensor> dst,
                   std::vector<Tensor> src)
    : tensors_(std::move(dst)) {
  const size_t num_dst = tensors_.size();
  for (Tensor& tensor : src) tensors_.push_back(std::move(tensor));
  for (const Tensor& tensor : tensors_) {
    operands_.push_back({.segment = tensor.segment,
                         .offset_bytes = tensor.offset_bytes,
                         .dtype = tensor.dtype,
                         .rank = static_cast<uint8_t>(tensor.sizes.size()),
                         .sizes = tensor.sizes.data(),
                         .strides = tensor.strides.data()});
  }
  params_.kernel = kernel;
  params_.dst = operands_.data();
  params_.num_dst = static_cast<int>(num_dst);
  params_.src = operands_.data() + num_dst;
  params_.num_src = static_cast<int>(tensors_.size() - num_dst);
}

LaunchOf& LaunchOf::Ints(std::vector<int64_t> ints) {
  ints_ = std::move(ints);
  params_.ints = ints_.data();
  params_.num_ints = static_cast<int>(ints_.size());
  return *this;
}

Result<std::unique_ptr<Device>> Device::Open(const DeviceOptions& options) {
  std::unique_ptr<Device> device(new Device);
  std::string endpoint = options.endpoint;
  if (endpoint.empty()) {
    auto daemon = client::PrivateDaemon::Start(
        {.binary = options.daemon,
         .runtime = options.runtime,
         .memory_bytes = options.memory_bytes,
         // A device's first start builds and tests its kernels.
         .start_timeout_ms = 120000});
    if (!daemon.ok()) return daemon.status();
    device->daemon_ = std::move(daemon.value());
    endpoint = device->daemon_->endpoint();
  }
  auto session = client::Session::Connect(
      {.endpoint = endpoint, .client_name = "tvarant-bench"});
  if (!session.ok()) return session.status();
  device->session_ = std::move(session.value());
  auto stream = device->session_->CreateStream();
  if (!stream.ok()) return stream.status();
  device->stream_ = std::move(stream.value());
  return device;
}

Device::~Device() {
  stream_.reset();
  session_.reset();
}

Result<uint64_t> Device::FreeBytes() {
  auto info = session_->GetMemoryInfo();
  if (!info.ok()) return info.status();
  return info.value().free_bytes;
}

Status Device::Launch(const LaunchOf& launch) {
  return stream_->Launch(launch.params()).status();
}

Scope::~Scope() {
  if (segments_.empty()) return;
  // A failure has been reported by what came before, or the daemon is gone.
  static_cast<void>(device_.stream().Synchronize());
  static_cast<void>(device_.session().ReleaseSegments(
      segments_.data(), static_cast<int>(segments_.size())));
}

Status Scope::Make(DType dtype, Dims sizes, Tensor* tensor, bool random) {
  Tensor made;
  made.dtype = dtype;
  made.strides = DenseStrides(sizes);
  made.sizes = std::move(sizes);
  const uint64_t bytes = std::max<uint64_t>(made.bytes(), 64);
  auto segment = device_.session().CreateSegment(bytes, nullptr);
  if (!segment.ok()) return segment.status();
  made.segment = segment.value();
  segments_.push_back(made.segment);
  *tensor = std::move(made);
  if (!random || !IsFloating(dtype)) return Status();

  // One pattern from the host, then doubled on the device.
  client::Stream& stream = device_.stream();
  uint64_t done = std::min(tensor->bytes(), kPatternBytes);
  const std::string pattern = RandomBytes(dtype, done / SizeOf(dtype));
  auto queued =
      stream.Upload(tensor->segment, 0, pattern.data(), pattern.size());
  while (queued.ok() && done < tensor->bytes()) {
    const uint64_t next = std::min(done, tensor->bytes() - done);
    queued = stream.CopyBytes(tensor->segment, done, tensor->segment, 0, next);
    done += next;
  }
  if (!queued.ok()) return queued.status();
  return stream.Synchronize();
}

}  // namespace tvarant::benchmarks

#include "torch_plugin/aten/fallback.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Generator.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "torch_plugin/aten/copy_ops.h"
#include "torch_plugin/aten/host_alias.h"
#include "torch_plugin/runtime/allocator.h"
#include "torch_plugin/runtime/device_impl.h"
#include "torch_plugin/runtime/generator.h"
#include "torch_plugin/runtime/storage.h"

namespace tvarant::torch_plugin {
namespace {

struct Statistics {
  std::mutex mutex;
  std::map<std::string, uint64_t> counts;
  std::map<std::string, bool> warned;
};
Statistics& GetStatistics() {
  static auto* statistics = new Statistics;
  return *statistics;
}

void Count(const std::string& op) {
  const char* mode = std::getenv("TVARANT_FALLBACK");
  TORCH_CHECK_NOT_IMPLEMENTED(
      mode == nullptr || std::strcmp(mode, "error") != 0, op,
      " has no kernel on tvarant for these arguments, and "
      "TVARANT_FALLBACK=error forbids the CPU fallback");
  bool warn = false;
  {
    Statistics& statistics = GetStatistics();
    std::lock_guard<std::mutex> lock(statistics.mutex);
    ++statistics.counts[op];
    warn = !std::exchange(statistics.warned[op], true);
  }
  if (warn) {
    TORCH_WARN(op,
               " has no kernel on tvarant for these arguments and runs on the "
               "CPU, which waits for the device; "
               "torch.tvarant.fallback_stats() counts such calls");
  }
}

// One call of an op on the CPU.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : op_(op), stack_(stack) {}

  void Run() {
    const auto& arguments = op_.schema().arguments();
    const size_t begin = stack_->size() - arguments.size();
    for (size_t i = 0; i < arguments.size(); ++i) {
      Collect(arguments[i], (*stack_)[begin + i]);
    }
    CheckDevices();
    TORCH_CHECK_NOT_IMPLEMENTED(
        op_.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU),
        op_.operator_name(),
        " has no kernel on tvarant, nor one for the CPU to fall back to");
    device_ = &DeviceImpl::Get(target_.index());
    if (!storages_.empty()) {
      device_->Synchronize();
      for (StoragePair& pair : storages_) MakeHost(pair);
      for (TensorPair& pair : tensors_) {
        pair.host = TensorLike(pair.device, storages_[pair.storage].host,
                               /*is_cpu=*/true);
      }
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
      Swap(arguments[i], &(*stack_)[begin + i]);
    }
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
    for (StoragePair& pair : storages_) CarryBack(pair);
    for (TensorPair& pair : tensors_) CarryBack(pair);
    const size_t results = op_.schema().returns().size();
    for (size_t i = stack_->size() - results; i < stack_->size(); ++i) {
      ConvertResult(&(*stack_)[i]);
    }
  }

 private:
  struct StoragePair {
    c10::Storage device;
    c10::Storage host;
    ByteSpan read;     // what tensors reach
    ByteSpan written;  // what tensors that the op may write reach
    const void* host_data = nullptr;  // before the call
    size_t host_bytes = 0;
  };
  struct TensorPair {
    at::Tensor device;
    at::Tensor host;
    size_t storage = 0;
    bool is_written = false;
  };

  static bool IsOurs(const at::Tensor& tensor) {
    return tensor.defined() && tensor.is_privateuseone();
  }

  // --- Before -------------------------------------------------------------

  void Collect(const c10::Argument& argument, const c10::IValue& value) {
    const bool is_written =
        argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    // Index tensors may lie on the host, as with PyTorch's own devices.
    const bool may_be_host =
        value.isOptionalTensorList() ||
        argument.name().find("lengths") != std::string::npos;
    if (value.isTensor()) {
      Collect(value.toTensor(), is_written, may_be_host);
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        Collect(tensor, is_written, may_be_host);
      }
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor :
           value.toOptionalTensorVector()) {
        if (tensor.has_value()) Collect(*tensor, is_written, may_be_host);
      }
    } else if (value.isDevice() && value.toDevice().is_privateuseone()) {
      SetTarget(value.toDevice());
    }
  }

  void Collect(const at::Tensor& tensor, bool is_written, bool may_be_host) {
    if (!tensor.defined()) return;
    if (!IsOurs(tensor)) {
      if (is_written || !tensor.is_cpu() ||
          (tensor.dim() != 0 && !may_be_host)) {
        if (!foreign_.has_value()) foreign_ = tensor.device();
      }
      return;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(
        tensor.layout() == c10::kStrided && !tensor.is_nested(),
        op_.operator_name(), ": tvarant takes strided tensors only, got ",
        tensor.layout());
    SetTarget(tensor.device());
    for (TensorPair& pair : tensors_) {
      if (!pair.device.is_same(tensor)) continue;
      if (is_written) MarkWritten(&pair);
      return;
    }
    TensorPair pair;
    pair.device = tensor;
    pair.storage = FindOrAddStorage(tensor.storage());
    storages_[pair.storage].read.Join(SpanOf(tensor));
    if (is_written) MarkWritten(&pair);
    tensors_.push_back(std::move(pair));
  }

  void MarkWritten(TensorPair* pair) {
    pair->is_written = true;
    storages_[pair->storage].written.Join(SpanOf(pair->device));
  }

  size_t FindOrAddStorage(const c10::Storage& storage) {
    for (size_t i = 0; i < storages_.size(); ++i) {
      if (storages_[i].device.unsafeGetStorageImpl() ==
          storage.unsafeGetStorageImpl()) {
        return i;
      }
    }
    StoragePair pair;
    pair.device = storage;
    storages_.push_back(std::move(pair));
    return storages_.size() - 1;
  }

  void SetTarget(c10::Device device) {
    if (has_target_) return;
    has_target_ = true;
    target_ = c10::Device(
        device.type(), device.has_index() ? device.index() : CurrentDevice());
  }

  void CheckDevices() {
    if (!has_target_) SetTarget(c10::Device(c10::kPrivateUse1));
    TORCH_CHECK(!foreign_.has_value() || tensors_.empty(),
                "Expected all tensors to be on the same device, but found at "
                "least two devices, ",
                target_, " and ", *foreign_, "! (in ", op_.operator_name(),
                ")");
  }

  void MakeHost(StoragePair& pair) {
    const size_t bytes = pair.device.nbytes();
    if (device_->is_mapped()) {
      if (pair.device.data() != nullptr) device_->Locate(pair.device.data());
      pair.host = HostStorageOn(pair.device);
    } else {
      // All of it in address space, but only what tensors reach is fetched
      // and touched.
      c10::Allocator* allocator = c10::GetCPUAllocator();
      pair.host = c10::Storage(c10::Storage::use_byte_size_t(), bytes,
                               allocator->allocate(bytes), allocator,
                               /*resizable=*/true);
      if (!pair.read.empty()) {
        char* host = static_cast<char*>(pair.host.mutable_data());
        const char* device = static_cast<const char*>(pair.device.data());
        device_->Download(CurrentStreamId(device_->index()),
                          device + pair.read.begin, host + pair.read.begin,
                          pair.read.end - pair.read.begin);
      }
    }
    pair.host_data = pair.host.data();
    pair.host_bytes = bytes;
  }

  // --- Arguments ------------------------------------------------------------

  at::Tensor HostOf(const at::Tensor& tensor) {
    if (!IsOurs(tensor)) return tensor;
    for (const TensorPair& pair : tensors_) {
      if (pair.device.is_same(tensor)) return pair.host;
    }
    return tensor;
  }

  void Swap(const c10::Argument& argument, c10::IValue* value) {
    if (value->isTensor()) {
      *value = HostOf(value->toTensor());
    } else if (value->isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value->toTensorVector()) {
        list.push_back(HostOf(tensor));
      }
      *value = std::move(list);
    } else if (value->isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor :
           value->toOptionalTensorVector()) {
        list.push_back(tensor.has_value()
                           ? std::optional<at::Tensor>(HostOf(*tensor))
                           : std::nullopt);
      }
      *value = std::move(list);
    } else if (value->isDevice() && value->toDevice().is_privateuseone()) {
      *value = c10::Device(c10::kCPU);
    } else if (argument.name() == "generator" &&
               (value->isNone() || value->isGenerator())) {
      *value = HostGenerator(*value);
    }
  }

  // A CPU generator whose numbers follow from the device generator's state.
  at::Generator HostGenerator(const c10::IValue& value) {
    std::optional<at::Generator> given;
    if (value.isGenerator()) given = value.toGenerator();
    const PhiloxPoint point = PhiloxNext(given, target_, 1);
    uint64_t mixed = point.seed + point.offset * 0x9E3779B97F4A7C15ull;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;  // SplitMix64
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
    return at::detail::createCPUGenerator(mixed ^ (mixed >> 31));
  }

  // --- After ----------------------------------------------------------------

  void CarryBack(StoragePair& pair) {
    const c10::StreamId stream = CurrentStreamId(device_->index());
    if (pair.host.data() != pair.host_data ||
        pair.host.nbytes() != pair.host_bytes) {
      // The op resized it, so the CPU moved it: so do we.
      ResizeStorage(pair.device.unsafeGetStorageImpl(), pair.host.nbytes());
      device_->Upload(stream, pair.device.mutable_data(), pair.host.data(),
                      pair.host.nbytes());
      return;
    }
    if (pair.written.empty() || device_->is_mapped()) return;
    char* device = static_cast<char*>(pair.device.mutable_data());
    const char* host = static_cast<const char*>(pair.host.data());
    device_->Upload(stream, device + pair.written.begin,
                    host + pair.written.begin,
                    pair.written.end - pair.written.begin);
  }

  void CarryBack(TensorPair& pair) {
    if (!pair.is_written) return;
    c10::TensorImpl* device = pair.device.unsafeGetTensorImpl();
    const at::Tensor& host = pair.host;
    if (host.storage().unsafeGetStorageImpl() !=
        storages_[pair.storage].host.unsafeGetStorageImpl()) {
      device->set_storage_keep_dtype(DeviceStorageOf(host));
    }
    if (host.sizes() != pair.device.sizes() ||
        host.strides() != pair.device.strides() ||
        host.storage_offset() != pair.device.storage_offset()) {
      device->set_sizes_and_strides(host.sizes(), host.strides(),
                                    host.storage_offset());
    }
    if (host.is_conj() != pair.device.is_conj()) {
      device->_set_conj(host.is_conj());
    }
    if (host.is_neg() != pair.device.is_neg()) device->_set_neg(host.is_neg());
  }

  // The device storage that stands for a CPU storage; made, and its bytes
  // sent, if there is none yet.
  c10::Storage DeviceStorageOf(const at::Tensor& host) {
    c10::StorageImpl* impl = host.storage().unsafeGetStorageImpl();
    for (const StoragePair& pair : storages_) {
      if (pair.host.unsafeGetStorageImpl() == impl) return pair.device;
    }
    for (const StoragePair& pair : fresh_) {
      if (pair.host.unsafeGetStorageImpl() == impl) return pair.device;
    }
    StoragePair pair;
    pair.host = host.storage();
    const int64_t bytes = static_cast<int64_t>(pair.host.nbytes());
    at::Tensor all = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(pair.host), c10::DispatchKeySet(c10::DispatchKey::CPU),
        caffe2::TypeMeta::Make<uint8_t>());
    all.unsafeGetTensorImpl()->set_sizes_contiguous({bytes});
    pair.device = ToDevice(all, target_).storage();
    fresh_.push_back(pair);
    return pair.device;
  }

  void ConvertResult(c10::IValue* value) {
    if (value->isTensor()) {
      *value = DeviceOf(value->toTensor());
    } else if (value->isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value->toTensorVector()) {
        list.push_back(DeviceOf(tensor));
      }
      *value = std::move(list);
    }
  }

  at::Tensor DeviceOf(const at::Tensor& host) {
    if (!host.defined() || IsOurs(host)) return host;
    TORCH_CHECK_NOT_IMPLEMENTED(
        host.layout() == c10::kStrided && !host.is_nested(),
        op_.operator_name(),
        ": tvarant has strided tensors only, but the op "
        "returns layout ",
        host.layout());
    c10::StorageImpl* impl = host.storage().unsafeGetStorageImpl();
    for (const TensorPair& pair : tensors_) {
      if (pair.host.is_same(host)) return pair.device;
    }
    for (const StoragePair& pair : storages_) {
      if (pair.host.unsafeGetStorageImpl() == impl) {
        return TensorLike(host, pair.device, /*is_cpu=*/false);
      }
    }
    // A new tensor of its own needs only its own bytes.
    if (host.is_non_overlapping_and_dense() &&
        host.storage().use_count() == 1 && !host.is_conj() && !host.is_neg()) {
      return ToDevice(host, target_);
    }
    return TensorLike(host, DeviceStorageOf(host), /*is_cpu=*/false);
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack* stack_;
  bool has_target_ = false;
  c10::Device target_{c10::kPrivateUse1, 0};
  std::optional<c10::Device> foreign_;  // of a tensor that must not be there
  DeviceImpl* device_ = nullptr;
  std::vector<StoragePair> storages_;
  std::vector<StoragePair> fresh_;
  std::vector<TensorPair> tensors_;
};

void BoxedFallback(const c10::OperatorHandle& op, c10::DispatchKeySet,
                   torch::jit::Stack* stack) {
  CpuFallback(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&BoxedFallback>());
}

}  // namespace

void CpuFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack,
                 const char* counted_as) {
  Count(counted_as != nullptr ? std::string(counted_as)
                              : c10::toString(op.operator_name()));
  Call(op, stack).Run();
}

void RegisterStructuredFallbacks() {
  using c10::DispatchKey;
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  // "aten::add" for add, add_ and all their overloads.
  auto family = [](const c10::OperatorName& name) {
    std::string family = name.name;
    if (!family.empty() && family.back() == '_') family.pop_back();
    return family;
  };
  std::set<std::string> native;
  std::vector<c10::OperatorName> candidates;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const std::optional<c10::OperatorHandle> op = dispatcher.findOp(name);
    if (!op.has_value()) continue;
    if (op->hasKernelForDispatchKey(DispatchKey::PrivateUse1)) {
      native.insert(family(name));
    } else if (op->hasKernelForDispatchKey(
                   DispatchKey::CompositeExplicitAutogradNonFunctional) &&
               op->hasKernelForDispatchKey(DispatchKey::CPU)) {
      candidates.push_back(name);
    }
  }
  // Registrations last as long as the library object: for ever.
  static auto* library =
      new torch::Library(torch::Library::IMPL, "aten", DispatchKey::PrivateUse1,
                         __FILE__, __LINE__);
  for (const c10::OperatorName& name : candidates) {
    if (native.count(family(name)) != 0) continue;
    library->impl(c10::toString(name).c_str(),
                  torch::CppFunction::makeFromBoxedFunction<&BoxedFallback>());
  }
}

std::map<std::string, uint64_t> FallbackStats() {
  Statistics& statistics = GetStatistics();
  std::lock_guard<std::mutex> lock(statistics.mutex);
  return statistics.counts;
}

void ResetFallbackStats() {
  Statistics& statistics = GetStatistics();
  std::lock_guard<std::mutex> lock(statistics.mutex);
  statistics.counts.clear();
}

}  // namespace tvarant::torch_plugin

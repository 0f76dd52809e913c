// Ops without which there is no tensor: making, resizing, filling, reading.

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_lazy_clone_native.h>
#include <ATen/ops/all.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/set_native.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <cstring>

#include "torch_plugin/aten/copy_ops.h"
#include "torch_plugin/aten/launch.h"
#include "torch_plugin/runtime/allocator.h"
#include "torch_plugin/runtime/device_impl.h"
#include "torch_plugin/runtime/device_index.h"
#include "torch_plugin/runtime/storage.h"

namespace tvarant::torch_plugin {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

// Makes a factory's device current while it lives.
class FactoryScope {
 public:
  FactoryScope(std::optional<c10::ScalarType> dtype,
               std::optional<c10::Layout> layout,
               std::optional<c10::Device> device, std::optional<bool> pin)
      : type_(c10::dtype_or_default(dtype)), previous_(CurrentDevice()) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        c10::layout_or_default(layout) == c10::kStrided,
        "tvarant: only strided tensors are available, got layout ",
        c10::layout_or_default(layout));
    TORCH_CHECK(!c10::pinned_memory_or_default(pin),
                "Only dense CPU tensors can be pinned");
    if (device.has_value() && device->has_index()) {
      CheckDeviceIndex(device->index());
      ExchangeDevice(device->index());
    }
  }
  ~FactoryScope() { ExchangeDevice(previous_); }
  FactoryScope(const FactoryScope&) = delete;
  FactoryScope& operator=(const FactoryScope&) = delete;
  c10::ScalarType type() const { return type_; }

 private:
  c10::ScalarType type_;
  c10::DeviceIndex previous_;
};

// torch.use_deterministic_algorithms(True): then what nobody has written yet
// has a value, too.
bool MustFill() {
  const at::Context& context = at::globalContext();
  return C10_UNLIKELY(context.deterministicAlgorithms()) &&
         context.deterministicFillUninitializedMemory();
}

at::Tensor Filled(at::Tensor made) {
  if (MustFill() && made.numel() != 0) {
    at::native::fill_empty_deterministic_(made);
  }
  return made;
}

at::Tensor Empty(at::IntArrayRef size, std::optional<c10::ScalarType> dtype,
                 std::optional<c10::Layout> layout,
                 std::optional<c10::Device> device, std::optional<bool> pin,
                 std::optional<c10::MemoryFormat> format) {
  const FactoryScope scope(dtype, layout, device, pin);
  return Filled(at::detail::empty_generic(size, &DeviceAllocator::Get(), kKeys,
                                          scope.type(), format));
}

at::Tensor EmptyStrided(at::IntArrayRef size, at::IntArrayRef stride,
                        std::optional<c10::ScalarType> dtype,
                        std::optional<c10::Layout> layout,
                        std::optional<c10::Device> device,
                        std::optional<bool> pin) {
  const FactoryScope scope(dtype, layout, device, pin);
  return Filled(at::detail::empty_strided_generic(
      size, stride, &DeviceAllocator::Get(), kKeys, scope.type()));
}

// Memory that is never there: readers must know the ZeroTensor key.
class NoMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t) override {
    return c10::DataPtr(nullptr, c10::Device(c10::kPrivateUse1, 0));
  }
  void copy_data(void*, const void*, size_t) const override {}
};

at::Tensor EfficientZeroTensor(at::IntArrayRef size,
                               std::optional<c10::ScalarType> dtype,
                               std::optional<c10::Layout> layout,
                               std::optional<c10::Device> device,
                               std::optional<bool> pin) {
  static auto* allocator = new NoMemory;
  const FactoryScope scope(dtype, layout, device, pin);
  return at::detail::empty_generic(
      size, allocator,
      kKeys | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor), scope.type(),
      std::nullopt);
}

// --- Sizes and storages ---------------------------------------------------

// Gives the tensor's storage the bytes that its metadata reaches.
void GrowStorage(const at::Tensor& self) {
  if (self.numel() == 0) return;
  const size_t needed = at::detail::computeStorageNbytes(
      self.sizes(), self.strides(), self.itemsize(), self.storage_offset());
  c10::StorageImpl* storage = self.storage().unsafeGetStorageImpl();
  if (needed > storage->nbytes()) ResizeStorage(storage, needed);
}

const at::Tensor& Resize(const at::Tensor& self, at::IntArrayRef size,
                         std::optional<c10::MemoryFormat> format) {
  at::detail::check_size_nonnegative(size);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != size) {
    const auto old_bytes = static_cast<int64_t>(self.storage().nbytes());
    impl->set_sizes_contiguous(size);
    GrowStorage(self);
    if (MustFill()) at::native::fill_resize_deterministic_(self, old_bytes);
  }
  if (format.has_value()) {
    TORCH_CHECK(*format != c10::MemoryFormat::Preserve,
                "Unsupported memory format", *format);
    impl->empty_tensor_restride(*format);
  }
  return self;
}

at::Tensor& SetStorage(at::Tensor& self, at::Storage source, int64_t offset,
                       at::IntArrayRef size, at::IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  if (stride.data() != nullptr) {
    impl->set_sizes_and_strides(size, stride);
  } else {
    impl->set_sizes_contiguous(size);
  }
  GrowStorage(self);
  return self;
}

at::Tensor& SetWholeStorage(at::Tensor& self, at::Storage source) {
  const int64_t size = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return SetStorage(self, std::move(source), 0, size, {});
}

at::Tensor& SetTensor(at::Tensor& self, const at::Tensor& source) {
  return at::native::set_tensor_(self, source);
}

at::Tensor& SetNothing(at::Tensor& self) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0,
                       c10::DataPtr(nullptr, self.device()),
                       &DeviceAllocator::Get(),
                       /*resizable=*/true);
  return SetStorage(self, std::move(storage), 0, {0}, {});
}

// --- Values ----------------------------------------------------------------

// The element's bytes, low and high half.
std::array<int64_t, 2> BitsOf(const at::Scalar& value, c10::ScalarType type) {
  std::array<int64_t, 2> bits = {0, 0};
  // PyTorch's own conversion of a scalar, with its overflow errors.
  at::Tensor element = at::detail::empty_cpu({}, type);
  element.fill_(value);
  std::memcpy(bits.data(), element.const_data_ptr(), element.itemsize());
  return bits;
}

template <typename T>
std::array<int64_t, 2> Bits(T value) {
  std::array<int64_t, 2> bits = {0, 0};
  static_assert(sizeof(T) <= sizeof(bits));
  std::memcpy(bits.data(), &value, sizeof(T));
  return bits;
}

std::array<int64_t, 2> FillBits(const at::Scalar& value, c10::ScalarType type) {
  // The common types without a tensor.
  switch (type) {
    case c10::ScalarType::Float:
      return Bits(value.to<float>());
    case c10::ScalarType::Double:
      return Bits(value.to<double>());
    case c10::ScalarType::BFloat16:
      return Bits(value.to<c10::BFloat16>());
    case c10::ScalarType::Half:
      return Bits(value.to<c10::Half>());
    case c10::ScalarType::Long:
      return Bits(value.to<int64_t>());
    case c10::ScalarType::Bool:
      return Bits(value.to<bool>());
    default:
      return BitsOf(value, type);
  }
}

DType FillType(const at::Tensor& self) {
  const DType dtype = ToDType(self.scalar_type());
  if (dtype != DType::kInvalid) return dtype;
  // The kernel fills with bits: only the size matters.
  switch (self.itemsize()) {
    case 1:
      return DType::kUInt8;
    case 2:
      return DType::kUInt16;
    default:
      return DType::kUInt32;
  }
}

at::Tensor& FillScalar(at::Tensor& self, const at::Scalar& value) {
  at::assert_no_internal_overlap(self);
  if (self.numel() == 0) return self;
  const std::array<int64_t, 2> bits = FillBits(value, self.scalar_type());
  LaunchBuilder launch(Kernel::kFill, self.device());
  launch.DstRaw(self.mutable_data_ptr(), FillType(self), self.sizes(),
                self.strides());
  launch.Int(bits[0]).Int(bits[1]).Run();
  return self;
}

at::Tensor& FillTensor(at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0,
              "fill_ only supports 0-dimension value tensor but got tensor "
              "with ",
              value.dim(), " dimensions.");
  if (value.device() != self.device()) return FillScalar(self, value.item());
  // The value stays on the device; x.fill_(x[0]) must read it first.
  const bool is_alias = value.is_alias_of(self);
  CopyTensor(is_alias ? value.clone() : value, self);
  return self;
}

at::Tensor& Zero(at::Tensor& self) { return FillScalar(self, 0); }

at::Scalar LocalScalarDense(const at::Tensor& self) {
  TORCH_CHECK(self.numel() > 0,
              "_local_scalar_dense: Empty tensor not "
              "supported");
  DeviceImpl& device = DeviceImpl::Get(self.device().index());
  const c10::StreamId stream = CurrentStreamId(device.index());
  const void* address = self.const_data_ptr();
  alignas(16) char bytes[16];
  if (device.is_mapped()) {
    device.Locate(address);  // raises for memory that was lost
    device.Wait(stream);
    const HostCopyScope scope(device, "Memcpy DtoH", self.itemsize());
    std::memcpy(bytes, address, self.itemsize());
  } else {
    device.Download(stream, address, bytes, self.itemsize());
  }
  auto as = [&bytes](auto zero) {
    decltype(zero) value;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  };
  switch (self.scalar_type()) {
    case c10::ScalarType::Bool:
      return at::Scalar(bytes[0] != 0);
#define TVARANT_CASE(type, Name) \
  case c10::ScalarType::Name:    \
    return at::Scalar(as(type()));
      AT_FORALL_SCALAR_TYPES_AND2(BFloat16, Half, TVARANT_CASE)
      TVARANT_CASE(uint16_t, UInt16)
      TVARANT_CASE(uint32_t, UInt32)
      TVARANT_CASE(uint64_t, UInt64)
      TVARANT_CASE(c10::complex<float>, ComplexFloat)
      TVARANT_CASE(c10::complex<double>, ComplexDouble)
#undef TVARANT_CASE
    default: {
      // Rare types: PyTorch's own reading of such an element.
      at::Tensor element = at::detail::empty_cpu({}, self.scalar_type());
      std::memcpy(element.mutable_data_ptr(), bytes, self.itemsize());
      return element.item();
    }
  }
}

bool Equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Cannot compare two tensors on different devices. Got: ",
              self.device(), " and ", other.device());
  TORCH_CHECK(self.dtype() == other.dtype(),
              "Expected all tensors to have the same dtype. Got: ",
              self.dtype(), " and ", other.dtype());
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  return at::all(at::eq(self, other)).item().toBool();
}

// In place the memory is conjugated whatever the bit says: with the bit set
// the tensor's value is the conjugate of its memory.
at::Tensor& ConjPhysicalInPlace(at::Tensor& self) {
  if (!self.is_complex() || self.numel() == 0) return self;
  at::assert_no_internal_overlap(self);
  LaunchBuilder launch(Kernel::kCopy, self.device());
  launch.Dst(self).Src(self);
  launch.params().flags |= kConjugate;
  launch.Run();
  return self;
}

at::Tensor& ConjPhysicalOut(const at::Tensor& self, at::Tensor& out) {
  at::native::resize_output(out, self.sizes());
  TORCH_CHECK(c10::canCast(self.scalar_type(), out.scalar_type()),
              "result type ", self.scalar_type(),
              " can't be cast to the desired output type ", out.scalar_type());
  CheckSameDevice(self, out.device(), "conj_physical", "self");
  CopyOnDevice(self, out, /*conjugate=*/self.is_complex());
  return out;
}

// A lazy copy would need every kernel to say what it writes; a real one is
// always right.
at::Tensor LazyClone(const at::Tensor& self) { return self.clone(); }

void RecordStream(at::Tensor& self, c10::Stream stream) {
  TORCH_CHECK(stream.device_type() == c10::DeviceType::PrivateUse1,
              "record_stream: expected a tvarant stream, got ", stream);
  DeviceAllocator::Get().recordStream(self.storage().data_ptr(), stream);
}

// Parameters move between the host and the device by exchanging what their
// tensor stands on (module.to, p.data = x).
bool HasCompatibleShallowCopyType(const at::Tensor& self,
                                  const at::Tensor& from) {
  auto is_plain = [](const at::Tensor& tensor) {
    return tensor.layout() == c10::kStrided && !tensor.is_nested() &&
           (tensor.is_cpu() || tensor.is_privateuseone());
  };
  return is_plain(self) && is_plain(from);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(Empty));
  m.impl("empty_strided", TORCH_FN(EmptyStrided));
  m.impl("_efficientzerotensor", TORCH_FN(EfficientZeroTensor));
  m.impl("resize_", TORCH_FN(Resize));
  m.impl("set_", TORCH_FN(SetNothing));
  m.impl("set_.source_Storage", TORCH_FN(SetWholeStorage));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(SetStorage));
  m.impl("set_.source_Tensor", TORCH_FN(SetTensor));
  m.impl("fill_.Scalar", TORCH_FN(FillScalar));
  m.impl("fill_.Tensor", TORCH_FN(FillTensor));
  m.impl("zero_", TORCH_FN(Zero));
  m.impl("_local_scalar_dense", TORCH_FN(LocalScalarDense));
  m.impl("equal", TORCH_FN(Equal));
  m.impl("conj_physical_", TORCH_FN(ConjPhysicalInPlace));
  m.impl("conj_physical.out", TORCH_FN(ConjPhysicalOut));
  m.impl("_lazy_clone", TORCH_FN(LazyClone));
  m.impl("record_stream", TORCH_FN(RecordStream));
  m.impl("_has_compatible_shallow_copy_type",
         TORCH_FN(HasCompatibleShallowCopyType));
}

}  // namespace
}  // namespace tvarant::torch_plugin

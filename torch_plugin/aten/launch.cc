#include "torch_plugin/aten/launch.h"

#include <c10/util/Exception.h>

#include <iterator>
#include <vector>

#include "torch_plugin/runtime/device_impl.h"

namespace tvarant::torch_plugin {

DType ToDType(c10::ScalarType type) noexcept {
  switch (type) {
    case c10::ScalarType::Bool:
      return DType::kBool;
    case c10::ScalarType::Byte:
      return DType::kUInt8;
    case c10::ScalarType::Char:
      return DType::kInt8;
    case c10::ScalarType::Short:
      return DType::kInt16;
    case c10::ScalarType::Int:
      return DType::kInt32;
    case c10::ScalarType::Long:
      return DType::kInt64;
    case c10::ScalarType::Half:
      return DType::kFloat16;
    case c10::ScalarType::BFloat16:
      return DType::kBFloat16;
    case c10::ScalarType::Float:
      return DType::kFloat32;
    case c10::ScalarType::Double:
      return DType::kFloat64;
    case c10::ScalarType::ComplexFloat:
      return DType::kComplex64;
    case c10::ScalarType::ComplexDouble:
      return DType::kComplex128;
    case c10::ScalarType::UInt16:
      return DType::kUInt16;
    case c10::ScalarType::UInt32:
      return DType::kUInt32;
    case c10::ScalarType::UInt64:
      return DType::kUInt64;
    default:
      return DType::kInvalid;
  }
}

c10::ScalarType ToScalarType(DType dtype) noexcept {
  switch (dtype) {
    case DType::kBool:
      return c10::ScalarType::Bool;
    case DType::kUInt8:
      return c10::ScalarType::Byte;
    case DType::kInt8:
      return c10::ScalarType::Char;
    case DType::kInt16:
      return c10::ScalarType::Short;
    case DType::kInt32:
      return c10::ScalarType::Int;
    case DType::kInt64:
      return c10::ScalarType::Long;
    case DType::kFloat16:
      return c10::ScalarType::Half;
    case DType::kBFloat16:
      return c10::ScalarType::BFloat16;
    case DType::kFloat32:
      return c10::ScalarType::Float;
    case DType::kFloat64:
      return c10::ScalarType::Double;
    case DType::kComplex64:
      return c10::ScalarType::ComplexFloat;
    case DType::kComplex128:
      return c10::ScalarType::ComplexDouble;
    case DType::kUInt16:
      return c10::ScalarType::UInt16;
    case DType::kUInt32:
      return c10::ScalarType::UInt32;
    case DType::kUInt64:
      return c10::ScalarType::UInt64;
    default:
      return c10::ScalarType::Undefined;
  }
}

void CheckSameDevice(const at::Tensor& tensor, c10::Device device,
                     const char* op, const char* argument) {
  TORCH_CHECK(tensor.device() == device,
              "Expected all tensors to be on the same device, but found at "
              "least two devices, ",
              device, " and ", tensor.device(),
              "! (when checking argument for "
              "argument ",
              argument, " in method ", op, ")");
}

LaunchBuilder::LaunchBuilder(Kernel kernel, c10::Device device)
    : device_(Device::Get(device.index())) {
  params_.kernel = kernel;
}

void LaunchBuilder::Add(bool is_dst, const void* address, DType dtype,
                        at::IntArrayRef sizes, at::IntArrayRef strides) {
  TORCH_CHECK(sizes.size() <= kMaxRank, NameOf(params_.kernel),
              ": tvarant takes tensors of up to ", kMaxRank,
              " dimensions, got ", sizes.size());
  Entry entry{};
  entry.dtype = dtype;
  if (dtype != DType::kInvalid) {
    // An empty tensor has no memory, but its operand must lie somewhere.
    entry.location = address == nullptr
                         ? static_cast<DeviceImpl&>(device_).Nowhere()
                         : device_.Locate(address);
    entry.rank = static_cast<uint8_t>(sizes.size());
    entry.extents_begin = static_cast<uint32_t>(extents_.size());
    extents_.append(sizes.begin(), sizes.end());
    extents_.append(strides.begin(), strides.end());
  }
  (is_dst ? dst_ : src_).push_back(entry);
}

namespace {

DType WireType(Kernel kernel, const at::Tensor& tensor) {
  const DType dtype = ToDType(tensor.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(dtype != DType::kInvalid, '"', NameOf(kernel),
                              "\" not implemented for '",
                              c10::toString(tensor.scalar_type()), "'");
  return dtype;
}

}  // namespace

LaunchBuilder& LaunchBuilder::Dst(const at::Tensor& tensor) {
  return DstAs(tensor, tensor.sizes(), tensor.strides());
}

LaunchBuilder& LaunchBuilder::Src(const at::Tensor& tensor) {
  return SrcAs(tensor, tensor.sizes(), tensor.strides());
}

LaunchBuilder& LaunchBuilder::DstOrAbsent(const at::Tensor& tensor) {
  if (tensor.defined()) return Dst(tensor);
  Add(true, nullptr, DType::kInvalid, {}, {});
  return *this;
}

LaunchBuilder& LaunchBuilder::SrcOrAbsent(const at::Tensor& tensor) {
  if (tensor.defined()) return Src(tensor);
  Add(false, nullptr, DType::kInvalid, {}, {});
  return *this;
}

LaunchBuilder& LaunchBuilder::DstAs(const at::Tensor& tensor,
                                    at::IntArrayRef sizes,
                                    at::IntArrayRef strides) {
  return DstRaw(tensor.mutable_data_ptr(), WireType(params_.kernel, tensor),
                sizes, strides);
}

LaunchBuilder& LaunchBuilder::SrcAs(const at::Tensor& tensor,
                                    at::IntArrayRef sizes,
                                    at::IntArrayRef strides) {
  return SrcRaw(tensor.const_data_ptr(), WireType(params_.kernel, tensor),
                sizes, strides);
}

LaunchBuilder& LaunchBuilder::DstRaw(const void* address, DType dtype,
                                     at::IntArrayRef sizes,
                                     at::IntArrayRef strides) {
  Add(true, address, dtype, sizes, strides);
  return *this;
}

LaunchBuilder& LaunchBuilder::SrcRaw(const void* address, DType dtype,
                                     at::IntArrayRef sizes,
                                     at::IntArrayRef strides) {
  Add(false, address, dtype, sizes, strides);
  return *this;
}

LaunchBuilder& LaunchBuilder::Int(int64_t value) {
  ints_.push_back(value);
  return *this;
}

LaunchBuilder& LaunchBuilder::Float(double value) {
  floats_.push_back(value);
  return *this;
}

void LaunchBuilder::Run() {
  const size_t count = dst_.size() + src_.size();
  Operand few[8];
  std::vector<Operand> many;
  if (count > std::size(few)) many.resize(count);
  Operand* operands = many.empty() ? few : many.data();
  size_t i = 0;
  for (const auto* entries : {&dst_, &src_}) {
    for (const Entry& entry : *entries) {
      const int64_t* extents = extents_.data() + entry.extents_begin;
      operands[i++] = Operand{.segment = entry.location.segment,
                              .offset_bytes = entry.location.offset_bytes,
                              .dtype = entry.dtype,
                              .rank = entry.rank,
                              .sizes = extents,
                              .strides = extents + entry.rank};
    }
  }
  params_.dst = operands;
  params_.num_dst = static_cast<int>(dst_.size());
  params_.src = operands + dst_.size();
  params_.num_src = static_cast<int>(src_.size());
  params_.ints = ints_.data();
  params_.num_ints = static_cast<int>(ints_.size());
  params_.floats = floats_.data();
  params_.num_floats = static_cast<int>(floats_.size());
  device_.Launch(params_);
}

}  // namespace tvarant::torch_plugin

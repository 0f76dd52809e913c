#include "torch_plugin/aten/pointwise.h"

#include <c10/core/ScalarType.h>

#include <cstring>
#include <mutex>
#include <unordered_map>

#include "torch_plugin/runtime/device.h"
#include "torch_plugin/runtime/device_index.h"

namespace tvarant::torch_plugin {
namespace {

// Whether an op of the table computes on integers, and on floats.
constexpr unsigned kTypesF = 1, kTypesI = 2, kTypesN = 3;

constexpr unsigned TypesOf(PointwiseOp op) {
  switch (op) {
#define TVARANT_POINTWISE_OP(code, Name, name, arity, types, result, expr, \
                             doc)                                          \
  case PointwiseOp::k##Name:                                               \
    return kTypes##types;
#include "proto/ops/pointwise_ops.inc"
    default:
      return 0;
  }
}

// Half types compute in float32.
DType MathType(DType type) {
  return type == DType::kFloat16 || type == DType::kBFloat16 ? DType::kFloat32
                                                             : type;
}

// Types whose values are narrower than the class they compute in.
bool IsNarrow(DType type) {
  return type == DType::kUInt8 || type == DType::kInt8 ||
         type == DType::kInt16 || type == DType::kFloat16 ||
         type == DType::kBFloat16;
}

uint64_t Mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0x9E3779B97F4A7C15u;
  return x ^ (x >> 29);
}

struct KeyHash {
  size_t operator()(const PointwiseKey& key) const {
    uint64_t types, rest = 0;
    static_assert(sizeof(key.dtypes) == sizeof(types));
    std::memcpy(&types, key.dtypes.data(), sizeof(types));
    rest = static_cast<uint64_t>(key.type) |
           static_cast<uint64_t>(key.num_operands) << 8 |
           static_cast<uint64_t>(key.num_parameters) << 16 |
           static_cast<uint64_t>(key.host_mask) << 24;
    return Mix(reinterpret_cast<uintptr_t>(key.emit) ^ Mix(types ^ rest));
  }
};

// Programs by device, epoch and key. The table of a lost session is dropped.
class ProgramTable {
 public:
  PointwiseProgram Find(Device& device, const PointwiseKey& key) {
    const std::scoped_lock lock(mutex_);
    if (epoch_ != device.epoch()) {
      programs_.clear();
      epoch_ = device.epoch();
    }
    const auto found = programs_.find(key);
    if (found != programs_.end()) return found->second;
    Emitter emitter(key);
    const int result = key.emit(emitter);
    const Program program = std::move(emitter).Finish(result);
    const PointwiseProgram defined{
        device.DefineProgram(program), program.num_inputs(),
        program.num_float_scalars(), program.num_int_scalars()};
    programs_.emplace(key, defined);
    return defined;
  }

 private:
  std::mutex mutex_;
  uint64_t epoch_ = 0;
  std::unordered_map<PointwiseKey, PointwiseProgram, KeyHash> programs_;
};

ProgramTable& TableOf(const Device& device) {
  static ProgramTable* const tables = new ProgramTable[kDeviceLimit];
  return tables[device.index()];
}

// One launch: operands by address, numbers, and the program's key.
class PointwiseLaunch {
 public:
  PointwiseLaunch(Device& device, EmitFn emit, DType type) : device_(device) {
    key_.emit = emit;
    key_.type = type;
  }

  void AddParameter(const at::Scalar& value) {
    SetNumber(key_.num_parameters++, value);
  }
  void AddTensor(const void* address, DType dtype, const int64_t* sizes,
                 const int64_t* strides, int rank) {
    const Location location = device_.Locate(address);
    key_.dtypes[key_.num_operands++] = dtype;
    operands_[static_cast<size_t>(num_tensors_++)] =
        Operand{location.segment,
                location.offset_bytes,
                dtype,
                static_cast<uint8_t>(rank),
                sizes,
                strides};
  }
  void AddNumber(const at::Scalar& value) {
    SetNumber(key_.num_parameters + num_numbers_++, value);
    key_.host_mask |= static_cast<uint8_t>(1u << key_.num_operands);
    key_.dtypes[key_.num_operands++] = DType::kInvalid;
  }
  Operand& operand(int index) { return operands_[static_cast<size_t>(index)]; }

  void Prepare() {
    const PointwiseProgram program = FindProgram(device_, key_);
    params_.kernel = Kernel::kPointwise;
    params_.program = program.handle;
    params_.floats = floats_.data();
    params_.num_floats = program.num_floats;
    params_.ints = ints_.data();
    params_.num_ints = program.num_ints;
    params_.dst = operands_.data();
    params_.num_dst = 1;
    params_.src = operands_.data() + 1;
    params_.num_src = program.num_inputs;
  }
  void Run() { device_.Launch(params_); }

 private:
  void SetNumber(int index, const at::Scalar& value) {
    const auto i = static_cast<size_t>(index);
    if (IsFloating(key_.type)) {
      floats_[i] = value.toDouble();
    } else if (value.isFloatingPoint()) {
      ints_[i] = static_cast<int64_t>(value.toDouble());
    } else {
      ints_[i] = value.toLong();
    }
  }

  static constexpr size_t kMaxNumbers =
      kMaxPointwiseScalars + kMaxPointwiseOperands;
  Device& device_;
  PointwiseKey key_;
  int num_tensors_ = 0;
  int num_numbers_ = 0;
  std::array<Operand, kMaxPointwiseOperands> operands_;
  std::array<double, kMaxNumbers> floats_{};
  std::array<int64_t, kMaxNumbers> ints_{};
  LaunchParams params_;
};

at::Scalar HostValue(const at::TensorBase& tensor) {
  const void* data = tensor.const_data_ptr();
  const ScalarType type = tensor.scalar_type();
  if (c10::isFloatingType(type)) {
    return c10::fetch_and_cast<double>(type, data);
  }
  if (type == ScalarType::Bool) return c10::fetch_and_cast<bool>(type, data);
  return c10::fetch_and_cast<int64_t>(type, data);
}

bool IsHostNumber(const at::TensorBase& tensor) {
  return tensor.dim() == 0 && tensor.device().is_cpu();
}

// Runs a launch whose iteration space has more dimensions than an operand
// may: one launch for each index of the outermost ones.
struct Strided {
  char* address = nullptr;
  int64_t item = 1;
  std::array<int64_t, 64> strides;  // in elements, outermost first
};

class RankSplitter {
 public:
  RankSplitter(PointwiseLaunch& launch, Device& device,
               at::ArrayRef<int64_t> sizes, at::ArrayRef<Strided> tensors)
      : launch_(launch), device_(device), sizes_(sizes), tensors_(tensors) {}

  void Run(size_t dim, std::array<int64_t, kMaxPointwiseOperands> offsets) {
    if (sizes_.size() - dim <= static_cast<size_t>(kMaxRank)) {
      for (size_t t = 0; t < tensors_.size(); ++t) {
        const Location location =
            device_.Locate(tensors_[t].address + offsets[t]);
        Operand& operand = launch_.operand(static_cast<int>(t));
        operand.segment = location.segment;
        operand.offset_bytes = location.offset_bytes;
        operand.rank = static_cast<uint8_t>(sizes_.size() - dim);
        operand.sizes = sizes_.data() + dim;
        operand.strides = tensors_[t].strides.data() + dim;
      }
      launch_.Run();
      return;
    }
    for (int64_t i = 0; i < sizes_[dim]; ++i) {
      Run(dim + 1, offsets);
      for (size_t t = 0; t < tensors_.size(); ++t) {
        offsets[t] += tensors_[t].strides[dim] * tensors_[t].item;
      }
    }
  }

 private:
  PointwiseLaunch& launch_;
  Device& device_;
  at::ArrayRef<int64_t> sizes_;
  at::ArrayRef<Strided> tensors_;
};

}  // namespace

Emitter::Emitter(const PointwiseKey& key)
    : key_(key), math_(MathType(key.type)) {
  loaded_.fill(-1);
}

int Emitter::In(int index) {
  int& value = loaded_[static_cast<size_t>(index)];
  if (value >= 0) return value;
  const int operand = 1 + index;
  if (key_.host_mask >> operand & 1) {
    int number = key_.num_parameters;
    for (int i = 0; i < operand; ++i) number += key_.host_mask >> i & 1;
    value = builder_.Scalar(number, math_);
    return value;
  }
  const DType own = input_type(index);
  int tensor = 0;
  for (int i = 1; i < operand; ++i) tensor += 1 - (key_.host_mask >> i & 1);
  value = builder_.Load(tensor, own == key_.type ? math_ : key_.type);
  return value;
}

int Emitter::InRaw(int index) {
  const int operand = 1 + index;
  if (key_.host_mask >> operand & 1) return In(index);
  int tensor = 0;
  for (int i = 1; i < operand; ++i) tensor += 1 - (key_.host_mask >> i & 1);
  return builder_.Load(tensor, MathType(input_type(index)));
}

int Emitter::InRounded(int index) {
  const int value = In(index);
  const bool from_host = key_.host_mask >> (1 + index) & 1;
  return from_host && math_ != key_.type ? Cast(value, key_.type) : value;
}

int Emitter::Scalar(int index) { return builder_.Scalar(index, math_); }

int Emitter::Const(double value) { return builder_.Const(value, math_); }

int Emitter::Op(PointwiseOp op, int a, int b, int c) {
  if ((TypesOf(op) & (is_floating() ? kTypesF : kTypesI)) == 0) {
    ThrowNotImplementedFor(NameOf(op), scalar_type());
  }
  return builder_.Op(op, math_, a, b, c);
}

int Emitter::Test(PointwiseOp op, int a, int b) {
  return builder_.Op(op, DType::kBool, a, b);
}

Program Emitter::Finish(int result) && {
  const DType out = key_.dtypes[0];
  const DType made =
      builder_.program().nodes[static_cast<size_t>(result)].dtype;
  if (made != DType::kBool && IsNarrow(key_.type) && out != key_.type) {
    result = Cast(result, key_.type);
  }
  builder_.Store(result);
  return std::move(builder_).Build();
}

PointwiseProgram FindProgram(Device& device, const PointwiseKey& key) {
  // A direct-mapped cache of this thread keeps the lock out of the way.
  struct Slot {
    PointwiseKey key;
    uint64_t epoch = 0;
    const Device* device = nullptr;
    PointwiseProgram program;
  };
  static constexpr size_t kSlots = 256;
  thread_local std::array<Slot, kSlots> slots;
  Slot& slot = slots[KeyHash()(key) % kSlots];
  const uint64_t epoch = device.epoch();
  if (slot.device == &device && slot.epoch == epoch && slot.key == key) {
    return slot.program;
  }
  const PointwiseProgram program = TableOf(device).Find(device, key);
  slot = Slot{key, epoch, &device, program};
  return program;
}

namespace {

// The dtype that the iterator's inputs are promoted to, if it has one. Before
// 2.13 asking for it fails where there is none.
std::optional<ScalarType> CommonDtypeOf(const at::TensorIteratorBase& iter) {
#if TVARANT_TORCH_BEFORE(2, 13)
  struct Reader : at::TensorIteratorBase {
    static ScalarType Read(const at::TensorIteratorBase& iter) {
      return iter.*(&Reader::common_dtype_);
    }
  };
  const ScalarType type = Reader::Read(iter);
  if (type == ScalarType::Undefined) return std::nullopt;
  return type;
#else
  return iter.maybe_common_dtype();
#endif
}

}  // namespace

void RunPointwise(at::TensorIteratorBase& iter, EmitFn emit,
                  Parameters parameters, std::optional<ScalarType> type) {
  const ScalarType computing =
      type.value_or(CommonDtypeOf(iter).value_or(iter.input_dtype()));
  CheckHasKernels(NameOf(Kernel::kPointwise), computing);
  if (iter.numel() == 0) return;
  Device& device = Device::Get(iter.tensor_base(0).device().index());
  PointwiseLaunch launch(device, emit, ToDType(computing));
  for (const at::Scalar& parameter : parameters) {
    launch.AddParameter(parameter);
  }

  // The iterator's innermost dimension comes first; ours comes last.
  const auto rank = static_cast<size_t>(iter.ndim());
  std::array<int64_t, 64> sizes;
  for (size_t d = 0; d < rank; ++d) sizes[d] = iter.shape()[rank - 1 - d];
  std::array<Strided, kMaxPointwiseOperands> tensors;
  size_t num_tensors = 0;
  for (int i = 0; i < iter.ntensors(); ++i) {
    const at::TensorBase& tensor = iter.tensor_base(i);
    if (i > 0 && IsHostNumber(tensor)) {
      launch.AddNumber(HostValue(tensor));
      continue;
    }
    Strided& strided = tensors[num_tensors++];
    strided.address = static_cast<char*>(iter.data_ptr(i));
    strided.item = static_cast<int64_t>(tensor.element_size());
    const IntArrayRef bytes = iter.strides(i);
    for (size_t d = 0; d < rank; ++d) {
      strided.strides[d] = bytes[rank - 1 - d] / strided.item;
    }
    launch.AddTensor(strided.address, ToDType(tensor.scalar_type()),
                     sizes.data(), strided.strides.data(),
                     static_cast<int>(std::min<size_t>(rank, kMaxRank)));
  }
  launch.Prepare();
  if (rank <= static_cast<size_t>(kMaxRank)) {
    launch.Run();
  } else {
    RankSplitter(launch, device, {sizes.data(), rank},
                 {tensors.data(), num_tensors})
        .Run(0, {});
  }
}

// --- Fast paths ----------------------------------------------------------

namespace {

bool IsPlain(const Tensor& tensor) {
  return OnDevice(tensor) && tensor.is_contiguous() &&
         HasKernels(tensor.scalar_type()) &&
         tensor.scalar_type() != ScalarType::Bool &&
         tensor.layout() == c10::kStrided;
}

// A number whose type doesn't change the result's.
bool IsPlainNumber(const Tensor& number, ScalarType with) {
  if (!number.unsafeGetTensorImpl()->is_wrapped_number() ||
      !IsHostNumber(number)) {
    return false;
  }
  const ScalarType type = number.scalar_type();
  return c10::isFloatingType(with)
             ? !c10::isComplexType(type)
             : c10::isIntegralType(type, /*includeBool=*/true);
}

// Writing to `out` while `in` is read is safe: the same elements, or others.
bool IsSafeAlias(const Tensor& out, const Tensor& in) {
  return !out.is_alias_of(in) || out.unsafeGetTensorImpl()->storage_offset() ==
                                     in.unsafeGetTensorImpl()->storage_offset();
}

bool IsPlainOut(const Tensor& out, const Tensor& like) {
  return IsPlain(out) && out.scalar_type() == like.scalar_type() &&
         out.device() == like.device() && out.sizes() == like.sizes();
}

void AddFlat(PointwiseLaunch& launch, const Tensor& tensor, DType dtype,
             const int64_t* numel) {
  static constexpr int64_t kUnitStride = 1;
  launch.AddTensor(tensor.const_data_ptr(), dtype, numel, &kUnitStride, 1);
}

void LaunchFlat(EmitFn emit, const Tensor& out, const Tensor& a,
                const Tensor* b) {
  const int64_t numel = out.numel();
  if (numel == 0) return;
  const DType dtype = ToDType(out.scalar_type());
  PointwiseLaunch launch(Device::Get(out.device().index()), emit, dtype);
  AddFlat(launch, out, dtype, &numel);
  AddFlat(launch, a, dtype, &numel);
  if (b != nullptr) {
    if (OnDevice(*b)) {
      AddFlat(launch, *b, dtype, &numel);
    } else {
      launch.AddNumber(HostValue(*b));
    }
  }
  launch.Prepare();
  launch.Run();
}

bool IsPlainPair(const Tensor& self, const Tensor& other) {
  if (!IsPlain(self)) return false;
  if (IsPlainNumber(other, self.scalar_type())) return true;
  return IsPlainOut(other, self);
}

}  // namespace

Tensor FastUnary(EmitFn emit, const Tensor& self) {
  if (!IsPlain(self)) return {};
  Tensor out = EmptyLikeOf(self, self.sizes());
  LaunchFlat(emit, out, self, nullptr);
  return out;
}

bool FastUnaryInto(EmitFn emit, const Tensor& self, const Tensor& out) {
  if (!IsPlain(self) || !IsPlainOut(out, self) || !IsSafeAlias(out, self)) {
    return false;
  }
  LaunchFlat(emit, out, self, nullptr);
  return true;
}

Tensor FastBinary(EmitFn emit, const Tensor& self, const Tensor& other) {
  if (!IsPlainPair(self, other)) return {};
  Tensor out = EmptyLikeOf(self, self.sizes());
  LaunchFlat(emit, out, self, &other);
  return out;
}

bool FastBinaryInto(EmitFn emit, const Tensor& self, const Tensor& other,
                    const Tensor& out) {
  if (!IsPlainPair(self, other) || !IsPlainOut(out, self) ||
      !IsSafeAlias(out, self) ||
      (OnDevice(other) && !IsSafeAlias(out, other))) {
    return false;
  }
  LaunchFlat(emit, out, self, &other);
  return true;
}

}  // namespace tvarant::torch_plugin

// _copy_from: what copy_, to, cpu, clone and contiguous come down to.
//
// To the host: wait for the stream, then copy. Where memory is mapped the copy
// is PyTorch's own on the mapped bytes; else the bytes of a dense tensor come
// down as they are, of a strided one after the device has gathered them.
//
// To the device: where memory is mapped and no queued work can touch it, the
// same in reverse, with no message at all; else the bytes go up in stream
// order, so that nothing waits for the device.

#include "torch_plugin/aten/copy_ops.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <atomic>

#include "torch_plugin/aten/host_alias.h"
#include "torch_plugin/aten/launch.h"
#include "torch_plugin/runtime/allocator.h"
#include "torch_plugin/runtime/device_impl.h"

namespace tvarant::torch_plugin {
namespace {

std::atomic<uint64_t> g_bytes_between_devices{0};

bool IsOurs(const at::Tensor& tensor) { return tensor.is_privateuseone(); }

bool IsDense(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense();
}

bool HasBits(const at::Tensor& tensor) {
  return tensor.is_conj() || tensor.is_neg();
}

// The Copy kernel converts between these.
bool Converts(c10::ScalarType type) {
  const DType dtype = ToDType(type);
  return IsIntegral(dtype) || IsFloating(dtype) || IsComplex(dtype);
}

// A type of the wire with elements of the same size, for types that the device
// only moves.
DType BitsType(const at::Tensor& tensor) {
  const DType dtype = ToDType(tensor.scalar_type());
  if (dtype != DType::kInvalid) return dtype;
  switch (tensor.itemsize()) {
    case 1:
      return DType::kUInt8;
    case 2:
      return DType::kUInt16;
    case 4:
      return DType::kUInt32;
    case 8:
      return DType::kUInt64;
    case 16:
      return DType::kComplex128;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "\"copy\" not implemented for '",
                                  c10::toString(tensor.scalar_type()), "'");
  }
}

bool CanConvertOnDevice(const at::Tensor& src, const at::Tensor& dst) {
  if (src.scalar_type() == dst.scalar_type()) {
    // Bits that must be resolved need arithmetic.
    return Converts(src.scalar_type()) || (!HasBits(src) && !HasBits(dst));
  }
  return Converts(src.scalar_type()) && Converts(dst.scalar_type());
}

at::Tensor EmptyHost(at::IntArrayRef sizes, at::IntArrayRef strides,
                     c10::ScalarType type) {
  return at::detail::empty_strided_cpu(sizes, strides, type);
}

at::Tensor EmptyHost(at::IntArrayRef sizes, c10::ScalarType type) {
  return at::detail::empty_cpu(sizes, type);
}

at::Tensor EmptyDevice(at::IntArrayRef sizes, at::IntArrayRef strides,
                       c10::ScalarType type, c10::Device device) {
  const c10::DeviceIndex previous = ExchangeDevice(device.index());
  at::Tensor made = at::detail::empty_strided_generic(
      sizes, strides, &DeviceAllocator::Get(),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type);
  ExchangeDevice(previous);
  return made;
}

at::Tensor EmptyDevice(at::IntArrayRef sizes, c10::ScalarType type,
                       c10::Device device) {
  const c10::DeviceIndex previous = ExchangeDevice(device.index());
  at::Tensor made = at::detail::empty_generic(
      sizes, &DeviceAllocator::Get(),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type, std::nullopt);
  ExchangeDevice(previous);
  return made;
}

// PyTorch's CPU copy, conversion and broadcasting included.
void CopyOnHost(const at::Tensor& src, const at::Tensor& dst) {
  // Nothing of the copy inside a copy is for autograd to see.
  at::AutoDispatchBelowADInplaceOrView guard;
  if (src.scalar_type() == dst.scalar_type() ||
      (!src.is_neg() && !dst.is_neg())) {
    dst.copy_(src);
    return;
  }
  // PyTorch's fast conversions between float and half overlook the bit.
  const at::Tensor value = src.resolve_neg();
  if (dst.is_neg()) {
    dst._neg_view().copy_(value.neg());
  } else {
    dst.copy_(value);
  }
}

// True if the host may write the tensor's mapped bytes now.
bool IsIdle(DeviceImpl& device, const at::Tensor& tensor) {
  const Block* block = DeviceAllocator::BlockOf(tensor.storage().data_ptr());
  return block != nullptr &&
         device.allocator().IsIdle(
             *block, static_cast<int>(CurrentStreamId(device.index())));
}

// Raw bytes of a dense host tensor -> a device tensor with the same strides.
void UploadDense(DeviceImpl& device, const at::Tensor& src,
                 const at::Tensor& dst, bool non_blocking) {
  const c10::StreamId stream = CurrentStreamId(device.index());
  const uint64_t bytes = src.numel() * src.itemsize();
  if (non_blocking) {
    device.Upload(stream, dst.mutable_data_ptr(), src.const_data_ptr(), bytes);
  } else {
    device.UploadWaiting(stream, dst.mutable_data_ptr(), src.const_data_ptr(),
                         bytes);
  }
}

void CopyToDevice(const at::Tensor& src, const at::Tensor& dst,
                  bool non_blocking) {
  DeviceImpl& device = DeviceImpl::Get(dst.device().index());
  device.Locate(dst.const_data_ptr());  // raises for memory that was lost
  if (device.is_mapped() && IsIdle(device, dst)) {
    const HostCopyScope scope(device, "Memcpy HtoD",
                              dst.numel() * dst.itemsize());
    CopyOnHost(src, HostAlias(dst));
    return;
  }
  // Convert on the side where fewer bytes travel.
  const bool convert_later = src.itemsize() < dst.itemsize() &&
                             CanConvertOnDevice(src, dst) &&
                             Converts(src.scalar_type()) && !HasBits(src);
  const c10::ScalarType sent =
      convert_later ? src.scalar_type() : dst.scalar_type();
  const bool is_same_shape = src.sizes() == dst.sizes();
  if (is_same_shape && sent == dst.scalar_type() && IsDense(dst)) {
    // Straight into place, in dst's own order of elements.
    const bool as_it_is = src.scalar_type() == sent && !HasBits(src) &&
                          !HasBits(dst) && src.strides() == dst.strides();
    at::Tensor bytes = src;
    if (!as_it_is) {
      bytes = EmptyHost(dst.sizes(), dst.strides(), sent);
      if (dst.is_conj()) bytes.unsafeGetTensorImpl()->_set_conj(true);
      if (dst.is_neg()) bytes.unsafeGetTensorImpl()->_set_neg(true);
      CopyOnHost(src, bytes);
    }
    UploadDense(device, bytes, dst, non_blocking);
    return;
  }
  at::Tensor bytes = src;
  if (src.scalar_type() != sent || HasBits(src) || !IsDense(src)) {
    bytes = EmptyHost(src.sizes(), sent);
    CopyOnHost(src, bytes);
  }
  at::Tensor staged =
      EmptyDevice(bytes.sizes(), bytes.strides(), sent, dst.device());
  UploadDense(device, bytes, staged, non_blocking);
  CopyOnDevice(is_same_shape ? staged : staged.expand(dst.sizes()), dst);
}

void CopyToHost(const at::Tensor& src, const at::Tensor& dst) {
  DeviceImpl& device = DeviceImpl::Get(src.device().index());
  const c10::StreamId stream = CurrentStreamId(device.index());
  device.Locate(src.const_data_ptr());  // raises for memory that was lost
  if (device.is_mapped()) {
    device.Wait(stream);
    const HostCopyScope scope(device, "Memcpy DtoH",
                              src.numel() * src.itemsize());
    CopyOnHost(HostAlias(src), dst);
    return;
  }
  if (!IsDense(src)) {
    at::Tensor gathered =
        EmptyDevice(src.sizes(), src.scalar_type(), src.device());
    if (src.is_conj()) gathered.unsafeGetTensorImpl()->_set_conj(true);
    if (src.is_neg()) gathered.unsafeGetTensorImpl()->_set_neg(true);
    CopyOnDevice(src, gathered);
    CopyToHost(gathered, dst);
    return;
  }
  const uint64_t bytes = src.numel() * src.itemsize();
  const bool in_place =
      src.scalar_type() == dst.scalar_type() && src.sizes() == dst.sizes() &&
      src.strides() == dst.strides() && !HasBits(src) && !HasBits(dst);
  if (in_place) {
    device.Download(stream, src.const_data_ptr(), dst.mutable_data_ptr(),
                    bytes);
    return;
  }
  at::Tensor fetched = EmptyHost(src.sizes(), src.strides(), src.scalar_type());
  if (src.is_conj()) fetched.unsafeGetTensorImpl()->_set_conj(true);
  if (src.is_neg()) fetched.unsafeGetTensorImpl()->_set_neg(true);
  device.Download(stream, src.const_data_ptr(), fetched.mutable_data_ptr(),
                  bytes);
  CopyOnHost(fetched, dst);
}

at::Tensor CopyFrom(const at::Tensor& src, const at::Tensor& dst,
                    bool non_blocking) {
  CopyTensor(src, dst, non_blocking);
  return dst;
}

at::Tensor CopyFromAndResize(const at::Tensor& src, const at::Tensor& dst) {
  if (src.sizes() != dst.sizes()) dst.resize_(src.sizes());
  CopyTensor(src, dst);
  return dst;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", CopyFrom);
  m.impl("_copy_from_and_resize", CopyFromAndResize);
}

// copy_ hands tensors over with their bits set, and CopyTensor resolves them.
// Without these, resolving would copy, which would resolve, without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

}  // namespace

void CopyOnDevice(const at::Tensor& src, const at::Tensor& dst,
                  bool conjugate) {
  at::assert_no_internal_overlap(dst);
  at::assert_no_partial_overlap(dst, src);
  if (dst.numel() == 0) return;
  if (dst.dim() > kMaxRank) {
    for (int64_t i = 0; i < dst.size(0); ++i) {
      CopyOnDevice(src.select(0, i), dst.select(0, i), conjugate);
    }
    return;
  }
  LaunchBuilder launch(Kernel::kCopy, dst.device());
  const bool same_type = src.scalar_type() == dst.scalar_type();
  const DType src_type = same_type ? BitsType(src) : ToDType(src.scalar_type());
  const DType dst_type = same_type ? BitsType(dst) : ToDType(dst.scalar_type());
  launch.DstRaw(dst.mutable_data_ptr(), dst_type, dst.sizes(), dst.strides());
  launch.SrcRaw(src.const_data_ptr(), src_type, src.sizes(), src.strides());
  if ((src.is_conj() != dst.is_conj()) != conjugate) {
    launch.params().flags |= kConjugate;
  }
  if (src.is_neg() != dst.is_neg()) launch.params().flags |= kNegate;
  launch.Run();
}

void CopyTensor(const at::Tensor& given, const at::Tensor& dst,
                bool non_blocking) {
  TORCH_CHECK(given.layout() == at::kStrided && dst.layout() == at::kStrided,
              "tvarant: copies take strided tensors, got ", given.layout(),
              " and ", dst.layout());
  // For the error of shapes that don't fit, too.
  const at::Tensor src = given.sizes() == dst.sizes()
                             ? given
                             : given.expand(dst.sizes(), /*implicit=*/true);
  if (dst.numel() == 0 || given.is_same(dst)) return;
  if (IsOurs(src) && IsOurs(dst)) {
    if (src.device() != dst.device()) {
      // The two daemons know nothing of each other.
      at::assert_no_internal_overlap(dst);
      g_bytes_between_devices += given.numel() * given.itemsize();
      CopyToDevice(ToHost(given), dst, /*non_blocking=*/false);
      return;
    }
    if (CanConvertOnDevice(src, dst)) {
      CopyOnDevice(src, dst);
    } else {
      CopyToDevice(ToHost(src), dst, non_blocking);
    }
    return;
  }
  if (IsOurs(dst)) {
    at::assert_no_internal_overlap(dst);
    // Only what is there travels; the device broadcasts.
    CopyToDevice(given.is_cpu() ? given : given.cpu(), dst, non_blocking);
    return;
  }
  if (dst.is_cpu()) {
    if (given.sizes() != dst.sizes()) {
      CopyOnHost(ToHost(given), dst);
    } else {
      CopyToHost(src, dst);
    }
    return;
  }
  dst.copy_(ToHost(src));
}

uint64_t BytesCopiedBetweenDevices() { return g_bytes_between_devices; }

at::Tensor ToDevice(const at::Tensor& host, c10::Device device) {
  at::Tensor made = IsDense(host)
                        ? EmptyDevice(host.sizes(), host.strides(),
                                      host.scalar_type(), device)
                        : EmptyDevice(host.sizes(), host.scalar_type(), device);
  CopyTensor(host, made);
  return made;
}

at::Tensor ToHost(const at::Tensor& tensor) {
  at::Tensor made =
      IsDense(tensor)
          ? EmptyHost(tensor.sizes(), tensor.strides(), tensor.scalar_type())
          : EmptyHost(tensor.sizes(), tensor.scalar_type());
  if (tensor.numel() != 0) CopyToHost(tensor, made);
  return made;
}

}  // namespace tvarant::torch_plugin

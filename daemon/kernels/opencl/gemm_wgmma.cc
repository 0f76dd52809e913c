// gemm_bias_act on the tensor cores of NVIDIA's Hopper, in float16 and
// bfloat16.
//
// NVIDIA's OpenCL compiles for sm_90 and refuses wgmma, which needs sm_90a.
// So gemm_wgmma.cl holds these instructions as comments; the driver's program
// binary is PTX text, where they are uncovered and the target renamed. The
// tensor maps that gemm_wgmma.cl writes have an undocumented layout. Neither is
// relied upon before a small product has come out right on this device.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "daemon/jit/cl_handle.h"
#include "daemon/jit/cl_status.h"
#include "daemon/kernels/opencl/gemm_problem.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/logging.h"
#include "proto/base/mutex.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

// Of gemm_wgmma.cl.
constexpr int64_t kBlockM = 128;
constexpr int64_t kBlockK = 64;
constexpr uint32_t kItems = 384;
constexpr uint64_t kMapBytesPerGroup = 8 * 256;

constexpr int kMapSlot = 1;  // of the stream's scratch
constexpr cl_device_info kComputeCapabilityMajor = 0x4000;  // cl_nv_...
constexpr double kMinProducts = 1 << 21;
constexpr int64_t kMinSplit = 512;
constexpr int64_t kMaxExtent = 1 << 30;

absl::StatusOr<std::string> UncoverWgmma(std::string ptx) {
  constexpr absl::string_view kTarget = ".target sm_90,";
  if (!absl::StrContains(ptx, kTarget) || !absl::StrContains(ptx, "//@@ ")) {
    return absl::UnimplementedError(
        "the driver's binary is not PTX text for sm_90");
  }
  return absl::StrReplaceAll(ptx,
                             {{kTarget, ".target sm_90a,"}, {"//@@ ", ""}});
}

const BinaryPatch& Patch() {
  static const auto* const patch = new BinaryPatch{"wgmma 1", UncoverWgmma};
  return *patch;
}

struct Variant {
  bool bf16 = false;
  bool a_along_k = false, b_along_k = false;
  int64_t block_n = 256;
};

std::string VariantOptions(const Variant& v) {
  return absl::StrCat(
      " -DBLOCK_N=", v.block_n, " -DSTAGES=", v.block_n == 256 ? 4 : 6,
      " -DA_ALONG_K=", v.a_along_k ? 1 : 0,
      " -DB_ALONG_K=", v.b_along_k ? 1 : 0, " -DIS_BF16=", v.bf16 ? 1 : 0);
}

std::string OutputOptions(DType c, bool pairs) {
  return absl::StrCat(" -DPAIRS=", pairs ? 1 : 0, " -DTC_BYTES=", SizeOf(c),
                      " -DTC_IS_BF16=", c == DType::kBFloat16 ? 1 : 0);
}

absl::StatusOr<cl_kernel> GetKernel(KernelContext& context,
                                    const std::string& options) {
  static const std::string* const text =
      new std::string(WithGemmCommon(kGemmWgmmaCl));
  return context.GetKernel({kGemmWgmmaCl.name, text->c_str()}, "gemm_wgmma",
                           options, &Patch());
}

template <typename T>
T QueueInfo(cl_command_queue queue, cl_command_queue_info what) {
  T value{};
  clGetCommandQueueInfo(queue, what, sizeof(value), &value, nullptr);
  return value;
}

// The self-test: a product whose sums are whole numbers, with edges in every
// dimension, more tiles than groups, and NaN around the operands.
struct TestMatrix {
  int64_t rows, columns;  // columns are neighbours
  int64_t row_stride, batch_stride;
  std::vector<int> values;  // -2 to 2, dense
  std::vector<uint16_t> bits;

  TestMatrix(int64_t r, int64_t c, int64_t batch, bool bf16, uint32_t seed)
      : rows(r), columns(c), row_stride((c + 7) / 8 * 8 + 8) {
    batch_stride = row_stride * rows;
    const uint16_t one = bf16 ? 0x3F80 : 0x3C00;
    const uint16_t kBits[] = {0xC000, static_cast<uint16_t>(one | 0x8000), 0,
                              one, 0x4000};
    bits.assign(static_cast<size_t>(batch_stride * batch), 0x7FFF);  // NaN
    values.resize(static_cast<size_t>(rows * columns * batch));
    for (size_t i = 0; i < values.size(); ++i) {
      seed = seed * 1664525 + 1013904223;
      values[i] = static_cast<int>((seed >> 16) % 5) - 2;
      const int64_t row = static_cast<int64_t>(i) / columns;
      bits[static_cast<size_t>(row * row_stride +
                               static_cast<int64_t>(i) % columns)] =
          kBits[values[i] + 2];
    }
  }
};

absl::StatusOr<bool> SelfTest(KernelContext& context, const Variant& v) {
  GemmProblem p;
  p.a.dtype = p.b.dtype = v.bf16 ? DType::kBFloat16 : DType::kFloat16;
  p.c.dtype = DType::kFloat32;
  GemmArguments& g = p.args;
  g.batch = 2;
  g.m = 200;
  g.n = 328;
  g.k = 456;
  g.tiles_m = (g.m + kBlockM - 1) / kBlockM;
  g.tiles_n = (g.n + v.block_n - 1) / v.block_n;
  g.split_k = g.k;
  const TestMatrix a(v.a_along_k ? g.m : g.k, v.a_along_k ? g.k : g.m, g.batch,
                     v.bf16, 1);
  const TestMatrix b(v.b_along_k ? g.n : g.k, v.b_along_k ? g.k : g.n, g.batch,
                     v.bf16, 2);
  g.a_row = v.a_along_k ? a.row_stride : 1;
  g.a_k = v.a_along_k ? 1 : a.row_stride;
  g.b_col = v.b_along_k ? b.row_stride : 1;
  g.b_k = v.b_along_k ? 1 : b.row_stride;
  g.a_batch = a.batch_stride;
  g.b_batch = b.batch_stride;
  g.c_row = g.n;
  g.c_col = 1;
  g.c_batch = g.m * g.n;
  std::vector<float> c(static_cast<size_t>(g.batch * g.c_batch), -1e9F);

  const auto cl = QueueInfo<cl_context>(context.queue(), CL_QUEUE_CONTEXT);
  cl_int error = CL_SUCCESS;
  const auto upload = [&](const void* data, size_t bytes) {
    cl_int mine = CL_SUCCESS;
    ClHandle<cl_mem> memory(
        clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes,
                       const_cast<void*>(data), &mine));
    if (mine != CL_SUCCESS) error = mine;
    return memory;
  };
  const auto a_memory = upload(a.bits.data(), a.bits.size() * 2);
  const auto b_memory = upload(b.bits.data(), b.bits.size() * 2);
  const auto c_memory = upload(c.data(), c.size() * 4);
  RETURN_IF_ERROR(ClStatus(error, "clCreateBuffer"));
  constexpr int64_t kGroups = 3;
  ASSIGN_OR_RETURN(const cl_mem maps,
                   context.Scratch(kGroups * kMapBytesPerGroup, kMapSlot));
  KernelCall call(
      context,
      GetKernel(context, absl::StrCat(GemmOptions(p), VariantOptions(v),
                                      OutputOptions(p.c.dtype, true))));
  call.Memory(c_memory.get()).Long(0).Memory(a_memory.get()).Long(0);
  call.Memory(b_memory.get()).Long(0).Memory(nullptr).Long(0).Memory(nullptr);
  call.Struct(g).Float(1).Float(0).Memory(maps);
  RETURN_IF_ERROR(call.RunGroups(kGroups, kItems));
  RETURN_IF_CL_ERROR(clEnqueueReadBuffer(context.queue(), c_memory.get(),
                                         CL_TRUE, 0, c.size() * 4, c.data(), 0,
                                         nullptr, nullptr));
  for (int64_t i = 0; i < g.batch * g.c_batch; ++i) {
    const int64_t item = i / g.c_batch;
    const int64_t row = i / g.n % g.m, col = i % g.n;
    const int* x =
        a.values.data() + item * g.m * g.k + (v.a_along_k ? row * g.k : row);
    const int* y =
        b.values.data() + item * g.n * g.k + (v.b_along_k ? col * g.k : col);
    const int64_t x_step = v.a_along_k ? 1 : g.m;
    const int64_t y_step = v.b_along_k ? 1 : g.n;
    int sum = 0;
    for (int64_t k = 0; k < g.k; ++k) sum += x[k * x_step] * y[k * y_step];
    if (c[static_cast<size_t>(i)] != static_cast<float>(sum)) {
      spdlog::warn(
          "event=gemm_self_test_differs item={} row={} column={} got={} "
          "want={}",
          item, row, col, c[static_cast<size_t>(i)], sum);
      return false;
    }
  }
  return true;
}

// Whether a variant works on this device; found out once.
bool Works(KernelContext& context, const Variant& v) {
  static base::Mutex mutex;
  static auto* const known = new absl::flat_hash_map<std::string, bool>;
  const auto device = QueueInfo<cl_device_id>(context.queue(), CL_QUEUE_DEVICE);
  const std::string key =
      absl::StrCat(reinterpret_cast<uintptr_t>(device), VariantOptions(v));
  {
    base::MutexLock lock(mutex);
    const auto found = known->find(key);
    if (found != known->end()) return found->second;
  }
  bool works = false;
  cl_uint major = 0;
  clGetDeviceInfo(device, kComputeCapabilityMajor, sizeof(major), &major,
                  nullptr);
  if (major == 9) {
    const absl::StatusOr<bool> tested = SelfTest(context, v);
    works = tested.ok() && *tested;
    if (!works) {
      spdlog::warn("event=gemm_tensor_cores_off variant={} error={}",
                   base::LogValue(VariantOptions(v)),
                   base::LogValue(std::string(tested.status().message())));
    }
  }
  base::MutexLock lock(mutex);
  known->emplace(key, works);
  return works;
}

// The copy engine wants 16-byte alignment of the start and of each row.
bool CopyEngineTakes(const ResolvedOperand& x, int64_t row_stride,
                     int64_t batch_stride) {
  return x.offset_bytes % 16 == 0 && row_stride > 0 && row_stride % 8 == 0 &&
         row_stride < kMaxExtent && batch_stride % 8 == 0;
}

bool Takes(const GemmProblem& p) {
  const GemmArguments& g = p.args;
  const DType in = p.a.dtype;
  const bool a_along_k = g.a_k == 1, b_along_k = g.b_k == 1;
  return (in == DType::kFloat16 || in == DType::kBFloat16) && p.b.dtype == in &&
         g.k > 0 && g.m < kMaxExtent && g.n < kMaxExtent && g.k < kMaxExtent &&
         Products(g) >= kMinProducts && (a_along_k || g.a_row == 1) &&
         (b_along_k || g.b_col == 1) &&
         CopyEngineTakes(p.a, a_along_k ? g.a_row : g.a_k, g.a_batch) &&
         CopyEngineTakes(p.b, b_along_k ? g.b_col : g.b_k, g.b_batch);
}

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t Tiles(const GemmArguments& g, int64_t block_n) {
  return CeilDiv(g.m, kBlockM) * CeilDiv(g.n, block_n) * g.batch;
}

// A tile of 128 columns takes a bit more than half the time of one of 256.
int64_t ChooseBlockN(const GemmArguments& g, int64_t units) {
  const double wide = static_cast<double>(CeilDiv(Tiles(g, 256), units));
  const double narrow =
      0.56 * static_cast<double>(CeilDiv(Tiles(g, 128), units));
  return wide <= narrow ? 256 : 128;
}

}  // namespace

absl::Status RunGemmWgmma(KernelContext& context, GemmProblem p) {
  if (!context.traits().is_nvidia || !Takes(p)) {
    return absl::UnimplementedError("not for the tensor cores");
  }
  GemmArguments& g = p.args;
  const int64_t units = context.traits().compute_units;
  const Variant variant{p.a.dtype == DType::kBFloat16, g.a_k == 1, g.b_k == 1,
                        ChooseBlockN(g, units)};
  if (!Works(context, variant)) {
    return absl::UnimplementedError("no tensor cores");
  }
  const int64_t tiles = Tiles(g, variant.block_n);
  g.tiles_m = CeilDiv(g.m, kBlockM);
  g.tiles_n = CeilDiv(g.n, variant.block_n);
  // Two parts would not make up for the second launch.
  const int64_t splits = std::min(units / tiles, g.k / kMinSplit);
  SplitK(splits > 2 ? splits : 1, kBlockK, &g);
  const uint64_t pair_bytes = 2 * SizeOf(p.c.dtype);
  const bool pairs = g.c_col == 1 && g.n % 2 == 0 && g.c_row % 2 == 0 &&
                     g.c_batch % 2 == 0 && p.c.offset_bytes % pair_bytes == 0;
  const absl::StatusOr<cl_kernel> kernel =
      GetKernel(context, absl::StrCat(GemmOptions(p), VariantOptions(variant),
                                      OutputOptions(p.c.dtype, pairs)));
  if (!kernel.ok()) {
    return absl::UnimplementedError(kernel.status().message());
  }
  const int64_t groups = std::min(tiles * g.splits, units);
  ASSIGN_OR_RETURN(const cl_mem partial, PartialSums(context, p));
  ASSIGN_OR_RETURN(
      const cl_mem maps,
      context.Scratch(static_cast<uint64_t>(groups) * kMapBytesPerGroup,
                      kMapSlot));
  KernelCall call(context, kernel);
  AddGemmArguments(p, partial, &call);
  call.Memory(maps);
  RETURN_IF_ERROR(call.RunGroups(groups, kItems));
  return AddPartialSums(context, p, partial);
}

}  // namespace tvarant::opencl

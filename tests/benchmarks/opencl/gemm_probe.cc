// Rates of gemm_bias_act on the OpenCL device, without daemon and client, each
// product checked at random entries against double sums.
//
//   gemm_probe            the sizes of issue 5, on a GPU
//   gemm_probe --small    a few hundred rows: that it runs
//   gemm_probe float32    of these, a dtype or a part of the name
//
// One line each: name, dtype, m, n, k, microseconds, TFLOP/s, GB/s of what must
// be read and written, entries that are wrong. Beside it, torch_gemm.py prints
// the same of torch. Exits 1 if any entry is wrong.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/runtime/opencl/opencl_runtime.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

struct Case {
  const char* name;
  DType dtype;
  int64_t m, n, k;
  bool a_turned = false;  // a's rows are neighbours
  bool b_turned = false;  // b's k are neighbours, as in nn.Linear
  Act act = Act::kNone;
  bool bias = false;
};

float FromBits(DType dtype, uint16_t bits) {
  if (dtype == DType::kBFloat16) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof(value));
    return value;
  }
  const int exponent = bits >> 10 & 31;
  const float mantissa = static_cast<float>(bits & 1023);
  const float size = exponent == 0 ? std::ldexp(mantissa, -24)
                                   : std::ldexp(mantissa + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

// Host data of one operand: random numbers in about [-1, 1], with few bits, so
// that any dtype holds them.
std::vector<char> RandomData(DType dtype, int64_t count, uint32_t seed) {
  std::vector<char> bytes(static_cast<size_t>(count) * SizeOf(dtype));
  std::mt19937 random(seed);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t x = random();
    if (dtype == DType::kFloat32) {
      const float value = static_cast<float>(x >> 8) / (1 << 23) - 1;
      std::memcpy(bytes.data() + i * 4, &value, 4);
    } else {
      // A sign, an exponent below that of 1, all of the mantissa.
      const bool bf16 = dtype == DType::kBFloat16;
      const uint16_t bits = static_cast<uint16_t>(
          (x & 1) << 15 | (bf16 ? (124 + (x >> 1) % 3) << 7 | (x >> 8 & 127)
                                : (12 + (x >> 1) % 3) << 10 | (x >> 8 & 1023)));
      std::memcpy(bytes.data() + i * 2, &bits, 2);
    }
  }
  return bytes;
}

double Get(const std::vector<char>& bytes, DType dtype, int64_t i) {
  if (dtype == DType::kFloat32) {
    float value;
    std::memcpy(&value, bytes.data() + i * 4, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, bytes.data() + i * 2, 2);
  return FromBits(dtype, bits);
}

absl::Status Wait(DeviceStream& stream) {
  std::promise<absl::Status> done;
  stream.WhenDone([&](absl::Status status) { done.set_value(status); });
  return done.get_future().get();
}

double Activated(Act act, double x) {
  switch (act) {
    case Act::kRelu:
      return std::max(x, 0.0);
    case Act::kGelu:
      return x / 2 * std::erfc(-x / std::sqrt(2.0));
    default:
      return x;
  }
}

struct Operand {
  std::vector<char> bytes;
  std::unique_ptr<DeviceBuffer> buffer;
  int64_t sizes[3], strides[3];
  DType dtype;

  ResolvedOperand resolved() const {
    return {.buffer = buffer.get(),
            .offset_bytes = 0,
            .dtype = dtype,
            .rank = 3,
            .sizes = sizes,
            .strides = strides};
  }
};

absl::StatusOr<Operand> MakeOperand(TvarantRuntime& runtime,
                                    DeviceStream& stream, DType dtype,
                                    int64_t rows, int64_t columns, bool turned,
                                    uint32_t seed) {
  Operand x{
      .bytes = RandomData(dtype, rows * columns, seed),
      .buffer = nullptr,
      .sizes = {1, rows, columns},
      .strides = {rows * columns, turned ? 1 : columns, turned ? rows : 1},
      .dtype = dtype};
  ASSIGN_OR_RETURN(x.buffer, runtime.CreateBuffer(0, x.bytes.size()));
  RETURN_IF_ERROR(stream.Write(*x.buffer, 0, x.bytes));
  RETURN_IF_ERROR(Wait(stream));
  return x;
}

absl::StatusOr<int> Run(TvarantRuntime& runtime, DeviceStream& stream,
                        const Case& c, double seconds) {
  ASSIGN_OR_RETURN(Operand a, MakeOperand(runtime, stream, c.dtype, c.m, c.k,
                                          c.a_turned, 1));
  ASSIGN_OR_RETURN(Operand b, MakeOperand(runtime, stream, c.dtype, c.k, c.n,
                                          c.b_turned, 2));
  ASSIGN_OR_RETURN(Operand y,
                   MakeOperand(runtime, stream, c.dtype, c.m, c.n, false, 3));
  ASSIGN_OR_RETURN(Operand bias,
                   MakeOperand(runtime, stream, c.dtype, 1, c.n, false, 4));
  bias.sizes[1] = c.m;
  bias.strides[0] = bias.strides[1] = 0;
  const ResolvedOperand dst[] = {y.resolved()};
  const ResolvedOperand src[] = {a.resolved(), b.resolved(), bias.resolved()};
  ResolvedLaunch launch;
  launch.kernel = Kernel::kGemm;
  launch.act = c.act;
  launch.m = c.m;
  launch.n = c.n;
  launch.k = c.k;
  launch.batch = 1;
  launch.beta = c.bias ? 1 : 0;
  launch.dst = dst;
  launch.src = absl::MakeConstSpan(src, c.bias ? 3 : 2);
  for (int i = 0; i < 3; ++i) RETURN_IF_ERROR(stream.Launch(launch));
  RETURN_IF_ERROR(Wait(stream));
  const auto measure = [&](int count) -> absl::StatusOr<double> {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) RETURN_IF_ERROR(stream.Launch(launch));
    RETURN_IF_ERROR(Wait(stream));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start)
        .count();
  };
  ASSIGN_OR_RETURN(const double once, measure(1));
  const int count = std::clamp(static_cast<int>(seconds / 5 / once), 1, 200);
  double best = 1e30;
  for (int turn = 0; turn < 5; ++turn) {
    ASSIGN_OR_RETURN(const double time, measure(count));
    best = std::min(best, time / count);
  }

  RETURN_IF_ERROR(stream.Read(*y.buffer, 0, absl::MakeSpan(y.bytes)));
  RETURN_IF_ERROR(Wait(stream));
  int wrong = 0;
  std::mt19937_64 random(5);
  const double bits = c.dtype == DType::kFloat32    ? 1e-5
                      : c.dtype == DType::kBFloat16 ? 8e-3
                                                    : 1e-3;
  for (int i = 0; i < 300; ++i) {
    const int64_t row = static_cast<int64_t>(random()) & 0x7FFFFFFF;
    const int64_t col = static_cast<int64_t>(random()) & 0x7FFFFFFF;
    // The corners too.
    const int64_t r = i < 4 ? (i & 1 ? c.m - 1 : 0) : row % c.m;
    const int64_t q = i < 4 ? (i & 2 ? c.n - 1 : 0) : col % c.n;
    double sum = 0;
    for (int64_t k = 0; k < c.k; ++k) {
      sum += Get(a.bytes, c.dtype, r * a.strides[1] + k * a.strides[2]) *
             Get(b.bytes, c.dtype, k * b.strides[1] + q * b.strides[2]);
    }
    if (c.bias) sum += Get(bias.bytes, c.dtype, q);
    sum = Activated(c.act, sum);
    const double got = Get(y.bytes, c.dtype, r * c.n + q);
    // Sums of floats: each step rounds a part of about sqrt(k) / 3.
    const double limit = bits * (std::fabs(sum) + 0.02 * std::sqrt(c.k)) +
                         6e-8 * static_cast<double>(c.k);
    if (!(std::fabs(got - sum) <= limit)) {
      if (++wrong <= 3) {
        std::printf("  [%ld, %ld] is %g, want %g\n", static_cast<long>(r),
                    static_cast<long>(q), got, sum);
      }
    }
  }
  const double products = 2.0 * static_cast<double>(c.m) *
                          static_cast<double>(c.n) * static_cast<double>(c.k);
  const double bytes =
      static_cast<double>(a.bytes.size() + b.bytes.size() + y.bytes.size());
  std::printf(
      "ours  %-18s %-8s %5ld %5ld %5ld %9.1f us %7.1f TFLOP/s %7.0f GB/s"
      " wrong %d\n",
      c.name, std::string(NameOf(c.dtype)).c_str(), static_cast<long>(c.m),
      static_cast<long>(c.n), static_cast<long>(c.k), best * 1e6,
      products / best / 1e12, bytes / best / 1e9, wrong);
  std::fflush(stdout);
  return wrong;
}

std::vector<Case> Cases(bool small) {
  constexpr DType kF32 = DType::kFloat32, kF16 = DType::kFloat16,
                  kBf16 = DType::kBFloat16;
  std::vector<Case> cases;
  if (small) {
    return {{"A @ B", kF32, 200, 136, 264},
            {"A @ B.T", kBf16, 200, 136, 264, false, true},
            {"gelu(A @ B + bias)", kF16, 136, 264, 200, true, false, Act::kGelu,
             true},
            {"gemv", kBf16, 1, 512, 640, false, true},
            {"gemv", kBf16, 1, 512, 640}};
  }
  for (const DType dtype : {kBf16, kF16}) {
    for (const int64_t n : {4096, 8192}) {
      cases.push_back({"A @ B", dtype, n, n, n});
      cases.push_back({"A @ B.T", dtype, n, n, n, false, true});
      cases.push_back(
          {"gelu(A @ B.T + b)", dtype, n, n, n, false, true, Act::kGelu, true});
    }
  }
  cases.push_back({"A.T @ B", kBf16, 4096, 4096, 4096, true});
  cases.push_back({"A @ B", kBf16, 2048, 2048, 2048});
  cases.push_back({"A @ B.T", kBf16, 2048, 2048, 2048, false, true});
  cases.push_back({"A @ B", kBf16, 1024, 1024, 1024});
  cases.push_back({"A @ B.T", kBf16, 16, 4096, 4096, false, true});
  for (const int64_t n : {1024, 2048, 4096, 8192}) {
    cases.push_back({"A @ B", kF32, n, n, n});
    cases.push_back({"A @ B.T", kF32, n, n, n, false, true});
  }
  // GEMV: weights as nn.Linear has them, and turned.
  cases.push_back({"gemv x @ W.T", kBf16, 1, 16384, 16384, false, true});
  cases.push_back({"gemv x @ W", kBf16, 1, 16384, 16384});
  cases.push_back({"gemv x @ W.T", kBf16, 1, 14336, 4096, false, true});
  cases.push_back({"gemv x @ W.T", kBf16, 1, 4096, 14336, false, true});
  cases.push_back({"gemv x @ W.T", kF32, 1, 8192, 8192, false, true});
  return cases;
}

absl::StatusOr<int> RunAll(bool small, const std::string& only) {
  OpenClOptions options;
  if (small) options.memory_bytes = 64 << 20;
  if (const char* folder = std::getenv("TVARANT_KERNEL_CACHE_DIR")) {
    options.cache_folder = folder;
  }
  ASSIGN_OR_RETURN(const auto runtime, MakeOpenClRuntime(options));
  ASSIGN_OR_RETURN(const auto stream, runtime->CreateStream(0));
  int wrong = 0;
  for (const Case& c : Cases(small)) {
    if (NameOf(c.dtype) != only &&
        std::string(c.name).find(only) == std::string::npos) {
      continue;
    }
    ASSIGN_OR_RETURN(const int bad,
                     Run(*runtime, *stream, c, small ? 0.01 : 0.3));
    wrong += bad;
  }
  return wrong;
}

}  // namespace
}  // namespace tvarant

int main(int argc, char** argv) {
  const bool small = argc > 1 && std::strcmp(argv[1], "--small") == 0;
  const std::string only = argc > 1 && !small ? argv[1] : "";
  const absl::StatusOr<int> wrong = tvarant::RunAll(small, only);
  if (!wrong.ok()) {
    std::fprintf(stderr, "%s\n", std::string(wrong.status().message()).c_str());
    return 1;
  }
  return *wrong == 0 ? 0 : 1;
}

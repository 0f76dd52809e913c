// random: fills a tensor from a distribution.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/half.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/isa.h"
#include "daemon/kernels/host/random/random_words.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

constexpr int64_t kBlocksPerTask = 8;

struct Job {
  Distribution distribution;
  RandomStream stream;
  DType dtype;
  int64_t low = 0;
  uint64_t range = 0;
  double a = 0, b = 0;
  double limit = 0;  // uniform: the largest value below b that dtype has
};

// The largest number below b that T has, but not below a.
template <typename T>
double Below(double a, double b) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    float below = ToFloat(FromFloat<T>(static_cast<float>(b)));
    if (below >= b) {
      // One step down in the order of numbers.
      T bits = FromFloat<T>(below);
      if (below > 0) {
        --bits.bits;
      } else if (below == 0) {
        bits.bits = 0x8001;
      } else {
        ++bits.bits;
      }
      below = ToFloat(bits);
    }
    return std::max<double>(below, a);
  } else {
    T below = static_cast<T>(b);
    if (below >= b)
      below = std::nextafter(below, -std::numeric_limits<T>::infinity());
    return std::max<double>(below, a);
  }
}

double LimitOf(DType dtype, double a, double b) {
  switch (dtype) {
    case DType::kFloat16:
      return Below<Half>(a, b);
    case DType::kBFloat16:
      return Below<BFloat16>(a, b);
    case DType::kFloat32:
      return Below<float>(a, b);
    default:
      return Below<double>(a, b);
  }
}

template <typename T, typename S>
void Store(const S* values, int64_t count, char* out) {
  T* dst = reinterpret_cast<T*>(out);
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      dst[i] = FromFloat<T>(static_cast<float>(values[i]));
    } else {
      dst[i] = static_cast<T>(values[i]);
    }
  }
}

// Writes `count` values as elements of dtype.
template <typename S>
void StoreAs(DType dtype, const S* values, int64_t count, char* out) {
  switch (dtype) {
    case DType::kBool:
      for (int64_t i = 0; i < count; ++i) out[i] = values[i] != 0;
      return;
    case DType::kUInt8:
      return Store<uint8_t>(values, count, out);
    case DType::kInt8:
      return Store<int8_t>(values, count, out);
    case DType::kInt16:
      return Store<int16_t>(values, count, out);
    case DType::kInt32:
      return Store<int32_t>(values, count, out);
    case DType::kInt64:
      return Store<int64_t>(values, count, out);
    case DType::kFloat16:
      return Store<Half>(values, count, out);
    case DType::kBFloat16:
      return Store<BFloat16>(values, count, out);
    case DType::kFloat32:
      return Store<float>(values, count, out);
    default:
      return Store<double>(values, count, out);
  }
}

void MakeFloats(const Job& job, int64_t first, int64_t count, float* out) {
  const float a = static_cast<float>(job.a), b = static_cast<float>(job.b);
  switch (job.distribution) {
    case Distribution::kUniform:
      return TVARANT_FOR_ISA(UniformFloats)(job.stream, first, count, a, b,
                                            static_cast<float>(job.limit), out);
    case Distribution::kNormal:
      return TVARANT_FOR_ISA(NormalFloats)(job.stream, first, count, a, b, out);
    default:
      return TVARANT_FOR_ISA(ExponentialFloats)(job.stream, first, count, a,
                                                out);
  }
}

void MakeDoubles(const Job& job, int64_t first, int64_t count, double* out) {
  switch (job.distribution) {
    case Distribution::kUniform:
      return TVARANT_FOR_ISA(UniformDoubles)(job.stream, first, count, job.a,
                                             job.b, job.limit, out);
    case Distribution::kNormal:
      return TVARANT_FOR_ISA(NormalDoubles)(job.stream, first, count, job.a,
                                            job.b, out);
    default:
      return TVARANT_FOR_ISA(ExponentialDoubles)(job.stream, first, count,
                                                 job.a, out);
  }
}

// Elements [first, first + count) as contiguous elements of the dtype.
void MakeBlock(const Job& job, int64_t first, int64_t count, char* out) {
  const bool pairs = SizeOf(job.dtype) == 8;
  if (job.distribution == Distribution::kBernoulli) {
    uint8_t values[kRandomBlock];
    TVARANT_FOR_ISA(BernoulliBytes)
    (job.stream, first, count, job.a, pairs, values);
    StoreAs(job.dtype, values, count, out);
  } else if (job.distribution == Distribution::kInteger ||
             job.distribution == Distribution::kFullInteger) {
    int64_t values[kRandomBlock];
    TVARANT_FOR_ISA(Integers)
    (job.stream, first, count, job.low, job.range, pairs, values);
    StoreAs(job.dtype, values, count, out);
  } else if (job.dtype == DType::kFloat64) {
    MakeDoubles(job, first, count, reinterpret_cast<double*>(out));
  } else if (job.dtype == DType::kFloat32) {
    MakeFloats(job, first, count, reinterpret_cast<float*>(out));
  } else {
    float values[kRandomBlock];
    MakeFloats(job, first, count, values);
    StoreAs(job.dtype, values, count, out);
  }
}

absl::Status ReadJob(const HostLaunch& launch, Job* job) {
  const DType dtype = launch.dst[0].dtype;
  job->dtype = dtype;
  job->distribution = static_cast<Distribution>(launch.ints[0]);
  job->stream = {static_cast<uint64_t>(launch.ints[1]),
                 static_cast<uint64_t>(launch.ints[2])};
  if (launch.floats.size() > 0) job->a = launch.floats[0];
  if (launch.floats.size() > 1) job->b = launch.floats[1];
  const bool number = IsFloating(dtype) || IsIntegral(dtype);
  switch (job->distribution) {
    case Distribution::kUniform:
      job->limit = LimitOf(dtype, job->a, job->b);
      if (IsFloating(dtype)) return absl::OkStatus();
      break;
    case Distribution::kNormal:
    case Distribution::kExponential:
      if (IsFloating(dtype)) return absl::OkStatus();
      break;
    case Distribution::kBernoulli:
      if (number) return absl::OkStatus();
      break;
    case Distribution::kInteger: {
      const uint64_t low = static_cast<uint64_t>(launch.ints[3]);
      job->low = launch.ints[3];
      job->range = static_cast<uint64_t>(launch.ints[4]) - low;
      if (job->range == 0) {
        return absl::InvalidArgumentError("random: low must be below high");
      }
      if (number) return absl::OkStatus();
      break;
    }
    case Distribution::kFullInteger:
      if (number) return absl::OkStatus();
      break;
  }
  return absl::UnimplementedError(absl::StrCat(
      "random: no distribution ", launch.ints[0], " of dtype ", NameOf(dtype)));
}

}  // namespace

absl::Status RunRandom(const HostLaunch& launch, ThreadPool& pool) {
  Job job;
  if (absl::Status s = ReadJob(launch, &job); !s.ok()) return s;
  const Tensor& y = launch.dst[0];
  const int64_t count = y.numel();
  if (count == 0) return absl::OkStatus();
  const int64_t bytes = static_cast<int64_t>(SizeOf(y.dtype));
  base::StridedLoop<1> loop(y.sizes, y.rank, {y.strides});
  loop.Coalesce();
  const bool flat = loop.rank() == 1 && loop.inner_stride(0) == 1;
  const int64_t blocks = (count + kRandomBlock - 1) / kRandomBlock;
  pool.ParallelFor(blocks, kBlocksPerTask, [&](int64_t begin, int64_t end) {
    alignas(64) char buffer[kRandomBlock * 8];
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kRandomBlock;
      const int64_t n = std::min(kRandomBlock, count - first);
      if (flat) {
        MakeBlock(job, first, n, y.data + first * bytes);
        continue;
      }
      MakeBlock(job, first, n, buffer);
      for (int64_t i = 0; i < n;) {
        const int64_t inner = loop.inner_size();
        const int64_t run = std::min(n - i, inner - (first + i) % inner);
        char* dst = y.data + loop.OffsetOf(0, first + i) * bytes;
        for (int64_t j = 0; j < run; ++j) {
          std::memcpy(dst + j * loop.inner_stride(0) * bytes,
                      buffer + (i + j) * bytes, bytes);
        }
        i += run;
      }
    }
  });
  return absl::OkStatus();
}

}  // namespace tvarant::host

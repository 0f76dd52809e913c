// channel_norm and its gradient: batch norm and group norm.
//
//   y[n, c, :] = (x[n, c, :] - mean) * rstd * weight[c] + bias[c]
//
// Statistics are those of channel c over the batch (groups = 0), or of each
// batch item's group of channels. First each row (n, c) is summed up alone,
// then rows are joined in order: results don't depend on the threads.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/half.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/isa.h"
#include "daemon/kernels/host/norm_checks.h"
#include "daemon/kernels/host/scratch.h"
#include "daemon/kernels/host/volume/channel_rows.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 15;
constexpr int64_t kChannelsPerTask = 64;

double At(const Tensor& t, int64_t i) {
  const int64_t at = i * t.strides[0];
  switch (t.dtype) {
    case DType::kFloat16:
      return ToFloat(reinterpret_cast<const Half*>(t.data)[at]);
    case DType::kBFloat16:
      return ToFloat(reinterpret_cast<const BFloat16*>(t.data)[at]);
    case DType::kFloat32:
      return reinterpret_cast<const float*>(t.data)[at];
    default:
      return reinterpret_cast<const double*>(t.data)[at];
  }
}

double AtOr(const Tensor& t, int64_t i, double other) {
  return t.present() ? At(t, i) : other;
}

void Put(const Tensor& t, int64_t i, double value) {
  if (!t.present()) return;
  const int64_t at = i * t.strides[0];
  switch (t.dtype) {
    case DType::kFloat16:
      reinterpret_cast<Half*>(t.data)[at] =
          FromFloat<Half>(static_cast<float>(value));
      break;
    case DType::kBFloat16:
      reinterpret_cast<BFloat16*>(t.data)[at] =
          FromFloat<BFloat16>(static_cast<float>(value));
      break;
    case DType::kFloat32:
      reinterpret_cast<float*>(t.data)[at] = static_cast<float>(value);
      break;
    default:
      reinterpret_cast<double*>(t.data)[at] = value;
  }
}

// [N, C, L] and how its rows share statistics.
struct Shape {
  Shape(const Tensor& x, int64_t groups)
      : batch(x.sizes[0]),
        channels(x.sizes[1]),
        length(x.sizes[2]),
        groups(groups),
        group_size(groups > 0 ? channels / groups : 1) {}
  int64_t rows() const { return batch * channels; }
  int64_t statistics() const { return groups == 0 ? channels : batch * groups; }
  // Elements behind one statistic.
  double count() const {
    return static_cast<double>(length) *
           static_cast<double>(groups == 0 ? batch : group_size);
  }
  int64_t StatisticOf(int64_t row) const {
    return groups == 0 ? row % channels
                       : row / channels * groups + row % channels / group_size;
  }
  int64_t batch, channels, length, groups, group_size;
};

ChannelView ViewOf(const Tensor& t, int64_t n, int64_t c) {
  if (!t.present()) return {};
  return {t.data + (n * t.strides[0] + c * t.strides[1]) *
                       static_cast<int64_t>(SizeOf(t.dtype)),
          t.dtype, t.strides[1], t.sizes[2] == 1 ? 1 : t.strides[2]};
}

// body(n, first channel, channels) for all rows, some channels at a time.
void ForRows(const Shape& shape, ThreadPool& pool,
             absl::FunctionRef<void(int64_t, int64_t, int64_t)> body) {
  const int64_t parts =
      (shape.channels + kChannelsPerTask - 1) / kChannelsPerTask;
  const int64_t part = (shape.channels + parts - 1) / parts;
  pool.ParallelFor(
      shape.batch * parts,
      std::max<int64_t>(1, kElementsPerTask / (part * shape.length + 1)),
      [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t c = task % parts * part;
          if (c >= shape.channels) continue;
          body(task / parts, c, std::min(part, shape.channels - c));
        }
      });
}

const ChannelLoops& LoopsOf(DType dtype) {
  const ChannelKernels& kernels = TVARANT_FOR_ISA(kChannelKernels);
  return dtype == DType::kFloat64 ? kernels.f64 : kernels.f32;
}

// Arrays of one number per row, in double and in the computing type.
class Rows {
 public:
  Rows(const Shape& shape, DType dtype, int doubles, int values)
      : size_(shape.rows()),
        wide_(dtype == DType::kFloat64),
        doubles_(reinterpret_cast<double*>(
            LaunchScratch(8 * static_cast<size_t>(size_) *
                          static_cast<size_t>(doubles + values)))),
        num_doubles_(doubles) {}
  bool ok() const { return doubles_ != nullptr; }
  double* doubles(int i) const { return doubles_ + i * size_; }
  void* value(int i, int64_t row) const {
    char* base = reinterpret_cast<char*>(doubles_ + (num_doubles_ + i) * size_);
    return base + row * (wide_ ? 8 : 4);
  }
  void SetValue(int i, int64_t row, double value_of_row) const {
    if (wide_) {
      *static_cast<double*>(value(i, row)) = value_of_row;
    } else {
      *static_cast<float*>(value(i, row)) = static_cast<float>(value_of_row);
    }
  }

 private:
  int64_t size_;
  bool wide_;
  double* doubles_;
  int num_doubles_;
};

absl::Status NoMemory(const HostLaunch& launch) {
  return absl::ResourceExhaustedError(
      absl::StrCat(NameOf(launch.kernel), ": no host memory for statistics"));
}

// Joins the rows' moments into those of statistic s.
void JoinRows(const Shape& shape, const Rows& rows, int64_t s, double* mean,
              double* squares) {
  const double length = static_cast<double>(shape.length);
  double have = 0;
  *mean = *squares = 0;
  const auto join = [&](int64_t row) {
    const double delta = rows.doubles(0)[row] - *mean;
    *mean += delta * length / (have + length);
    *squares +=
        rows.doubles(1)[row] + delta * delta * have * length / (have + length);
    have += length;
  };
  if (shape.groups == 0) {
    for (int64_t n = 0; n < shape.batch; ++n) join(n * shape.channels + s);
  } else {
    for (int64_t i = 0; i < shape.group_size; ++i) {
      join(s * shape.group_size + i);
    }
  }
}

}  // namespace

// dst: y, mean, rstd, running mean, running variance (updated in place).
// src: x, weight, bias, constant mean, constant variance.
absl::Status RunChannelNorm(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& x = launch.src[0];
  const Tensor& y = launch.dst[0];
  if (absl::Status s = CheckNormDTypes(launch, x.dtype); !s.ok()) return s;
  const Shape shape(x, launch.ints[0]);
  const bool constant = launch.ints[1] != 0;
  const double eps = launch.floats[0], momentum = launch.floats[1];
  if (shape.rows() == 0) return absl::OkStatus();
  const ChannelLoops& loops = LoopsOf(x.dtype);
  const Rows rows(shape, x.dtype, 4, 2);
  if (!rows.ok()) return NoMemory(launch);

  if (!constant) {
    ForRows(shape, pool, [&](int64_t n, int64_t c, int64_t count) {
      const int64_t row = n * shape.channels + c;
      loops.moments(ViewOf(x, n, c), count, shape.length, rows.doubles(0) + row,
                    rows.doubles(1) + row);
    });
  }
  // Statistic s, as mean and rstd, at doubles 2 and 3.
  for (int64_t s = 0; s < shape.statistics(); ++s) {
    double mean, variance;
    if (constant) {
      mean = At(launch.src[3], s);
      variance = At(launch.src[4], s);
    } else {
      double squares;
      JoinRows(shape, rows, s, &mean, &squares);
      variance = squares / shape.count();
      const Tensor& running_mean = launch.dst[3];
      const Tensor& running_variance = launch.dst[4];
      if (running_mean.present()) {
        Put(running_mean, s,
            momentum * mean + (1 - momentum) * At(running_mean, s));
      }
      if (running_variance.present()) {
        const double unbiased = squares / (shape.count() - 1);
        Put(running_variance, s,
            momentum * unbiased + (1 - momentum) * At(running_variance, s));
      }
    }
    rows.doubles(2)[s] = mean;
    rows.doubles(3)[s] = 1 / std::sqrt(variance + eps);
    Put(launch.dst[1], s, mean);
    Put(launch.dst[2], s, rows.doubles(3)[s]);
  }
  for (int64_t row = 0; row < shape.rows(); ++row) {
    const int64_t c = row % shape.channels, s = shape.StatisticOf(row);
    const double scale = rows.doubles(3)[s] * AtOr(launch.src[1], c, 1);
    rows.SetValue(0, row, scale);
    rows.SetValue(1, row,
                  AtOr(launch.src[2], c, 0) - rows.doubles(2)[s] * scale);
  }
  ForRows(shape, pool, [&](int64_t n, int64_t c, int64_t count) {
    const int64_t row = n * shape.channels + c;
    loops.affine(ViewOf(x, n, c), ViewOf(y, n, c), count, shape.length,
                 rows.value(0, row), rows.value(1, row));
  });
  return absl::OkStatus();
}

// dst: dx, dweight, dbias. src: dy, x, mean, rstd, weight.
//   xn = (x - mean) * rstd,  g = dy * weight
//   dx = rstd * (g - average(g) - xn * average(g * xn)), or rstd * g if the
//   statistics are constants
absl::Status RunChannelNormBackward(const HostLaunch& launch,
                                    ThreadPool& pool) {
  const Tensor& dy = launch.src[0];
  const Tensor& x = launch.src[1];
  const Tensor& dx = launch.dst[0];
  if (absl::Status s = CheckNormDTypes(launch, x.dtype); !s.ok()) return s;
  const Shape shape(x, launch.ints[0]);
  const bool constant = launch.ints[1] != 0;
  if (shape.channels == 0) return absl::OkStatus();
  const ChannelLoops& loops = LoopsOf(x.dtype);
  const Rows rows(shape, x.dtype, 4, 4);
  if (!rows.ok()) return NoMemory(launch);

  for (int64_t row = 0; row < shape.rows(); ++row) {
    rows.SetValue(0, row, At(launch.src[2], shape.StatisticOf(row)));
  }
  double* const sum = rows.doubles(0);
  double* const product = rows.doubles(1);
  ForRows(shape, pool, [&](int64_t n, int64_t c, int64_t count) {
    const int64_t row = n * shape.channels + c;
    loops.gradient_sums(ViewOf(dy, n, c), ViewOf(x, n, c), count, shape.length,
                        rows.value(0, row), sum + row, product + row);
  });
  for (int64_t c = 0; c < shape.channels; ++c) {
    double dweight = 0, dbias = 0;
    for (int64_t n = 0; n < shape.batch; ++n) {
      const int64_t row = n * shape.channels + c;
      dweight += product[row] * At(launch.src[3], shape.StatisticOf(row));
      dbias += sum[row];
    }
    Put(launch.dst[1], c, dweight);
    Put(launch.dst[2], c, dbias);
  }
  if (!dx.present() || shape.rows() == 0) return absl::OkStatus();

  double* const average = rows.doubles(2);  // of g, by statistic
  double* const slope = rows.doubles(3);
  std::fill_n(average, shape.statistics(), 0.0);
  std::fill_n(slope, shape.statistics(), 0.0);
  if (!constant) {
    for (int64_t row = 0; row < shape.rows(); ++row) {
      const int64_t s = shape.StatisticOf(row);
      const double weight = AtOr(launch.src[4], row % shape.channels, 1);
      average[s] += weight * sum[row] / shape.count();
      slope[s] += weight * product[row] / shape.count();
    }
  }
  for (int64_t row = 0; row < shape.rows(); ++row) {
    const int64_t s = shape.StatisticOf(row);
    const double rstd = At(launch.src[3], s);
    rows.SetValue(1, row, rstd * AtOr(launch.src[4], row % shape.channels, 1));
    rows.SetValue(2, row, -slope[s] * rstd * rstd * rstd);
    rows.SetValue(3, row, -average[s] * rstd);
  }
  ForRows(shape, pool, [&](int64_t n, int64_t c, int64_t count) {
    const int64_t row = n * shape.channels + c;
    loops.gradient(ViewOf(dy, n, c), ViewOf(x, n, c), ViewOf(dx, n, c), count,
                   shape.length, rows.value(0, row), rows.value(1, row),
                   rows.value(2, row), rows.value(3, row));
  });
  return absl::OkStatus();
}

}  // namespace tvarant::host

// Rules of channel_norm, pooling and resampling.

#include <algorithm>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "proto/ops/rule_checks.h"

namespace tvarant::rules {
namespace {

// Extents of space below this keep every coordinate within 64 bits.
constexpr int64_t kMaxExtent = int64_t{1} << 31;
// Resampling lists what each coordinate is made of.
constexpr int64_t kMaxResampled = int64_t{1} << 24;

// [N, C, D, H, W]
absl::Status WantVolume(const LaunchParams& params, const Operand& operand,
                        int64_t max_extent) {
  RETURN_IF_ERROR(WantRank(params, operand, 5));
  for (int i = 2; i < 5; ++i) {
    if (operand.sizes[i] >= max_extent) {
      return OperandError(params, operand, "is too large");
    }
  }
  return absl::OkStatus();
}

// Two volumes of the same batch, channels and dtype.
absl::Status CheckVolumes(const LaunchParams& params, const Operand& a,
                          const Operand& b, int64_t max_extent) {
  RETURN_IF_ERROR(WantVolume(params, a, max_extent));
  RETURN_IF_ERROR(WantVolume(params, b, max_extent));
  RETURN_IF_ERROR(WantDType(params, a, b.dtype));
  if (a.sizes[0] != b.sizes[0] || a.sizes[1] != b.sizes[1]) {
    return OperandError(params, a, "has another batch or channels than src 0");
  }
  return absl::OkStatus();
}

struct IntRange {
  const char* name;
  int first;
  int64_t min;
};

// Three numbers, for d, h, w.
absl::Status CheckInts(const LaunchParams& params,
                       std::initializer_list<IntRange> ranges) {
  for (const IntRange& range : ranges) {
    for (int i = 0; i < 3; ++i) {
      const int64_t value = params.ints[range.first + i];
      if (value < range.min || value >= kMaxExtent) {
        return ParameterError(params, range.name, value,
                              range.min == 0 ? "at least 0" : "at least 1");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFlag(const LaunchParams& params, const char* name,
                       int64_t value) {
  if (value == 0 || value == 1) return absl::OkStatus();
  return ParameterError(params, name, value, "0 or 1");
}

// Windows of `large` that give `small`. A window may not lie in the padding
// alone, else it has no maximum.
absl::Status CheckWindows(const LaunchParams& params, const Operand& large,
                          const Operand& small, int dilation_at) {
  RETURN_IF_ERROR(CheckFlag(params, "adaptive", params.ints[0]));
  RETURN_IF_ERROR(CheckInts(
      params, {{"kernel", 1, 1}, {"stride", 4, 1}, {"padding", 7, 0}}));
  if (dilation_at > 0) {
    RETURN_IF_ERROR(CheckInts(params, {{"dilation", dilation_at, 1}}));
  }
  for (int i = 0; i < 3; ++i) {
    const int64_t got = small.sizes[2 + i], size = large.sizes[2 + i];
    if (got == 0) continue;
    bool fits = size > 0;
    if (params.ints[0] == 0) {
      const int64_t stride = params.ints[4 + i], padding = params.ints[7 + i];
      const int64_t dilation =
          dilation_at > 0 ? params.ints[dilation_at + i] : 1;
      const int64_t span = dilation * (params.ints[1 + i] - 1) + 1;
      // Each window reaches beyond the padding at both ends.
      fits = fits && padding < span && (got - 1) * stride < size + padding;
    }
    if (!fits) {
      return OperandError(params, small,
                          absl::StrCat("has windows outside of the input in "
                                       "dimension ",
                                       2 + i));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAnyAvgPool(const LaunchParams& params, const Operand& large,
                             const Operand& small) {
  RETURN_IF_ERROR(WantParameters(params, 12, 0));
  RETURN_IF_ERROR(WantComputable(params, large));
  RETURN_IF_ERROR(CheckVolumes(params, large, small, kMaxExtent));
  RETURN_IF_ERROR(CheckFlag(params, "count_include_pad", params.ints[10]));
  return CheckWindows(params, large, small, 0);
}

absl::Status CheckAnyResample(const LaunchParams& params, const Operand& y,
                              const Operand& x) {
  RETURN_IF_ERROR(WantParameters(params, 5, 3));
  RETURN_IF_ERROR(CheckVolumes(params, y, x, kMaxResampled));
  const int64_t mode = params.ints[0];
  if (mode < 0 || mode > 7) {
    return ParameterError(params, "mode", mode, "at most 7");
  }
  const bool antialiased = mode >= 6;
  // Neighbours are copied whatever they are; the rest is computed.
  RETURN_IF_ERROR(WantComputable(params, x));
  if (mode == 2 || mode == 3 || antialiased) {
    RETURN_IF_ERROR(WantFloating(params, x));
  }
  RETURN_IF_ERROR(CheckFlag(params, "align_corners", params.ints[1]));
  for (int i = 0; i < 3; ++i) {
    const int64_t pad = params.ints[2 + i];
    if (pad <= -kMaxExtent || pad >= kMaxExtent) {
      return ParameterError(params, "padding", pad, "a number of elements");
    }
    if (!(params.floats[i] >= 0) || params.floats[i] > kMaxExtent) {
      return ParameterError(params, "scale", params.floats[i],
                            "a positive number");
    }
    if (x.sizes[2 + i] == 0 && y.sizes[2 + i] != 0) {
      return OperandError(params, x, "is empty");
    }
    // A wide filter lists many elements for each of y.
    const double taps =
        std::min(4 * params.floats[i] + 5, static_cast<double>(x.sizes[2 + i]));
    if (antialiased && taps * static_cast<double>(y.sizes[2 + i]) >
                           static_cast<double>(kMaxResampled)) {
      return ParameterError(params, "scale", params.floats[i],
                            "less, for so many elements");
    }
  }
  return absl::OkStatus();
}

// ints = {groups or 0, constant}: the numbers of statistics.
absl::Status CountStatistics(const LaunchParams& params, const Operand& x,
                             int64_t* count) {
  RETURN_IF_ERROR(WantFloating(params, x));
  RETURN_IF_ERROR(WantRank(params, x, 3));
  const int64_t groups = params.ints[0];
  if (groups < 0 || (groups > 0 && x.sizes[1] % groups != 0)) {
    return ParameterError(params, "groups", groups,
                          "0 or a divisor of the channels");
  }
  RETURN_IF_ERROR(CheckFlag(params, "constant", params.ints[1]));
  if (groups > 0 && groups > x.sizes[1]) {
    return ParameterError(params, "groups", groups, "at most the channels");
  }
  *count = groups == 0 ? x.sizes[1] : x.sizes[0] * groups;
  return absl::OkStatus();
}

absl::Status WantVector(const LaunchParams& params, const Operand& operand,
                        DType dtype, int64_t size) {
  if (!IsPresent(operand)) return absl::OkStatus();
  RETURN_IF_ERROR(WantSameOrWider(params, operand, dtype));
  return WantSizes(params, operand, {size});
}

}  // namespace

absl::Status CheckChannelNorm(const LaunchParams& params, const Program*) {
  const Operand& x = params.src[0];
  RETURN_IF_ERROR(WantParameters(params, 2, 2));
  int64_t count;
  RETURN_IF_ERROR(CountStatistics(params, x, &count));
  RETURN_IF_ERROR(WantDType(params, params.dst[0], x.dtype));
  RETURN_IF_ERROR(WantSizesOf(params, params.dst[0], x));
  for (int i = 1; i < 5; ++i) {
    RETURN_IF_ERROR(WantVector(params, params.dst[i], x.dtype, count));
    RETURN_IF_ERROR(WantVector(params, params.src[i], x.dtype,
                               i <= 2 ? x.sizes[1] : count));
  }
  const bool constant = params.ints[1] != 0;
  for (int i = 3; i < 5; ++i) {
    if (IsPresent(params.src[i]) != constant) {
      return OperandError(params, params.src[i],
                          constant ? "is absent" : "is not wanted");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckChannelNormBackward(const LaunchParams& params,
                                      const Program*) {
  const Operand& x = params.src[1];
  RETURN_IF_ERROR(WantParameters(params, 2, 0));
  int64_t count;
  RETURN_IF_ERROR(CountStatistics(params, x, &count));
  RETURN_IF_ERROR(WantDType(params, params.src[0], x.dtype));
  RETURN_IF_ERROR(WantSizesOf(params, params.src[0], x));
  RETURN_IF_ERROR(WantVector(params, params.src[2], x.dtype, count));
  RETURN_IF_ERROR(WantVector(params, params.src[3], x.dtype, count));
  RETURN_IF_ERROR(WantVector(params, params.src[4], x.dtype, x.sizes[1]));
  RETURN_IF_ERROR(WantVector(params, params.dst[1], x.dtype, x.sizes[1]));
  RETURN_IF_ERROR(WantVector(params, params.dst[2], x.dtype, x.sizes[1]));
  if (!IsPresent(params.dst[0])) return absl::OkStatus();
  RETURN_IF_ERROR(WantDType(params, params.dst[0], x.dtype));
  return WantSizesOf(params, params.dst[0], x);
}

absl::Status CheckMaxPool(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  const Operand& x = params.src[0];
  RETURN_IF_ERROR(WantParameters(params, 13, 0));
  RETURN_IF_ERROR(WantComputable(params, x));
  RETURN_IF_ERROR(CheckVolumes(params, y, x, kMaxExtent));
  RETURN_IF_ERROR(WantDType(params, params.dst[1], DType::kInt64));
  RETURN_IF_ERROR(WantSizesOf(params, params.dst[1], y));
  return CheckWindows(params, x, y, 10);
}

absl::Status CheckAvgPool(const LaunchParams& params, const Program*) {
  return CheckAnyAvgPool(params, params.src[0], params.dst[0]);
}

absl::Status CheckAvgPoolBackward(const LaunchParams& params, const Program*) {
  return CheckAnyAvgPool(params, params.dst[0], params.src[0]);
}

absl::Status CheckResample(const LaunchParams& params, const Program*) {
  return CheckAnyResample(params, params.dst[0], params.src[0]);
}

absl::Status CheckResampleBackward(const LaunchParams& params, const Program*) {
  return CheckAnyResample(params, params.src[0], params.dst[0]);
}

}  // namespace tvarant::rules

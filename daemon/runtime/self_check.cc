#include "daemon/runtime/self_check.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

constexpr int64_t kRows = 3, kColumns = 5;
constexpr uint64_t kSlotBytes = 256;
constexpr uint64_t kSlots = 5;

// A few matrices in one buffer, slot by slot.
class Bench {
 public:
  static absl::StatusOr<std::unique_ptr<Bench>> Create(TvarantRuntime& runtime,
                                                       int device) {
    std::unique_ptr<Bench> bench(new Bench);
    ASSIGN_OR_RETURN(bench->buffer_,
                     runtime.CreateBuffer(device, kSlots * kSlotBytes));
    ASSIGN_OR_RETURN(bench->stream_, runtime.CreateStream(device));
    return bench;
  }

  ResolvedOperand Tensor(int slot, DType dtype,
                         const std::vector<int64_t>& sizes) {
    auto& shape = shapes_.emplace_back(std::make_unique<Shape>());
    shape->sizes = sizes;
    shape->strides.resize(sizes.size());
    int64_t stride = 1;
    for (size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) {
      shape->strides[i] = stride;
    }
    ResolvedOperand operand;
    operand.buffer = buffer_.get();
    operand.offset_bytes = slot * kSlotBytes;
    operand.dtype = dtype;
    operand.rank = static_cast<int>(sizes.size());
    operand.sizes = shape->sizes.data();
    operand.strides = shape->strides.data();
    return operand;
  }
  ResolvedOperand Floats(int slot, const std::vector<int64_t>& sizes) {
    return Tensor(slot, DType::kFloat32, sizes);
  }

  template <typename T>
  absl::Status Write(int slot, const std::vector<T>& values) {
    return stream_->Write(*buffer_, slot * kSlotBytes,
                          {reinterpret_cast<const char*>(values.data()),
                           values.size() * sizeof(T)});
  }

  absl::Status Launch(ResolvedLaunch launch,
                      const std::vector<ResolvedOperand>& dst,
                      const std::vector<ResolvedOperand>& src) {
    launch.dst = dst;
    launch.src = src;
    RETURN_IF_ERROR(stream_->Launch(launch));
    absl::Status result;
    absl::Notification done;
    stream_->WhenDone([&](absl::Status status) {
      result = std::move(status);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  absl::Status Expect(const char* family, int slot,
                      const std::vector<float>& want) {
    std::vector<float> got(want.size());
    RETURN_IF_ERROR(stream_->Read(
        *buffer_, slot * kSlotBytes,
        {reinterpret_cast<char*>(got.data()), got.size() * sizeof(float)}));
    stream_->SynchronizeAndGetTimeNs();
    for (size_t i = 0; i < want.size(); ++i) {
      if (!(std::fabs(got[i] - want[i]) <= 1e-5f * (1 + std::fabs(want[i])))) {
        return absl::InternalError(absl::StrCat("self-check of ", family,
                                                ": element ", i, " is ", got[i],
                                                ", want ", want[i]));
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Shape {
    std::vector<int64_t> sizes, strides;
  };
  std::unique_ptr<DeviceBuffer> buffer_;
  std::unique_ptr<DeviceStream> stream_;
  std::vector<std::unique_ptr<Shape>> shapes_;
};

std::vector<float> Ramp(int64_t count, float step) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = step * static_cast<float>(i);
  return values;
}

absl::Status TestFillAndCopy(Bench& bench) {
  const float two = 2.5f;
  uint32_t bits;
  std::memcpy(&bits, &two, sizeof(bits));
  const std::vector<int64_t> ints = {bits, 0};
  const std::vector<int64_t> sizes = {kRows, kColumns};
  RETURN_IF_ERROR(bench.Launch({.kernel = Kernel::kFill, .ints = ints},
                               {bench.Floats(2, sizes)}, {}));
  RETURN_IF_ERROR(bench.Launch({.kernel = Kernel::kCopy},
                               {bench.Floats(3, sizes)},
                               {bench.Floats(2, sizes)}));
  return bench.Expect("fill and copy", 3,
                      std::vector<float>(kRows * kColumns, two));
}

absl::Status TestPointwise(Bench& bench) {
  ProgramBuilder builder;
  const int a = builder.Load(0, DType::kFloat32);
  const int b = builder.Load(1, DType::kFloat32);
  const int sum = builder.Op(PointwiseOp::kAdd, DType::kFloat32, a, b);
  builder.Store(builder.Op(PointwiseOp::kRelu, DType::kFloat32, sum));
  const Program program = std::move(builder).Build();
  const std::vector<int64_t> sizes = {kRows, kColumns};
  const auto x = Ramp(kRows * kColumns, 1.0f);
  const std::vector<float> y(kRows * kColumns, -4.0f);
  RETURN_IF_ERROR(bench.Write(0, x));
  RETURN_IF_ERROR(bench.Write(1, y));
  // No client's program has key 0.
  RETURN_IF_ERROR(bench.Launch(
      {.kernel = Kernel::kPointwise, .program = &program, .program_key = 0},
      {bench.Floats(2, sizes)},
      {bench.Floats(0, sizes), bench.Floats(1, sizes)}));
  std::vector<float> want(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    want[i] = x[i] + y[i] > 0 ? x[i] + y[i] : 0;
  }
  return bench.Expect("pointwise", 2, want);
}

absl::Status TestReduce(Bench& bench) {
  const auto x = Ramp(kRows * kColumns, 0.5f);
  RETURN_IF_ERROR(bench.Write(0, x));
  const std::vector<int64_t> ints = {static_cast<int64_t>(ReduceOp::kSum)};
  RETURN_IF_ERROR(bench.Launch({.kernel = Kernel::kReduce, .ints = ints},
                               {bench.Floats(2, {kRows, 1})},
                               {bench.Floats(0, {kRows, kColumns})}));
  std::vector<float> want(kRows, 0.0f);
  for (int64_t i = 0; i < kRows * kColumns; ++i) want[i / kColumns] += x[i];
  return bench.Expect("reduce", 2, want);
}

absl::Status TestGemm(Bench& bench) {
  const auto a = Ramp(kRows * kColumns, 1.0f);
  const auto b = Ramp(kColumns * kRows, -0.25f);
  RETURN_IF_ERROR(bench.Write(0, a));
  RETURN_IF_ERROR(bench.Write(1, b));
  RETURN_IF_ERROR(bench.Launch({.kernel = Kernel::kGemm,
                                .m = kRows,
                                .n = kRows,
                                .k = kColumns,
                                .batch = 1,
                                .alpha = 2},
                               {bench.Floats(2, {1, kRows, kRows})},
                               {bench.Floats(0, {1, kRows, kColumns}),
                                bench.Floats(1, {1, kColumns, kRows})}));
  std::vector<float> want(kRows * kRows, 0.0f);
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < kRows; ++j) {
      for (int64_t k = 0; k < kColumns; ++k) {
        want[i * kRows + j] += 2 * a[i * kColumns + k] * b[k * kRows + j];
      }
    }
  }
  return bench.Expect("gemm_bias_act", 2, want);
}

absl::Status TestSoftmax(Bench& bench) {
  const auto x = Ramp(kRows * kColumns, 0.125f);
  RETURN_IF_ERROR(bench.Write(0, x));
  const std::vector<int64_t> ints = {1};
  RETURN_IF_ERROR(bench.Launch({.kernel = Kernel::kSoftmax, .ints = ints},
                               {bench.Floats(2, {kRows, kColumns})},
                               {bench.Floats(0, {kRows, kColumns})}));
  std::vector<float> want(x.size());
  for (int64_t row = 0; row < kRows; ++row) {
    double sum = 0;
    for (int64_t i = 0; i < kColumns; ++i) {
      sum += std::exp(static_cast<double>(x[row * kColumns + i]));
    }
    for (int64_t i = 0; i < kColumns; ++i) {
      want[row * kColumns + i] = static_cast<float>(
          std::exp(static_cast<double>(x[row * kColumns + i])) / sum);
    }
  }
  return bench.Expect("softmax", 2, want);
}

absl::Status TestIndexSelect(Bench& bench) {
  const auto x = Ramp(kRows * kColumns, 1.0f);
  const std::vector<int64_t> index = {2, 0};
  RETURN_IF_ERROR(bench.Write(0, x));
  RETURN_IF_ERROR(bench.Write(1, index));
  const std::vector<int64_t> ints = {0};
  RETURN_IF_ERROR(bench.Launch({.kernel = Kernel::kIndexSelect, .ints = ints},
                               {bench.Floats(2, {2, kColumns})},
                               {bench.Floats(0, {kRows, kColumns}),
                                bench.Tensor(1, DType::kInt64, {2})}));
  std::vector<float> want;
  for (const int64_t row : index) {
    for (int64_t i = 0; i < kColumns; ++i) {
      want.push_back(static_cast<float>(row * kColumns + i));
    }
  }
  return bench.Expect("index_select", 2, want);
}

absl::Status TestRandom(Bench& bench) {
  // A distribution without freedom: every element must be 1.
  const std::vector<int64_t> ints = {
      static_cast<int64_t>(Distribution::kBernoulli), 42, 0, 0, 0};
  const std::vector<double> floats = {1.0, 0.0};
  RETURN_IF_ERROR(
      bench.Launch({.kernel = Kernel::kRandom, .ints = ints, .floats = floats},
                   {bench.Floats(2, {kRows, kColumns})}, {}));
  return bench.Expect("random", 2, std::vector<float>(kRows * kColumns, 1.0f));
}

absl::Status TestNorm(Bench& bench) {
  const std::vector<float> x = {-1, 1, -1, 1, 3, 5, 3, 5, -2, 2, -2, 2};
  RETURN_IF_ERROR(bench.Write(0, x));
  RETURN_IF_ERROR(
      bench.Launch({.kernel = Kernel::kLayerNorm, .scalar = 0},
                   {bench.Floats(2, {kRows, 4}), bench.Floats(3, {kRows}),
                    bench.Floats(4, {kRows})},
                   {bench.Floats(0, {kRows, 4}), {}, {}}));
  RETURN_IF_ERROR(bench.Expect("layer_norm", 3, {0, 4, 0}));
  RETURN_IF_ERROR(bench.Expect("layer_norm", 4, {1, 1, 0.5f}));
  return bench.Expect("layer_norm", 2,
                      {-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1});
}

absl::Status TestLoss(Bench& bench) {
  const auto x = Ramp(kRows * kColumns, -0.5f);
  const std::vector<int64_t> target = {1, 0, 4};
  RETURN_IF_ERROR(bench.Write(0, x));
  RETURN_IF_ERROR(bench.Write(1, target));
  const std::vector<int64_t> ints = {/*sum=*/2, /*ignore_index=*/-100};
  RETURN_IF_ERROR(bench.Launch({.kernel = Kernel::kNllLoss, .ints = ints},
                               {bench.Floats(2, {}), bench.Floats(3, {})},
                               {bench.Floats(0, {kRows, kColumns}),
                                bench.Tensor(1, DType::kInt64, {kRows}),
                                {}}));
  float want = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    want -= x[row * kColumns + target[row]];
  }
  return bench.Expect("nll_loss", 2, {want});
}

absl::Status TestScan(Bench& bench) {
  const auto x = Ramp(kRows * kColumns, 0.5f);
  RETURN_IF_ERROR(bench.Write(0, x));
  const std::vector<int64_t> ints = {/*dim=*/1, /*sum=*/0};
  RETURN_IF_ERROR(bench.Launch({.kernel = Kernel::kCumulate, .ints = ints},
                               {bench.Floats(2, {kRows, kColumns})},
                               {bench.Floats(0, {kRows, kColumns})}));
  std::vector<float> want = x;
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    if (i % kColumns != 0) want[i] += want[i - 1];
  }
  return bench.Expect("cumulate", 2, want);
}

absl::Status TestScatter(Bench& bench) {
  const std::vector<float> y(kColumns, 1.0f);
  const std::vector<int64_t> index = {3, 0, 3};
  RETURN_IF_ERROR(bench.Write(0, index));
  RETURN_IF_ERROR(bench.Write(1, std::vector<float>{2, 4, 8}));
  RETURN_IF_ERROR(bench.Write(2, y));
  const std::vector<int64_t> ints = {/*dim=*/0};
  RETURN_IF_ERROR(bench.Launch(
      {.kernel = Kernel::kScatterAdd, .ints = ints},
      {bench.Floats(2, {kColumns})},
      {bench.Tensor(0, DType::kInt64, {3}), bench.Floats(1, {3})}));
  return bench.Expect("scatter_add", 2, {5, 1, 1, 11, 1});
}

absl::Status TestConvolution(Bench& bench) {
  const auto x = Ramp(kRows * kColumns, 1.0f);
  const std::vector<float> weight = {1, 10};
  RETURN_IF_ERROR(bench.Write(0, x));
  RETURN_IF_ERROR(bench.Write(1, weight));
  // groups; stride, padding and dilation of d, h and w
  const std::vector<int64_t> ints = {1, 1, 1, 1, 0, 0, 0, 1, 1, 1};
  constexpr int64_t kOut = kColumns - 1;
  RETURN_IF_ERROR(bench.Launch({.kernel = Kernel::kConvolution, .ints = ints},
                               {bench.Floats(2, {1, 1, 1, kRows, kOut})},
                               {bench.Floats(0, {1, 1, 1, kRows, kColumns}),
                                bench.Floats(1, {1, 1, 1, 1, 2}),
                                {}}));
  std::vector<float> want;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = row * kColumns; i < row * kColumns + kOut; ++i) {
      want.push_back(x[i] + 10 * x[i + 1]);
    }
  }
  return bench.Expect("convolution", 2, want);
}

absl::Status TestPool(Bench& bench) {
  const auto x = Ramp(kRows * 4, 1.0f);
  RETURN_IF_ERROR(bench.Write(0, x));
  // adaptive; kernel, stride, padding and dilation of d, h and w
  const std::vector<int64_t> ints = {0, 1, 1, 2, 1, 1, 2, 0, 0, 0, 1, 1, 1};
  RETURN_IF_ERROR(
      bench.Launch({.kernel = Kernel::kMaxPool, .ints = ints},
                   {bench.Floats(2, {1, 1, 1, kRows, 2}),
                    bench.Tensor(3, DType::kInt64, {1, 1, 1, kRows, 2})},
                   {bench.Floats(0, {1, 1, 1, kRows, 4})}));
  return bench.Expect("max_pool", 2, {1, 3, 5, 7, 9, 11});
}

absl::Status TestSort(Bench& bench) {
  RETURN_IF_ERROR(bench.Write(0, std::vector<float>{3, -1, 2, 5, 0}));
  const std::vector<int64_t> ints = {/*dim=*/0, /*descending=*/1};
  RETURN_IF_ERROR(bench.Launch(
      {.kernel = Kernel::kSort, .ints = ints},
      {bench.Floats(2, {kColumns}), bench.Tensor(3, DType::kInt64, {kColumns})},
      {bench.Floats(0, {kColumns})}));
  return bench.Expect("sort", 2, {5, 3, 2, 0, -1});
}

absl::Status TestDistance(Bench& bench) {
  RETURN_IF_ERROR(bench.Write(0, std::vector<float>{0, 0, 3, 4}));
  RETURN_IF_ERROR(bench.Write(1, std::vector<float>{0, 0}));
  RETURN_IF_ERROR(
      bench.Launch({.kernel = Kernel::kPairDistance, .scalar = 2},
                   {bench.Floats(2, {1, 2, 1})},
                   {bench.Floats(0, {1, 2, 2}), bench.Floats(1, {1, 1, 2})}));
  return bench.Expect("pair_distance", 2, {0, 5});
}

absl::Status TestFft(Bench& bench) {
  RETURN_IF_ERROR(bench.Write(0, std::vector<float>{1, 0, 0, 0}));
  const std::vector<int64_t> ints = {/*dim=*/0, /*forward=*/1};
  const std::vector<double> floats = {2.0};
  RETURN_IF_ERROR(bench.Launch(
      {.kernel = Kernel::kFft, .ints = ints, .floats = floats},
      {bench.Tensor(2, DType::kComplex64, {3})}, {bench.Floats(0, {4})}));
  return bench.Expect("fft", 2, {2, 0, 2, 0, 2, 0});
}

absl::Status TestAttention(Bench& bench) {
  // The second key is masked by its number.
  RETURN_IF_ERROR(bench.Write(0, std::vector<float>{1, 1, 3, 4}));
  const std::vector<int64_t> ints = {/*causal=*/1};
  RETURN_IF_ERROR(bench.Launch(
      {.kernel = Kernel::kAttention, .scalar = 1, .ints = ints},
      {bench.Floats(2, {1, 1, 1, 2}), ResolvedOperand()},
      {bench.Floats(0, {1, 1, 1, 2}), bench.Floats(0, {1, 1, 2, 2}),
       bench.Floats(0, {1, 1, 2, 2}), ResolvedOperand()}));
  return bench.Expect("attention", 2, {1, 1});
}

}  // namespace

absl::Status SelfCheck(TvarantRuntime& runtime, int device) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench,
                   Bench::Create(runtime, device));
  for (const auto test :
       {TestFillAndCopy, TestPointwise, TestReduce, TestGemm, TestSoftmax,
        TestIndexSelect, TestRandom, TestNorm, TestLoss, TestScan, TestScatter,
        TestConvolution, TestPool, TestSort, TestDistance, TestFft,
        TestAttention}) {
    const absl::Status status = test(*bench);
    // A family that the runtime doesn't have is none that it gets wrong.
    if (!absl::IsUnimplemented(status)) RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

}  // namespace tvarant

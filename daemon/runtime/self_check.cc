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
constexpr uint64_t kSlots = 8;

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

}  // namespace

absl::Status SelfCheck(TvarantRuntime& runtime, int device) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench,
                   Bench::Create(runtime, device));
  for (const auto test : {TestFillAndCopy, TestPointwise, TestReduce, TestGemm,
                          TestSoftmax, TestIndexSelect, TestRandom}) {
    RETURN_IF_ERROR(test(*bench));
  }
  return absl::OkStatus();
}

}  // namespace tvarant

// copy, fill, arange, triangle, cat.

#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

constexpr DType kConvertible[] = {
    DType::kBool,    DType::kUInt8,   DType::kInt8,      DType::kInt16,
    DType::kInt32,   DType::kInt64,   DType::kFloat16,   DType::kBFloat16,
    DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128};
constexpr DType kBitTypes[] = {DType::kUInt16, DType::kUInt32, DType::kUInt64};

Tensor Small(DType dtype, const Dims& shape, Layout layout, bool negative,
             std::mt19937_64& random) {
  Tensor x(dtype, shape, layout);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const Real low = negative && dtype != DType::kUInt8 ? -50 : 0;
    x.Set(i, low + random() % 100, low + random() % 100);
  }
  return x;
}

absl::Status RunCopy(Backend& backend, DType from, DType to, uint32_t flags) {
  std::mt19937_64 random = SeedOf("copy");
  // Negative numbers where both types hold them; -x of what is not negative.
  const bool negative = to != DType::kUInt8 && flags == 0;
  size_t turn = 0;
  for (const Dims& shape : Shapes()) {
    ++turn;
    const Tensor x =
        Small(from, shape, kSrcLayouts[turn % 6], negative, random);
    Tensor y(to, shape, kDstLayouts[turn % 4]);
    Launch launch(Kernel::kCopy);
    launch.params.flags = flags;
    launch.dst = {&y};
    launch.src = {&x};
    RETURN_IF_ERROR(backend.Run(launch));
    const Real sign = flags & kNegate ? -1 : 1;
    const Real imag_sign = flags & kConjugate ? -sign : sign;
    RETURN_IF_ERROR(ExpectValues("real part", y,
                                 [&](int64_t i) -> Real {
                                   // A complex number is true when either part
                                   // is.
                                   if (to == DType::kBool)
                                     return x.Get(i) != 0 || x.GetImag(i) != 0;
                                   return RoundTo(to, sign * x.Get(i));
                                 },
                                 {.ulps = 0, .absolute = 0}));
    if (!IsComplex(to)) continue;
    for (int64_t i = 0; i < y.numel(); ++i) {
      if (y.GetImag(i) != imag_sign * x.GetImag(i)) {
        return absl::InternalError(
            absl::StrCat(y.Describe(), ": imaginary part of element ", i,
                         " is ", static_cast<double>(y.GetImag(i))));
      }
    }
  }
  return absl::OkStatus();
}

// Every bit arrives, NaN payloads and odd bytes included.
absl::Status RunBitCopy(Backend& backend, DType dtype) {
  std::mt19937_64 random = SeedOf("bits");
  const size_t element = SizeOf(dtype);
  for (const Layout layout : kDstLayouts) {
    for (const Dims& shape : {Dims{}, Dims{65}, Dims{7, 33}}) {
      Tensor x(dtype, shape, layout), y(dtype, shape);
      for (char& byte : x.bytes()) {
        byte =
            static_cast<char>(dtype == DType::kBool ? random() % 2 : random());
      }
      Launch launch(Kernel::kCopy);
      launch.dst = {&y};
      launch.src = {&x};
      RETURN_IF_ERROR(backend.Run(launch));
      for (int64_t i = 0; i < x.numel(); ++i) {
        const Dims at = x.CoordinatesOf(i);
        int64_t from = 0;
        for (int d = 0; d < x.rank(); ++d) from += at[d] * x.strides()[d];
        const char* want = x.bytes().data() + x.offset_bytes() + from * element;
        const char* got = y.bytes().data() + y.offset_bytes() + i * element;
        if (std::memcmp(got, want, element) != 0) {
          return absl::InternalError(
              absl::StrCat("element ", i, " of ", y.Describe(),
                           " has other bits than ", x.Describe()));
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status RunFill(Backend& backend, DType dtype) {
  size_t turn = 0;
  for (const Dims& shape : Shapes()) {
    ++turn;
    Tensor y(dtype, shape, kDstLayouts[turn % 4]);
    Tensor one(dtype, {1});
    const Real value = dtype == DType::kBool ? 1 : 77;
    one.Set(0, value, 33);
    Launch launch(Kernel::kFill);
    launch.ints = {0, 0};
    std::memcpy(launch.ints.data(), one.bytes().data() + one.offset_bytes(),
                SizeOf(dtype));
    launch.dst = {&y};
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(ExpectValues("fill", y, [&](int64_t) { return value; },
                                 {.ulps = 0, .absolute = 0}));
    for (int64_t i = 0; i < y.numel(); ++i) {
      if (y.GetImag(i) != one.GetImag(0)) {
        return absl::InternalError("an imaginary part is wrong");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status RunArange(Backend& backend, DType dtype) {
  for (const int64_t n : {0, 1, 7, 16, 33, 100, 30000}) {
    if (dtype != DType::kFloat32 && dtype != DType::kFloat64 &&
        dtype != DType::kInt32 && dtype != DType::kInt64 && n > 100) {
      continue;
    }
    for (const Layout layout : kDstLayouts) {
      Tensor y(dtype, {n}, layout);
      Launch launch(Kernel::kArange);
      launch.dst = {&y};
      if (IsFloating(dtype)) {
        launch.floats = {-1.5, 0.25};
      } else {
        launch.ints = {2, 1};
      }
      RETURN_IF_ERROR(backend.Run(launch));
      RETURN_IF_ERROR(ExpectValues(
          "arange", y,
          [&](int64_t i) -> Real {
            return IsFloating(dtype) ? RoundTo(dtype, -1.5L + 0.25L * i)
                                     : Real(2 + i);
          },
          {.ulps = 0, .absolute = 0}));
    }
  }
  return absl::OkStatus();
}

absl::Status RunTriangle(Backend& backend, DType dtype) {
  std::mt19937_64 random = SeedOf("triangle");
  size_t turn = 0;
  for (const Dims& shape :
       {Dims{1, 1}, Dims{3, 5}, Dims{17, 16}, Dims{0, 4}, Dims{2, 3, 7, 5}}) {
    for (const int64_t diagonal : {-100, -2, 0, 1, 3, 100}) {
      for (const int64_t upper : {0, 1}) {
        ++turn;
        const Tensor x =
            Small(dtype, shape, kSrcLayouts[turn % 6], true, random);
        Tensor y(dtype, shape, kDstLayouts[turn % 4]);
        Launch launch(Kernel::kTriangle);
        launch.ints = {diagonal, upper};
        launch.dst = {&y};
        launch.src = {&x};
        RETURN_IF_ERROR(backend.Run(launch));
        RETURN_IF_ERROR(ExpectValues("triangle", y, [&](int64_t i) {
          const Dims at = y.CoordinatesOf(i);
          const int64_t above = at[at.size() - 1] - at[at.size() - 2];
          const bool keep = upper ? above >= diagonal : above <= diagonal;
          return keep ? x.Get(i) : Real{0};
        }));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status RunCat(Backend& backend, DType dtype) {
  std::mt19937_64 random = SeedOf("cat");
  for (const int64_t dim : {0, 1, 2}) {
    Dims sizes = {3, 4, 5};
    std::vector<Tensor> parts;
    int64_t total = 0;
    for (const int64_t size : {2, 0, 1, 33, 7, 16}) {
      sizes[dim] = size;
      total += size;
      // Some of another dtype, as type promotion gives them.
      const DType part_dtype =
          parts.size() == 4 && !IsComplex(dtype) ? DType::kBool : dtype;
      parts.push_back(Small(part_dtype, sizes, kSrcLayouts[parts.size() % 6],
                            true, random));
    }
    sizes[dim] = total;
    Tensor y(dtype, sizes, kDstLayouts[dim + 1]);
    Launch launch(Kernel::kCat);
    launch.ints = {dim};
    launch.dst = {&y};
    for (const Tensor& part : parts) launch.src.push_back(&part);
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(ExpectValues("cat", y, [&](int64_t i) {
      Dims at = y.CoordinatesOf(i);
      for (const Tensor& part : parts) {
        if (at[dim] < part.size(static_cast<int>(dim))) {
          return part.Get(part.IndexOf(at));
        }
        at[dim] -= part.size(static_cast<int>(dim));
      }
      return Real{-1};
    }));
  }
  return absl::OkStatus();
}

// More inputs than fit in any small table.
absl::Status RunCatMany(Backend& backend) {
  std::vector<Tensor> parts;
  for (int i = 0; i < 1000; ++i) {
    parts.emplace_back(DType::kInt32, Dims{i % 3});
    parts.back().Fill([&](int64_t k) { return i * 10 + k; });
  }
  std::vector<Real> want;
  for (const Tensor& part : parts) {
    for (int64_t k = 0; k < part.numel(); ++k) want.push_back(part.Get(k));
  }
  Tensor y(DType::kInt32, {static_cast<int64_t>(want.size())});
  Launch launch(Kernel::kCat);
  launch.ints = {0};
  launch.dst = {&y};
  for (const Tensor& part : parts) launch.src.push_back(&part);
  RETURN_IF_ERROR(backend.Run(launch));
  return ExpectValues("cat", y, [&](int64_t i) { return want[i]; });
}

}  // namespace

void AddCopyCases(CaseList& cases) {
  const auto add = [&](Kernel kernel, const std::string& name,
                       std::function<absl::Status(Backend&)> run) {
    cases.push_back({name, kernel, {}, std::move(run)});
  };
  for (const DType from : kConvertible) {
    for (const DType to : kConvertible) {
      add(Kernel::kCopy, absl::StrCat("copy/", NameOf(from), "/", NameOf(to)),
          [=](Backend& backend) { return RunCopy(backend, from, to, 0); });
    }
  }
  for (const DType dtype : {DType::kFloat32, DType::kInt32, DType::kComplex64,
                            DType::kComplex128}) {
    for (const uint32_t flags : {uint32_t{kNegate}, uint32_t{kConjugate},
                                 uint32_t{kConjugate | kNegate}}) {
      add(Kernel::kCopy, absl::StrCat("copy/flags", flags, "/", NameOf(dtype)),
          [=](Backend& backend) {
            return RunCopy(backend, dtype, dtype, flags);
          });
    }
  }
  for (int i = 1; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    add(Kernel::kCopy, absl::StrCat("copy/bits/", NameOf(dtype)),
        [=](Backend& backend) { return RunBitCopy(backend, dtype); });
    add(Kernel::kFill, absl::StrCat("fill/", NameOf(dtype)),
        [=](Backend& backend) { return RunFill(backend, dtype); });
  }
  for (const DType dtype : kConvertible) {
    add(Kernel::kTriangle, absl::StrCat("triangle/", NameOf(dtype)),
        [=](Backend& backend) { return RunTriangle(backend, dtype); });
    add(Kernel::kCat, absl::StrCat("cat/", NameOf(dtype)),
        [=](Backend& backend) { return RunCat(backend, dtype); });
    if (ComputeClassOf(dtype) == ComputeClass::kNone || dtype == DType::kBool) {
      continue;
    }
    add(Kernel::kArange, absl::StrCat("arange/", NameOf(dtype)),
        [=](Backend& backend) { return RunArange(backend, dtype); });
  }
  for (const DType dtype : kBitTypes) {
    add(Kernel::kCat, absl::StrCat("cat/", NameOf(dtype)),
        [=](Backend& backend) {
          std::mt19937_64 random = SeedOf("cat bits");
          const Tensor a =
              Small(dtype, {3, 4}, Layout::kTransposed, false, random);
          const Tensor b =
              Small(dtype, {2, 4}, Layout::kContiguous, false, random);
          Tensor y(dtype, {5, 4});
          Launch launch(Kernel::kCat);
          launch.ints = {0};
          launch.dst = {&y};
          launch.src = {&a, &b};
          RETURN_IF_ERROR(backend.Run(launch));
          return ExpectValues("cat", y, [&](int64_t i) {
            return i < 12 ? a.Get(i) : b.Get(i - 12);
          });
        });
  }
  add(Kernel::kCat, "cat/many", RunCatMany);
}

}  // namespace tvarant::conformance

// Programs of more than one op: sources, casts, several outputs, in place,
// long chains, and lists of groups.

#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

constexpr DType kF32 = DType::kFloat32, kF64 = DType::kFloat64;
constexpr DType kI64 = DType::kInt64, kBool = DType::kBool;

constexpr DType kComputable[] = {
    DType::kBool,    DType::kUInt8,  DType::kInt8,    DType::kInt16,
    DType::kInt32,   DType::kInt64,  DType::kFloat16, DType::kBFloat16,
    DType::kFloat32, DType::kFloat64};

// What every dtype holds: 0 to 1 for bool, small whole numbers for others.
Real SmallValue(DType from, DType to, std::mt19937_64& random) {
  const bool is_signed = from != DType::kUInt8 && to != DType::kUInt8;
  const Real value = static_cast<Real>(random() % 100) - (is_signed ? 50 : 0);
  return from == kBool ? Real(random() % 2) : value;
}

// Load, then cast, then store: each pair of dtypes at each of the three.
absl::Status RunCast(Backend& backend, DType from, DType to) {
  std::mt19937_64 random = SeedOf("cast");
  for (const Dims& shape : {Dims{}, Dims{17}, Dims{3, 40}}) {
    Tensor x(from, shape);
    x.Fill([&](int64_t) { return SmallValue(from, to, random); });
    for (const bool by_cast : {false, true}) {
      ProgramBuilder p;
      p.Store(by_cast ? p.Op(PointwiseOp::kCast, to, p.Load(0, from))
                      : p.Load(0, to));
      const Program program = std::move(p).Build();
      Tensor y(to, shape, Layout::kOffset);
      Launch launch(Kernel::kPointwise);
      launch.program = &program;
      launch.dst = {&y};
      launch.src = {&x};
      RETURN_IF_ERROR(backend.Run(launch));
      RETURN_IF_ERROR(ExpectValues(
          "cast", y, [&](int64_t i) { return RoundTo(to, x.Get(i)); }));
    }
    // The store converts, too.
    ProgramBuilder p;
    p.Store(p.Load(0, from));
    const Program program = std::move(p).Build();
    Tensor y(to, shape, Layout::kTransposed);
    Launch launch(Kernel::kPointwise);
    launch.program = &program;
    launch.dst = {&y};
    launch.src = {&x};
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(ExpectValues(
        "store", y, [&](int64_t i) { return RoundTo(to, x.Get(i)); }));
  }
  return absl::OkStatus();
}

absl::Status RunCastRounds(Backend& backend) {
  // float32 -> half types rounds half to even; float -> bool is a != 0;
  // float -> integer truncates.
  struct Pair {
    DType to;
    std::vector<Real> values;
  };
  for (const Pair& pair :
       {Pair{DType::kFloat16,
             {1.00048828125L, 1.00146484375L, 65519.0L, 65520.0L, 1e-8L, 6e-8L,
              -0.3L}},
        Pair{DType::kBFloat16, {1.00390625L, 1.01171875L, 3.4e38L, -0.3L}},
        Pair{kBool, {0.0L, -0.0L, 0.25L, -7.0L}},
        Pair{DType::kInt32, {2.75L, -2.75L, 0.99L, -0.99L, 123456.5L}}}) {
    ProgramBuilder p;
    p.Store(p.Op(PointwiseOp::kCast, pair.to, p.Load(0, kF32)));
    const Program program = std::move(p).Build();
    const int64_t n = static_cast<int64_t>(pair.values.size());
    Tensor x(kF32, {n}), y(pair.to, {n});
    x.Fill([&](int64_t i) { return pair.values[i]; });
    Launch launch(Kernel::kPointwise);
    launch.program = &program;
    launch.dst = {&y};
    launch.src = {&x};
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(ExpectValues(
        "cast", y, [&](int64_t i) { return RoundTo(pair.to, x.Get(i)); },
        {.ulps = 0, .absolute = 0}));
  }
  return absl::OkStatus();
}

absl::Status RunConstants(Backend& backend) {
  for (const DType dtype : kComputable) {
    const bool is_float = IsFloating(dtype);
    ProgramBuilder p;
    p.Store(is_float ? p.Const(-1.5, dtype) : p.ConstInt(1, dtype));
    p.Store(p.Scalar(1, dtype));
    const Program program = std::move(p).Build();
    for (const Dims& shape : Shapes()) {
      Tensor y(dtype, shape), z(dtype, shape, Layout::kGaps);
      Launch launch(Kernel::kPointwise);
      launch.program = &program;
      launch.dst = {&y, &z};
      if (is_float) {
        launch.floats = {7, 2.25};
      } else {
        launch.ints = {7, dtype == kBool ? 1 : 100};
      }
      RETURN_IF_ERROR(backend.Run(launch));
      RETURN_IF_ERROR(ExpectValues(
          "const", y, [&](int64_t) -> Real { return is_float ? -1.5L : 1; }));
      RETURN_IF_ERROR(ExpectValues("scalar", z, [&](int64_t) -> Real {
        return is_float ? 2.25L : dtype == kBool ? 1 : 100;
      }));
    }
  }
  return absl::OkStatus();
}

// An int64 constant and scalar keep all their bits.
absl::Status RunWideIntegers(Backend& backend) {
  constexpr int64_t kWide = 0x7edcba9876543211;
  ProgramBuilder p;
  p.Store(p.ConstInt(kWide, kI64));
  p.Store(p.Scalar(0, kI64));
  const Program program = std::move(p).Build();
  Tensor y(kI64, {5}), z(kI64, {5});
  Launch launch(Kernel::kPointwise);
  launch.program = &program;
  launch.dst = {&y, &z};
  launch.ints = {-kWide};
  RETURN_IF_ERROR(backend.Run(launch));
  RETURN_IF_ERROR(
      ExpectValues("const", y, [&](int64_t) -> Real { return kWide; }));
  return ExpectValues("scalar", z, [&](int64_t) -> Real { return -kWide; });
}

absl::Status RunWhere(Backend& backend, DType dtype) {
  std::mt19937_64 random = SeedOf("where");
  ProgramBuilder p;
  const int condition = p.Load(0, kBool);
  p.Store(p.Op(PointwiseOp::kWhere, dtype, condition, p.Load(1, dtype),
               p.Load(2, dtype)));
  const Program program = std::move(p).Build();
  size_t turn = 0;
  for (const Dims& shape : Shapes()) {
    ++turn;
    Tensor c(kBool, shape, kSrcLayouts[turn % 6]);
    Tensor a(dtype, shape, kSrcLayouts[(turn + 2) % 6]);
    Tensor b(dtype, shape, kSrcLayouts[(turn + 3) % 6]);
    Tensor y(dtype, shape, kDstLayouts[turn % 4]);
    // Any byte but 0 is true.
    c.Fill([&](int64_t) { return random() % 2; });
    for (char& byte : c.bytes()) {
      if (byte == 1) byte = static_cast<char>(random() % 255 + 1);
    }
    a.FillRandom(random, 0, 100);
    b.FillRandom(random, 0, 100);
    if (IsFloating(dtype)) {
      // The branch not taken leaves no trace.
      b.Fill([&](int64_t) -> Real { return NAN; });
    }
    Launch launch(Kernel::kPointwise);
    launch.program = &program;
    launch.dst = {&y};
    launch.src = {&c, &a, &b};
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(ExpectValues("where", y, [&](int64_t i) {
      return c.Get(i) != 0 ? a.Get(i) : b.Get(i);
    }));
  }
  return absl::OkStatus();
}

// s = sigmoid(a * b + 0.5), y = s * s - a, is_large = s > 0.5
absl::Status RunSeveralOutputs(Backend& backend) {
  std::mt19937_64 random = SeedOf("outputs");
  ProgramBuilder p;
  const int a = p.Load(0, kF64), b = p.Load(1, kF64);
  const int product = p.Op(PointwiseOp::kMul, kF64, a, b);
  const int s = p.Op(PointwiseOp::kSigmoid, kF64,
                     p.Op(PointwiseOp::kAdd, kF64, product, p.Scalar(0, kF64)));
  const int y =
      p.Op(PointwiseOp::kSub, kF64, p.Op(PointwiseOp::kSquare, kF64, s), a);
  p.Store(y);
  p.Store(p.Op(PointwiseOp::kGt, kBool, s, p.Const(0.5, kF64)));
  p.Store(s);
  const Program program = std::move(p).Build();
  size_t turn = 0;
  for (const Dims& shape : Shapes()) {
    ++turn;
    Tensor ta(kF32, shape, kSrcLayouts[turn % 6]);
    Tensor tb(DType::kInt32, shape, kSrcLayouts[(turn + 1) % 6]);
    Tensor ty(kF64, shape, kDstLayouts[turn % 4]);
    Tensor tl(kBool, shape, kDstLayouts[(turn + 1) % 4]);
    Tensor ts(kF32, shape, kDstLayouts[(turn + 2) % 4]);
    ta.FillRandom(random, -2, 2);
    tb.FillRandom(random, -3, 3);
    Launch launch(Kernel::kPointwise);
    launch.program = &program;
    launch.floats = {0.5};
    launch.dst = {&ty, &tl, &ts};
    launch.src = {&ta, &tb};
    RETURN_IF_ERROR(backend.Run(launch));
    const auto sigmoid = [&](int64_t i) {
      return 1 / (1 + std::exp(-(ta.Get(i) * tb.Get(i) + 0.5L)));
    };
    RETURN_IF_ERROR(ExpectValues(
        "y", ty, [&](int64_t i) { return sigmoid(i) * sigmoid(i) - ta.Get(i); },
        {.ulps = 8, .absolute = 8}));
    RETURN_IF_ERROR(ExpectValues("is_large", tl, [&](int64_t i) {
      return Real(ts.Get(i) > 0.5L || (ts.Get(i) == 0.5L && sigmoid(i) > 0.5L));
    }));
    RETURN_IF_ERROR(ExpectValues("s", ts, sigmoid, {.ulps = 8}));
  }
  return absl::OkStatus();
}

absl::Status RunInPlace(Backend& backend) {
  std::mt19937_64 random = SeedOf("in place");
  ProgramBuilder p;
  const int a = p.Load(0, kF32), b = p.Load(1, kF32);
  p.Store(p.Op(PointwiseOp::kAdd, kF32, a, b, -1, 0.5));
  const Program program = std::move(p).Build();
  size_t turn = 0;
  for (const Dims& shape : Shapes()) {
    ++turn;
    Tensor y(kF32, shape, kDstLayouts[turn % 4]);
    Tensor x(kF32, shape, kSrcLayouts[turn % 6]);
    y.FillRandom(random, -8, 8);
    x.FillRandom(random, -8, 8);
    const Tensor before = y;
    Launch launch(Kernel::kPointwise);
    launch.program = &program;
    launch.dst = {&y};
    launch.src = {&y, &x};
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(ExpectValues(
        "y", y, [&](int64_t i) { return before.Get(i) + 0.5L * x.Get(i); },
        {.ulps = 2, .absolute = 16}));
  }
  return absl::OkStatus();
}

// As long as programs may be: x + 1 + 1 + ...
absl::Status RunLongProgram(Backend& backend) {
  ProgramBuilder p;
  int value = p.Load(0, kI64);
  const int one = p.ConstInt(1, kI64);
  for (int i = 2; i < kMaxProgramNodes; ++i) {
    value = p.Op(PointwiseOp::kAdd, kI64, value, one);
  }
  p.Store(value);
  const Program program = std::move(p).Build();
  Tensor x(kI64, {37}), y(kI64, {37});
  x.Fill([](int64_t i) { return i * i; });
  Launch launch(Kernel::kPointwise);
  launch.program = &program;
  launch.dst = {&y};
  launch.src = {&x};
  RETURN_IF_ERROR(backend.Run(launch));
  return ExpectValues(
      "y", y, [&](int64_t i) { return x.Get(i) + kMaxProgramNodes - 2; });
}

// As many inputs and outputs as programs may have.
absl::Status RunManyOperands(Backend& backend) {
  ProgramBuilder p;
  std::vector<int> loads;
  for (int i = 0; i < kMaxProgramInputs; ++i) loads.push_back(p.Load(i, kF32));
  int sum = loads[0];
  for (int i = 1; i < kMaxProgramInputs; ++i) {
    sum = p.Op(PointwiseOp::kAdd, kF32, sum, loads[i]);
    if (i < kMaxProgramOutputs) p.Store(sum);
  }
  p.Store(sum);
  const Program program = std::move(p).Build();
  std::vector<Tensor> x, y;
  for (int i = 0; i < kMaxProgramInputs; ++i) {
    x.emplace_back(kF32, Dims{3, 7}, kSrcLayouts[i % 6]);
    x.back().Fill([&](int64_t k) { return (i * 7 + k) % 10; });
  }
  for (int i = 0; i < kMaxProgramOutputs; ++i) {
    y.emplace_back(kF32, Dims{3, 7}, kDstLayouts[i % 4]);
  }
  Launch launch(Kernel::kPointwise);
  launch.program = &program;
  for (Tensor& tensor : y) launch.dst.push_back(&tensor);
  for (const Tensor& tensor : x) launch.src.push_back(&tensor);
  RETURN_IF_ERROR(backend.Run(launch));
  for (int i = 0; i < kMaxProgramOutputs; ++i) {
    const int terms = i + 1 < kMaxProgramOutputs ? i + 2 : kMaxProgramInputs;
    RETURN_IF_ERROR(ExpectValues("sum", y[i], [&](int64_t k) {
      Real total = 0;
      for (int j = 0; j < terms; ++j) total += x[j].Get(k);
      return total;
    }));
  }
  return absl::OkStatus();
}

// v = mu * v + g; p = p - lr * v, over groups of different sizes, in place.
absl::Status RunForeach(Backend& backend, DType dtype, bool per_group) {
  std::mt19937_64 random = SeedOf("foreach");
  const DType computing = dtype == kF64 ? kF64 : kF32;
  ProgramBuilder builder;
  const int weight = builder.Load(0, computing);
  const int velocity = builder.Load(1, computing);
  const int gradient = builder.Load(2, computing);
  const int mu = builder.Scalar(0, computing);
  const int lr = builder.Scalar(1, computing);
  const int next = builder.Op(
      PointwiseOp::kAdd, computing,
      builder.Op(PointwiseOp::kMul, computing, mu, velocity), gradient);
  builder.Store(builder.Op(PointwiseOp::kSub, computing, weight,
                           builder.Op(PointwiseOp::kMul, computing, lr, next)));
  builder.Store(next);
  const Program program = std::move(builder).Build();

  const std::vector<Dims> sizes = {{3}, {0}, {64, 17}, {}, {30000}, {5, 1}};
  const int groups = static_cast<int>(sizes.size());
  std::vector<Tensor> p, v, g;
  for (int i = 0; i < groups; ++i) {
    p.emplace_back(dtype, sizes[i], kDstLayouts[i % 4]);
    v.emplace_back(dtype, sizes[i], kDstLayouts[(i + 1) % 4]);
    g.emplace_back(dtype, sizes[i], kSrcLayouts[i % 6]);
    p.back().FillRandom(random, -2, 2);
    v.back().FillRandom(random, -2, 2);
    g.back().FillRandom(random, -2, 2);
  }
  const std::vector<Tensor> p_before = p, v_before = v;
  Launch launch(Kernel::kPointwiseForeach);
  launch.program = &program;
  launch.params.batch = groups;
  if (per_group) launch.params.flags = kPerGroupScalars;
  for (int i = 0; i < groups; ++i) {
    launch.dst.push_back(&p[i]);
    launch.dst.push_back(&v[i]);
    launch.src.push_back(&p[i]);
    launch.src.push_back(&v[i]);
    launch.src.push_back(&g[i]);
    if (per_group || i == 0) {
      launch.floats.push_back(0.5 + 0.125 * i);
      launch.floats.push_back(0.25 * (i + 1));
    }
  }
  RETURN_IF_ERROR(backend.Run(launch));
  for (int i = 0; i < groups; ++i) {
    const double* scalars = launch.floats.data() + (per_group ? 2 * i : 0);
    const auto velocity_of = [&](int64_t k) {
      return scalars[0] * v_before[i].Get(k) + g[i].Get(k);
    };
    RETURN_IF_ERROR(
        ExpectValues("v", v[i], velocity_of, {.ulps = 4, .absolute = 4}));
    RETURN_IF_ERROR(ExpectValues("p", p[i],
                                 [&](int64_t k) {
                                   return p_before[i].Get(k) -
                                          scalars[1] * velocity_of(k);
                                 },
                                 {.ulps = 8, .absolute = 8}));
  }
  return absl::OkStatus();
}

}  // namespace

void AddProgramCases(CaseList& cases) {
  const auto add = [&](const std::string& name, std::vector<PointwiseOp> ops,
                       std::function<absl::Status(Backend&)> run) {
    cases.push_back({name, Kernel::kPointwise, std::move(ops), std::move(run)});
  };
  for (const DType from : kComputable) {
    for (const DType to : kComputable) {
      add(absl::StrCat("pointwise/cast/", NameOf(from), "/", NameOf(to)),
          {PointwiseOp::kLoad, PointwiseOp::kCast},
          [=](Backend& backend) { return RunCast(backend, from, to); });
    }
    add(absl::StrCat("pointwise/where/", NameOf(from)), {PointwiseOp::kWhere},
        [=](Backend& backend) { return RunWhere(backend, from); });
  }
  add("pointwise/cast_rounds", {PointwiseOp::kCast}, RunCastRounds);
  add("pointwise/constants", {PointwiseOp::kConst, PointwiseOp::kScalar},
      RunConstants);
  add("pointwise/wide_integers", {}, RunWideIntegers);
  add("pointwise/several_outputs", {}, RunSeveralOutputs);
  add("pointwise/in_place", {}, RunInPlace);
  add("pointwise/long_program", {}, RunLongProgram);
  add("pointwise/many_operands", {}, RunManyOperands);
  for (const DType dtype : kFloatDTypes) {
    for (const bool per_group : {false, true}) {
      cases.push_back({absl::StrCat("pointwise_foreach/sgd/", NameOf(dtype),
                                    per_group ? "/per_group" : ""),
                       Kernel::kPointwiseForeach,
                       {},
                       [=](Backend& backend) {
                         return RunForeach(backend, dtype, per_group);
                       }});
    }
  }
}

}  // namespace tvarant::conformance

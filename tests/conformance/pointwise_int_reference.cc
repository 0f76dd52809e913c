#include <algorithm>
#include <numeric>
#include <utility>

#include "tests/conformance/pointwise_reference.h"

namespace tvarant::conformance {
namespace {

int64_t WrapTo(uint64_t value, int bits) {
  return bits == 32 ? static_cast<int32_t>(static_cast<uint32_t>(value))
                    : static_cast<int64_t>(value);
}

uint64_t U(int64_t value) { return static_cast<uint64_t>(value); }

int64_t IntDivTrunc(int64_t a, int64_t b, int bits) {
  if (b == -1) return WrapTo(-U(a), bits);
  return a / b;
}

int64_t IntFmod(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

int64_t IntDivFloor(int64_t a, int64_t b, int bits) {
  const int64_t quotient = IntDivTrunc(a, b, bits);
  return IntFmod(a, b) != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t IntRemainder(int64_t a, int64_t b) {
  const int64_t rest = IntFmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

uint64_t Gcd(int64_t a, int64_t b) {
  return std::gcd(a < 0 ? -U(a) : U(a), b < 0 ? -U(b) : U(b));
}

IntReference Division(
    std::function<int64_t(int64_t, int64_t, int64_t, int64_t, int)> value) {
  IntReference reference;
  reference.value = std::move(value);
  reference.divides = true;
  return reference;
}

int64_t IntPow(int64_t a, int64_t b, int bits) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1;
  for (int64_t i = 0; i < b; ++i) result *= U(a);
  return WrapTo(result, bits);
}

IntReference Int(
    std::function<int64_t(int64_t, int64_t, int64_t, int64_t, int)> value,
    std::vector<int64_t> b_inputs = {}) {
  IntReference reference;
  reference.value = std::move(value);
  reference.inputs[1] = std::move(b_inputs);
  return reference;
}

}  // namespace

IntReference IntReferenceOf(PointwiseOp op) {
  switch (op) {
    case PointwiseOp::kAdd:
      return Int([](int64_t a, int64_t b, int64_t, int64_t alpha, int bits) {
        return WrapTo(U(a) + U(alpha) * U(b), bits);
      });
    case PointwiseOp::kMul:
      return Int([](int64_t a, int64_t b, int64_t, int64_t, int bits) {
        return WrapTo(U(a) * U(b), bits);
      });
    case PointwiseOp::kRelu:
      return Int([](int64_t a, int64_t, int64_t, int64_t, int) {
        return std::max<int64_t>(a, 0);
      });
    case PointwiseOp::kNeg:
      return Int([](int64_t a, int64_t, int64_t, int64_t, int bits) {
        return WrapTo(-U(a), bits);
      });
    case PointwiseOp::kScale:
      return Int([](int64_t a, int64_t, int64_t, int64_t alpha, int bits) {
        return WrapTo(U(alpha) * U(a), bits);
      });
    case PointwiseOp::kIdentity:
      return Int([](int64_t a, int64_t, int64_t, int64_t, int) { return a; });
    case PointwiseOp::kSub:
      return Int([](int64_t a, int64_t b, int64_t, int64_t, int bits) {
        return WrapTo(U(a) - U(b), bits);
      });
    case PointwiseOp::kDivTrunc:
      return Division([](int64_t a, int64_t b, int64_t, int64_t, int bits) {
        return IntDivTrunc(a, b, bits);
      });
    case PointwiseOp::kDivFloor:
      return Division([](int64_t a, int64_t b, int64_t, int64_t, int bits) {
        return IntDivFloor(a, b, bits);
      });
    case PointwiseOp::kRemainder:
      return Division([](int64_t a, int64_t b, int64_t, int64_t, int) {
        return IntRemainder(a, b);
      });
    case PointwiseOp::kFmod:
      return Division([](int64_t a, int64_t b, int64_t, int64_t, int) {
        return IntFmod(a, b);
      });
    case PointwiseOp::kPow:
      return Int([](int64_t a, int64_t b, int64_t, int64_t,
                    int bits) { return IntPow(a, b, bits); },
                 {0, 1, 2, 3, 5, 8, -1, -2});
    case PointwiseOp::kMaximum:
      return Int([](int64_t a, int64_t b, int64_t, int64_t, int) {
        return std::max(a, b);
      });
    case PointwiseOp::kMinimum:
      return Int([](int64_t a, int64_t b, int64_t, int64_t, int) {
        return std::min(a, b);
      });
    case PointwiseOp::kEq:
      return Int([](int64_t a, int64_t b, int64_t, int64_t, int) {
        return int64_t{a == b};
      });
    case PointwiseOp::kNe:
      return Int([](int64_t a, int64_t b, int64_t, int64_t, int) {
        return int64_t{a != b};
      });
    case PointwiseOp::kLt:
      return Int([](int64_t a, int64_t b, int64_t, int64_t, int) {
        return int64_t{a < b};
      });
    case PointwiseOp::kLe:
      return Int([](int64_t a, int64_t b, int64_t, int64_t, int) {
        return int64_t{a <= b};
      });
    case PointwiseOp::kGt:
      return Int([](int64_t a, int64_t b, int64_t, int64_t, int) {
        return int64_t{a > b};
      });
    case PointwiseOp::kGe:
      return Int([](int64_t a, int64_t b, int64_t, int64_t, int) {
        return int64_t{a >= b};
      });
    case PointwiseOp::kLogicalAnd:
      return Int([](int64_t a, int64_t b, int64_t, int64_t, int) {
        return int64_t{a != 0 && b != 0};
      });
    case PointwiseOp::kLogicalOr:
      return Int([](int64_t a, int64_t b, int64_t, int64_t, int) {
        return int64_t{a != 0 || b != 0};
      });
    case PointwiseOp::kLogicalXor:
      return Int([](int64_t a, int64_t b, int64_t, int64_t, int) {
        return int64_t{(a != 0) != (b != 0)};
      });
    case PointwiseOp::kLogicalNot:
      return Int([](int64_t a, int64_t, int64_t, int64_t, int) {
        return int64_t{a == 0};
      });
    case PointwiseOp::kIsNan:
      return Int(
          [](int64_t, int64_t, int64_t, int64_t, int) { return int64_t{0}; });
    case PointwiseOp::kSignbit:
      return Int([](int64_t a, int64_t, int64_t, int64_t, int) {
        return int64_t{a < 0};
      });
    case PointwiseOp::kBitAnd:
      return Int(
          [](int64_t a, int64_t b, int64_t, int64_t, int) { return a & b; });
    case PointwiseOp::kBitOr:
      return Int(
          [](int64_t a, int64_t b, int64_t, int64_t, int) { return a | b; });
    case PointwiseOp::kBitXor:
      return Int(
          [](int64_t a, int64_t b, int64_t, int64_t, int) { return a ^ b; });
    case PointwiseOp::kBitNot:
      return Int([](int64_t a, int64_t, int64_t, int64_t, int) { return ~a; });
    case PointwiseOp::kShiftLeft:
      return Int(
          [](int64_t a, int64_t b, int64_t, int64_t, int bits) {
            return b < 0 || b >= bits ? 0 : WrapTo(U(a) << b, bits);
          },
          {0, 1, 2, 5, 7, 31, 32, 63, 64, 100, -1});
    case PointwiseOp::kShiftRight:
      return Int([](int64_t a, int64_t b, int64_t, int64_t,
                    int) { return a >> std::min<int64_t>(b, 63); },
                 {0, 1, 2, 5, 7, 31, 32, 63, 64, 100});
    case PointwiseOp::kAbs:
      return Int([](int64_t a, int64_t, int64_t, int64_t, int bits) {
        return a < 0 ? WrapTo(-U(a), bits) : a;
      });
    case PointwiseOp::kSign:
      return Int([](int64_t a, int64_t, int64_t, int64_t, int) {
        return int64_t{a > 0} - int64_t{a < 0};
      });
    case PointwiseOp::kSquare:
      return Int([](int64_t a, int64_t, int64_t, int64_t, int bits) {
        return WrapTo(U(a) * U(a), bits);
      });
    case PointwiseOp::kClamp:
      return Int([](int64_t a, int64_t b, int64_t c, int64_t, int) {
        return std::min(std::max(a, b), c);
      });
    case PointwiseOp::kAddcmul:
      return Int([](int64_t a, int64_t b, int64_t c, int64_t alpha, int bits) {
        return WrapTo(U(a) + U(alpha) * U(b) * U(c), bits);
      });
    case PointwiseOp::kThresholdGrad:
      return Int([](int64_t a, int64_t b, int64_t c, int64_t, int) {
        return b <= c ? 0 : a;
      });
    case PointwiseOp::kGcd:
      return Int([](int64_t a, int64_t b, int64_t, int64_t, int bits) {
        return WrapTo(Gcd(a, b), bits);
      });
    case PointwiseOp::kLcm: {
      IntReference reference = Int([](int64_t a, int64_t b, int64_t, int64_t,
                                      int) { return std::lcm(a, b); },
                                   {0, 1, 2, 3, 4, 6, 9, 12, -6, -8, 7, 10});
      reference.inputs[0] = reference.inputs[1];
      return reference;
    }
    default:
      return {};
  }
}

}  // namespace tvarant::conformance

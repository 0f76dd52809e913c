// Special functions: gamma, Bessel, error functions, orthogonal polynomials.

#include <ATen/ops/digamma_meta.h>
#include <ATen/ops/erfinv_meta.h>
#include <ATen/ops/gcd_meta.h>
#include <ATen/ops/i0_meta.h>
#include <ATen/ops/igamma_meta.h>
#include <ATen/ops/igammac_meta.h>
#include <ATen/ops/lcm_meta.h>
#include <ATen/ops/nextafter_meta.h>
#include <ATen/ops/polygamma_meta.h>
#include <ATen/ops/special_airy_ai_meta.h>
#include <ATen/ops/special_bessel_j0_meta.h>
#include <ATen/ops/special_bessel_j1_meta.h>
#include <ATen/ops/special_bessel_y0_meta.h>
#include <ATen/ops/special_bessel_y1_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_t_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_u_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_v_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_w_meta.h>
#include <ATen/ops/special_entr_meta.h>
#include <ATen/ops/special_erfcx_meta.h>
#include <ATen/ops/special_hermite_polynomial_h_meta.h>
#include <ATen/ops/special_hermite_polynomial_he_meta.h>
#include <ATen/ops/special_i0e_meta.h>
#include <ATen/ops/special_i1_meta.h>
#include <ATen/ops/special_i1e_meta.h>
#include <ATen/ops/special_laguerre_polynomial_l_meta.h>
#include <ATen/ops/special_legendre_polynomial_p_meta.h>
#include <ATen/ops/special_log_ndtr_meta.h>
#include <ATen/ops/special_modified_bessel_i0_meta.h>
#include <ATen/ops/special_modified_bessel_i1_meta.h>
#include <ATen/ops/special_modified_bessel_k0_meta.h>
#include <ATen/ops/special_modified_bessel_k1_meta.h>
#include <ATen/ops/special_ndtri_meta.h>
#include <ATen/ops/special_scaled_modified_bessel_k0_meta.h>
#include <ATen/ops/special_scaled_modified_bessel_k1_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_t_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_u_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_v_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_w_meta.h>
#include <ATen/ops/special_spherical_bessel_j0_meta.h>
#include <ATen/ops/special_zeta_meta.h>

#include <cmath>

#include "torch_plugin/aten/structured_op.h"

namespace tvarant::torch_plugin {
namespace {

namespace meta = at::meta;

// A polynomial of 2 x - 1.
template <PointwiseOp op>
int EmitShifted(Emitter& e) {
  const int x = e.In(0);
  return e.Op(op, e.Sub(e.Add(x, x), e.Const(1)), e.In(1));
}

// -x log(x), 0 at 0, -inf below; NaN stays.
int EmitEntr(Emitter& e) {
  const int x = e.In(0), zero = e.Const(0);
  const int inside =
      e.Op(PointwiseOp::kNeg, e.Mul(x, e.Op(PointwiseOp::kLog, x)));
  return e.Select(e.Test(PointwiseOp::kIsNan, x), x,
                  e.Select(e.Test(PointwiseOp::kGt, x, zero), inside,
                           e.Select(e.Test(PointwiseOp::kEq, x, zero), zero,
                                    e.Const(-INFINITY))));
}

template <PointwiseOp op>
int EmitIntegers(Emitter& e) {
  if (e.is_bool()) ThrowNotImplementedFor(NameOf(op), ScalarType::Bool);
  return e.Op(op, e.In(0), e.In(1));
}

// --- polygamma ----------------------------------------------------------

// (-1)^(n + 1) n! zeta(n + 1, x); the factor, n + 1.
int EmitPolygamma(Emitter& e) {
  return e.Mul(e.Scalar(0), e.Op(PointwiseOp::kZeta, e.Scalar(1), e.In(0)));
}

Tensor& PolygammaOut(int64_t n, const Tensor& self, Tensor& out) {
  if (NeedsFallback(self, out)) {
    return FallbackInto(out, "polygamma", "out", n, self, out);
  }
  OutOp<meta::structured_polygamma> op(out);
  op.meta(n, self);
  if (n == 0) {
    RunPointwise(op, EmitUnary<PointwiseOp::kDigamma>);
  } else {
    const double order = static_cast<double>(n) + 1;
    const double factorial = std::tgamma(order);
    RunPointwise(
        op, EmitPolygamma,
        {{Scalar(n % 2 == 0 ? -factorial : factorial), Scalar(order)}});
  }
  return op.Finish();
}

Tensor Polygamma(int64_t n, const Tensor& self) {
  const ScalarType type =
      c10::isIntegralType(self.scalar_type(), /*includeBool=*/true)
          ? c10::typeMetaToScalarType(c10::get_default_dtype())
          : self.scalar_type();
  Tensor out = EmptyLikeOf(self, {0}, type);
  return PolygammaOut(n, self, out);
}

// --- nextafter ----------------------------------------------------------
// The neighbour in the computing type: half types have others.

using NextafterOp =
    StructuredOp<"nextafter", "", "out", &meta::structured_nextafter::meta,
                 EmitBinary<PointwiseOp::kNextafter>>;

bool HasNextafter(const Tensor& self, const Tensor& other) {
  return self.element_size() >= 4 && other.element_size() >= 4;
}
Tensor Nextafter(const Tensor& self, const Tensor& other) {
  if (HasNextafter(self, other)) return NextafterOp::Functional(self, other);
  return FallbackTensor("nextafter", "", self, other);
}
Tensor& NextafterOut(const Tensor& self, const Tensor& other, Tensor& out) {
  if (HasNextafter(self, other)) return NextafterOp::Out(self, other, out);
  return FallbackInto(out, "nextafter", "out", self, other, out);
}
Tensor& NextafterInplace(Tensor& self, const Tensor& other) {
  if (HasNextafter(self, other)) return NextafterOp::Inplace(self, other);
  return FallbackInto(self, "nextafter_", "", self, other);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define TVARANT_SPECIAL(name, emit)                              \
  StructuredOp<#name, "", "out", &meta::structured_##name::meta, \
               emit>::RegisterNoInplace(m)
#define TVARANT_INPLACE(name, emit)                              \
  StructuredOp<#name, "", "out", &meta::structured_##name::meta, \
               emit>::Register(m)
#define TVARANT_UNARY(name, Op) \
  TVARANT_SPECIAL(name, EmitUnary<PointwiseOp::k##Op>)
#define TVARANT_BINARY(name, Op) \
  TVARANT_SPECIAL(name, EmitBinary<PointwiseOp::k##Op>)
#define TVARANT_SHIFTED(name, Op) \
  TVARANT_SPECIAL(name, EmitShifted<PointwiseOp::k##Op>)
  TVARANT_INPLACE(digamma, EmitUnary<PointwiseOp::kDigamma>);
  TVARANT_INPLACE(erfinv, EmitUnary<PointwiseOp::kErfinv>);
  TVARANT_INPLACE(i0, EmitUnary<PointwiseOp::kBesselI0>);
  TVARANT_INPLACE(igamma, EmitBinary<PointwiseOp::kIgamma>);
  TVARANT_INPLACE(igammac, EmitBinary<PointwiseOp::kIgammac>);
  TVARANT_INPLACE(gcd, EmitIntegers<PointwiseOp::kGcd>);
  TVARANT_INPLACE(lcm, EmitIntegers<PointwiseOp::kLcm>);

  TVARANT_SPECIAL(special_entr, EmitEntr);
  TVARANT_UNARY(special_erfcx, Erfcx);
  TVARANT_UNARY(special_ndtri, Ndtri);
  TVARANT_UNARY(special_log_ndtr, LogNdtr);
  TVARANT_UNARY(special_i0e, BesselI0e);
  TVARANT_UNARY(special_i1, BesselI1);
  TVARANT_UNARY(special_i1e, BesselI1e);
  TVARANT_UNARY(special_modified_bessel_i0, BesselI0);
  TVARANT_UNARY(special_modified_bessel_i1, BesselI1);
  TVARANT_UNARY(special_modified_bessel_k0, BesselK0);
  TVARANT_UNARY(special_modified_bessel_k1, BesselK1);
  TVARANT_UNARY(special_scaled_modified_bessel_k0, BesselK0e);
  TVARANT_UNARY(special_scaled_modified_bessel_k1, BesselK1e);
  TVARANT_UNARY(special_bessel_j0, BesselJ0);
  TVARANT_UNARY(special_bessel_j1, BesselJ1);
  TVARANT_UNARY(special_bessel_y0, BesselY0);
  TVARANT_UNARY(special_bessel_y1, BesselY1);
  TVARANT_UNARY(special_spherical_bessel_j0, SphericalJ0);
  TVARANT_UNARY(special_airy_ai, AiryAi);

  TVARANT_BINARY(special_zeta, Zeta);
  TVARANT_BINARY(special_chebyshev_polynomial_t, ChebyshevT);
  TVARANT_BINARY(special_chebyshev_polynomial_u, ChebyshevU);
  TVARANT_BINARY(special_chebyshev_polynomial_v, ChebyshevV);
  TVARANT_BINARY(special_chebyshev_polynomial_w, ChebyshevW);
  TVARANT_BINARY(special_hermite_polynomial_h, HermiteH);
  TVARANT_BINARY(special_hermite_polynomial_he, HermiteHe);
  TVARANT_BINARY(special_laguerre_polynomial_l, Laguerre);
  TVARANT_BINARY(special_legendre_polynomial_p, Legendre);
  TVARANT_SHIFTED(special_shifted_chebyshev_polynomial_t, ChebyshevT);
  TVARANT_SHIFTED(special_shifted_chebyshev_polynomial_u, ChebyshevU);
  TVARANT_SHIFTED(special_shifted_chebyshev_polynomial_v, ChebyshevV);
  TVARANT_SHIFTED(special_shifted_chebyshev_polynomial_w, ChebyshevW);
#undef TVARANT_SPECIAL
#undef TVARANT_INPLACE
#undef TVARANT_UNARY
#undef TVARANT_BINARY
#undef TVARANT_SHIFTED

  m.impl("polygamma", &Polygamma);
  m.impl("polygamma.out", &PolygammaOut);
  m.impl("nextafter", &Nextafter);
  m.impl("nextafter.out", &NextafterOut);
  m.impl("nextafter_", &NextafterInplace);
}

}  // namespace tvarant::torch_plugin

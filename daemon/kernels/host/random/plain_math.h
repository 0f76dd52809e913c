// Logarithm, sine and cosine from +, -, *, / alone: the same bits on every
// instruction set, and on any device with IEEE arithmetic. The polynomials are
// those of FreeBSD's msun (log, and sin and cos in double) and of Cephes (sin
// and cos in float). Include only in SIMD sources.

#ifndef TVARANT_DAEMON_KERNELS_HOST_RANDOM_PLAIN_MATH_H_
#define TVARANT_DAEMON_KERNELS_HOST_RANDOM_PLAIN_MATH_H_

#include <cstdint>

#include "daemon/kernels/host/half.h"

namespace tvarant::host::TVARANT_ISA {

// log(x), x positive and normal: x = 2^k * (1 + f) with 1 + f near 1,
// log(1 + f) by s = f / (2 + f).
TVARANT_INLINE float PlainLog(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x) + 0x004AFB0Du;
  const float k = static_cast<float>(static_cast<int32_t>(bits >> 23) - 127);
  const float f =
      __builtin_bit_cast(float, (bits & 0x007FFFFF) + 0x3F3504F3u) - 1.0f;
  const float s = f / (2.0f + f);
  const float z = s * s;
  const float w = z * z;
  const float even = w * (0x1.999c26p-2f + w * 0x1.f13c4cp-3f);
  const float odd = z * (0x1.555554p-1f + w * 0x1.23d3dcp-2f);
  const float half_square = 0.5f * f * f;
  return s * (half_square + (odd + even)) + k * 9.0580006145e-06f -
         half_square + f + k * 6.9313812256e-01f;
}

TVARANT_INLINE double PlainLog(double x) {
  const uint64_t bits = __builtin_bit_cast(uint64_t, x) +
                        (0x3FF0000000000000u - 0x3FE6A09E00000000u);
  const double k = static_cast<double>(static_cast<int32_t>(bits >> 52) - 1023);
  const double f = __builtin_bit_cast(double, (bits & 0x000FFFFFFFFFFFFFu) +
                                                  0x3FE6A09E00000000u) -
                   1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double w = z * z;
  const double even =
      w * (3.999999999940941908e-01 +
           w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double odd =
      z * (6.666666666666735130e-01 +
           w * (2.857142874366239149e-01 +
                w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double half_square = 0.5 * f * f;
  return s * (half_square + (odd + even)) + k * 1.90821492927058770002e-10 -
         half_square + f + k * 6.93147180369123816490e-01;
}

// sin and cos on [-pi/4, pi/4].
TVARANT_INLINE float SinNearZero(float x) {
  const float z = x * x;
  return ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) *
             z * x +
         x;
}

TVARANT_INLINE float CosNearZero(float x) {
  const float z = x * x;
  return ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z +
          4.166664568298827e-2f) *
             z * z -
         0.5f * z + 1.0f;
}

TVARANT_INLINE double SinNearZero(double x) {
  const double z = x * x;
  const double sum = -1.66666666666666324348e-01 +
                     z * (8.33333333332248946124e-03 +
                          z * (-1.98412698298579493134e-04 +
                               z * (2.75573137070700676789e-06 +
                                    z * (-2.50507602534068634195e-08 +
                                         z * 1.58969099521155010221e-10))));
  return x + x * z * sum;
}

TVARANT_INLINE double CosNearZero(double x) {
  const double z = x * x;
  const double sum = 4.16666666666666019037e-02 +
                     z * (-1.38888888888741095749e-03 +
                          z * (2.48015872894767294178e-05 +
                               z * (-2.75573143513906633035e-07 +
                                    z * (2.08757232129817482790e-09 +
                                         z * -1.13596475577881948265e-11))));
  return 1.0 - (0.5 * z - z * z * sum);
}

// cos and sin of 2 pi u, 0 <= u < 1: the quadrant is split off exactly.
template <typename T>
TVARANT_INLINE void PlainCosSin(T u, T* cosine, T* sine) {
  const int32_t quadrant = static_cast<int32_t>(u * T(4) + T(0.5));
  const T x =
      (u - static_cast<T>(quadrant) * T(0.25)) * T(6.28318530717958647692);
  const T s = SinNearZero(x);
  const T c = CosNearZero(x);
  const T swapped_c = quadrant & 1 ? s : c;
  const T swapped_s = quadrant & 1 ? c : s;
  *cosine = (quadrant + 1) & 2 ? -swapped_c : swapped_c;
  *sine = quadrant & 2 ? -swapped_s : swapped_s;
}

}  // namespace tvarant::host::TVARANT_ISA

#endif  // TVARANT_DAEMON_KERNELS_HOST_RANDOM_PLAIN_MATH_H_

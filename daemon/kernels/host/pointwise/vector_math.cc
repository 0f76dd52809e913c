// Scalar and vector forms of the math functions, by SLEEF: see vector_math.h.
//
// The finz (with FMA) and cinz (without) variants of SLEEF give the same bits
// for every vector width. A clone's name in the vector function ABI is
// _ZGV<set>N<lanes><v per argument>_<scalar name>, where the sets are b SSE,
// c AVX, d AVX2 and e AVX-512.

#include <sleef.h>

#define TVARANT_MATH_NAMES_ONLY
#include "daemon/kernels/host/pointwise/vector_math.h"

#define TVARANT_STRING_(x) #x
#define TVARANT_STRING(x) TVARANT_STRING_(x)

// One clone: set, lanes, vector type, SLEEF's name.
#define CLONE_1(set, lanes, Vector, name, sleef)                       \
  Vector TVARANT_MATH(name##_##set##lanes)(Vector x) __asm__(          \
      "_ZGV" #set "N" #lanes "v_" TVARANT_STRING(TVARANT_MATH(name))); \
  Vector TVARANT_MATH(name##_##set##lanes)(Vector x) { return sleef(x); }
#define CLONE_2(set, lanes, Vector, name, sleef)                        \
  Vector TVARANT_MATH(name##_##set##lanes)(Vector x, Vector y) __asm__( \
      "_ZGV" #set "N" #lanes "vv_" TVARANT_STRING(TVARANT_MATH(name))); \
  Vector TVARANT_MATH(name##_##set##lanes)(Vector x, Vector y) {        \
    return sleef(x, y);                                                 \
  }
#define SCALAR_1(T, name, sleef) \
  T TVARANT_MATH(name)(T x) { return sleef(x); }
#define SCALAR_2(T, name, sleef) \
  T TVARANT_MATH(name)(T x, T y) { return sleef(x, y); }

#if defined(__AVX2__)
#define SCALARS(arity, name, acc)                                       \
  SCALAR_##arity(float, name##f, Sleef_finz_##name##f1_##acc##purecfma) \
      SCALAR_##arity(double, name, Sleef_finz_##name##d1_##acc##purecfma)
// GCC takes the SSE and AVX clones for loop remainders.
#define CLONES_256(arity, name, acc)                                           \
  CLONE_##arity(b, 4, __m128, name##f, Sleef_finz_##name##f4_##acc##avx2128)   \
      CLONE_##arity(b, 2, __m128d, name, Sleef_finz_##name##d2_##acc##avx2128) \
          CLONE_##arity(c, 8, __m256, name##f,                                 \
                        Sleef_finz_##name##f8_##acc##avx2)                     \
              CLONE_##arity(c, 4, __m256d, name,                               \
                            Sleef_finz_##name##d4_##acc##avx2)                 \
                  CLONE_##arity(d, 8, __m256, name##f,                         \
                                Sleef_finz_##name##f8_##acc##avx2)             \
                      CLONE_##arity(d, 4, __m256d, name,                       \
                                    Sleef_finz_##name##d4_##acc##avx2)
#if defined(__AVX512F__)
#define CLONES(arity, name, acc)                                               \
  CLONES_256(arity, name, acc)                                                 \
  CLONE_##arity(e, 16, __m512, name##f, Sleef_finz_##name##f16_##acc##avx512f) \
      CLONE_##arity(e, 8, __m512d, name, Sleef_finz_##name##d8_##acc##avx512f)
#else
#define CLONES(arity, name, acc) CLONES_256(arity, name, acc)
#endif
#elif defined(__x86_64__)
#define SCALARS(arity, name, acc)                                    \
  SCALAR_##arity(float, name##f, Sleef_cinz_##name##f1_##acc##purec) \
      SCALAR_##arity(double, name, Sleef_cinz_##name##d1_##acc##purec)
#define CLONES(arity, name, acc)                                          \
  CLONE_##arity(b, 4, __m128, name##f, Sleef_cinz_##name##f4_##acc##sse2) \
      CLONE_##arity(b, 2, __m128d, name, Sleef_cinz_##name##d2_##acc##sse2)
#else
#define SCALARS(arity, name, acc)                                    \
  SCALAR_##arity(float, name##f, Sleef_cinz_##name##f1_##acc##purec) \
      SCALAR_##arity(double, name, Sleef_cinz_##name##d1_##acc##purec)
#define CLONES(arity, name, acc)
#endif

extern "C" {
#define TVARANT_SLEEF_FUNCTION(name, arity, acc, prefix) \
  SCALARS(arity, name, acc)                              \
  CLONES(arity, name, acc)
#include "daemon/kernels/host/pointwise/sleef_functions.inc"
}  // extern "C"

// Math functions that GCC's vectoriser knows how to call on whole vectors.
//
// For each row of sleef_functions.inc: tvarant_<isa>_<name>f(float) and
// tvarant_<isa>_<name>(double). Under GCC on x86-64 they carry the `simd`
// attribute, so a plain loop over such a call becomes a loop over its vector
// clone (_ZGVdN8v_... and so on, the names of the x86-64 vector function ABI);
// vector_math.cc defines the clones by SLEEF. Scalar and vector forms give the
// same bits, so a result does not depend on an element's place in a tensor.
//
// Textual: include under TVARANT_ISA.

#ifndef TVARANT_DAEMON_KERNELS_HOST_POINTWISE_VECTOR_MATH_H_
#define TVARANT_DAEMON_KERNELS_HOST_POINTWISE_VECTOR_MATH_H_

#define TVARANT_MATH_CAT4_(a, b, c, d) a##b##c##d
#define TVARANT_MATH_CAT4(a, b, c, d) TVARANT_MATH_CAT4_(a, b, c, d)
// The name of a function for this instruction set.
#define TVARANT_MATH(name) TVARANT_MATH_CAT4(tvarant_, TVARANT_ISA, _, name)

#ifndef TVARANT_MATH_NAMES_ONLY

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define TVARANT_MATH_SIMD __attribute__((simd("notinbranch"), const, nothrow))
#else
#define TVARANT_MATH_SIMD __attribute__((const, nothrow))
#endif

extern "C" {
#define TVARANT_MATH_DECLARE_1(name)                      \
  TVARANT_MATH_SIMD float TVARANT_MATH(name##f)(float x); \
  TVARANT_MATH_SIMD double TVARANT_MATH(name)(double x);
#define TVARANT_MATH_DECLARE_2(name)                               \
  TVARANT_MATH_SIMD float TVARANT_MATH(name##f)(float x, float y); \
  TVARANT_MATH_SIMD double TVARANT_MATH(name)(double x, double y);
#define TVARANT_SLEEF_FUNCTION(name, arity, accuracy, prefix) \
  TVARANT_MATH_DECLARE_##arity(name)
#include "daemon/kernels/host/pointwise/sleef_functions.inc"
#undef TVARANT_MATH_DECLARE_1
#undef TVARANT_MATH_DECLARE_2
}  // extern "C"

#endif  // TVARANT_MATH_NAMES_ONLY

#endif  // TVARANT_DAEMON_KERNELS_HOST_POINTWISE_VECTOR_MATH_H_

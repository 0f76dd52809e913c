// Runs of random numbers by element index, on one thread.
//
// Philox 4x32-10 from Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers:
// As Easy as 1, 2, 3" (2011). Which words an element takes:
// proto/ops/kernels.md. Nothing here depends on the instruction set: integer
// arithmetic, and floating-point +, -, *, / and square root, each rounded by
// itself.

#ifndef TVARANT_DAEMON_KERNELS_HOST_RANDOM_RANDOM_WORDS_H_
#define TVARANT_DAEMON_KERNELS_HOST_RANDOM_RANDOM_WORDS_H_

#include <cstdint>

#include "daemon/kernels/host/isa.h"

namespace tvarant::host {

// Elements that one call makes at most; a call starts at a multiple of 4.
inline constexpr int64_t kRandomBlock = 1024;

struct RandomStream {
  uint64_t seed = 0;
  uint64_t offset = 0;
};

// out[4 * j + w]: word w of counter offset + first_counter + j.
TVARANT_DECLARE_FOR_ISAS(void PhiloxWords(const RandomStream& stream,
                                          uint64_t first_counter,
                                          int64_t counters, uint32_t* out));

// a <= x < b, at most `limit`.
TVARANT_DECLARE_FOR_ISAS(void UniformFloats(const RandomStream& stream,
                                            int64_t first, int64_t count,
                                            float a, float b, float limit,
                                            float* out));
TVARANT_DECLARE_FOR_ISAS(void UniformDoubles(const RandomStream& stream,
                                             int64_t first, int64_t count,
                                             double a, double b, double limit,
                                             double* out));

TVARANT_DECLARE_FOR_ISAS(void NormalFloats(const RandomStream& stream,
                                           int64_t first, int64_t count,
                                           float mean, float deviation,
                                           float* out));
TVARANT_DECLARE_FOR_ISAS(void NormalDoubles(const RandomStream& stream,
                                            int64_t first, int64_t count,
                                            double mean, double deviation,
                                            double* out));

TVARANT_DECLARE_FOR_ISAS(void ExponentialFloats(const RandomStream& stream,
                                                int64_t first, int64_t count,
                                                float rate, float* out));
TVARANT_DECLARE_FOR_ISAS(void ExponentialDoubles(const RandomStream& stream,
                                                 int64_t first, int64_t count,
                                                 double rate, double* out));

// 1 with probability p, else 0. pairs: the elements are of 64 bits.
TVARANT_DECLARE_FOR_ISAS(void BernoulliBytes(const RandomStream& stream,
                                             int64_t first, int64_t count,
                                             double p, bool pairs,
                                             uint8_t* out));

// low + word % range; range 0 stands for 2^64.
TVARANT_DECLARE_FOR_ISAS(void Integers(const RandomStream& stream,
                                       int64_t first, int64_t count,
                                       int64_t low, uint64_t range, bool pairs,
                                       int64_t* out));

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_RANDOM_RANDOM_WORDS_H_

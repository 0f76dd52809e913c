#include "daemon/kernels/host/random/random_words.h"

#include "daemon/kernels/host/half.h"
#include "daemon/kernels/host/random/plain_math.h"

namespace tvarant::host::TVARANT_ISA {
namespace {

// Counters worked on side by side, so that loops over them become vectors.
constexpr int kLanes = 16;

struct Group {
  uint32_t word[4][kLanes];
};

TVARANT_INLINE void MulHighLow(uint32_t a, uint32_t b, uint32_t* high,
                               uint32_t* low) {
  const uint64_t product = static_cast<uint64_t>(a) * b;
  *high = static_cast<uint32_t>(product >> 32);
  *low = static_cast<uint32_t>(product);
}

void PhiloxGroup(uint64_t seed, uint64_t counter, Group* out) {
  Group g;
  for (int i = 0; i < kLanes; ++i) {
    g.word[0][i] = static_cast<uint32_t>(counter + i);
    g.word[1][i] = static_cast<uint32_t>((counter + i) >> 32);
    g.word[2][i] = 0;
    g.word[3][i] = 0;
  }
  uint32_t key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kLanes; ++i) {
      uint32_t high0, low0, high1, low1;
      MulHighLow(0xD2511F53u, g.word[0][i], &high0, &low0);
      MulHighLow(0xCD9E8D57u, g.word[2][i], &high1, &low1);
      g.word[0][i] = high1 ^ g.word[1][i] ^ key0;
      g.word[1][i] = low1;
      g.word[2][i] = high0 ^ g.word[3][i] ^ key1;
      g.word[3][i] = low0;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  *out = g;
}

// The words of elements [first, first + count), one or two (pairs) each.
struct Words {
  Words(const RandomStream& stream, int64_t first, int64_t count, bool pairs) {
    const int64_t per_counter = pairs ? 2 : 4;
    PhiloxWords(stream, static_cast<uint64_t>(first / per_counter),
                (count + per_counter - 1) / per_counter, word);
  }
  TVARANT_INLINE uint64_t Pair(int64_t i) const {
    return word[2 * i] | static_cast<uint64_t>(word[2 * i + 1]) << 32;
  }

  uint32_t word[2 * kRandomBlock];
};

// [0, 1) by 24 or 53 bits.
TVARANT_INLINE float Unit(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24f;
}
TVARANT_INLINE double Unit(uint64_t word) {
  return static_cast<double>(static_cast<int64_t>(word >> 11)) * 0x1p-53;
}

// (0, 1]: its logarithm is finite.
TVARANT_INLINE float UnitAboveZero(uint32_t word) {
  // In two halves, each exact as a float; the sum is rounded once.
  const float high = static_cast<float>(static_cast<int32_t>(word >> 16));
  const float low = static_cast<float>(static_cast<int32_t>(word & 0xFFFF) + 1);
  return (high * 65536.0f + low) * 0x1p-32f;
}
TVARANT_INLINE double UnitAboveZero(uint64_t word) {
  return static_cast<double>(static_cast<int64_t>((word >> 11) + 1)) * 0x1p-53;
}

// (0, 1), both ends left out.
TVARANT_INLINE float UnitInside(uint32_t word) {
  return (static_cast<float>(static_cast<int32_t>(word >> 9)) + 0.5f) *
         0x1p-23f;
}
TVARANT_INLINE double UnitInside(uint64_t word) {
  return (static_cast<double>(static_cast<int64_t>(word >> 12)) + 0.5) *
         0x1p-52;
}

TVARANT_INLINE float SquareRoot(float x) { return __builtin_sqrtf(x); }
TVARANT_INLINE double SquareRoot(double x) { return __builtin_sqrt(x); }

// Box and Muller: two uniform numbers give two normal ones.
template <typename T, typename W>
TVARANT_INLINE void NormalPair(W word0, W word1, T mean, T deviation, T* out) {
  const T radius = SquareRoot(T(-2) * PlainLog(UnitAboveZero(word0)));
  T cosine, sine;
  PlainCosSin(Unit(word1), &cosine, &sine);
  out[0] = mean + deviation * (radius * cosine);
  out[1] = mean + deviation * (radius * sine);
}

}  // namespace

void PhiloxWords(const RandomStream& stream, uint64_t first_counter,
                 int64_t counters, uint32_t* out) {
  Group group;
  for (int64_t done = 0; done < counters; done += kLanes) {
    PhiloxGroup(stream.seed, stream.offset + first_counter + done, &group);
    const int64_t live = counters - done < kLanes ? counters - done : kLanes;
    for (int64_t i = 0; i < live; ++i) {
      for (int w = 0; w < 4; ++w) out[4 * (done + i) + w] = group.word[w][i];
    }
  }
}

void UniformFloats(const RandomStream& stream, int64_t first, int64_t count,
                   float a, float b, float limit, float* out) {
  const Words words(stream, first, count, false);
  const float width = b - a;
  for (int64_t i = 0; i < count; ++i) {
    const float x = a + Unit(words.word[i]) * width;
    out[i] = x < limit ? x : limit;
  }
}

void UniformDoubles(const RandomStream& stream, int64_t first, int64_t count,
                    double a, double b, double limit, double* out) {
  const Words words(stream, first, count, true);
  const double width = b - a;
  for (int64_t i = 0; i < count; ++i) {
    const double x = a + Unit(words.Pair(i)) * width;
    out[i] = x < limit ? x : limit;
  }
}

void NormalFloats(const RandomStream& stream, int64_t first, int64_t count,
                  float mean, float deviation, float* out) {
  const Words words(stream, first, count, false);
  float made[kRandomBlock];
  for (int64_t i = 0; i < (count + 1) / 2; ++i) {
    NormalPair(words.word[2 * i], words.word[2 * i + 1], mean, deviation,
               made + 2 * i);
  }
  for (int64_t i = 0; i < count; ++i) out[i] = made[i];
}

void NormalDoubles(const RandomStream& stream, int64_t first, int64_t count,
                   double mean, double deviation, double* out) {
  const Words words(stream, first, count, true);
  double made[kRandomBlock];
  for (int64_t i = 0; i < (count + 1) / 2; ++i) {
    NormalPair(words.Pair(2 * i), words.Pair(2 * i + 1), mean, deviation,
               made + 2 * i);
  }
  for (int64_t i = 0; i < count; ++i) out[i] = made[i];
}

void ExponentialFloats(const RandomStream& stream, int64_t first, int64_t count,
                       float rate, float* out) {
  const Words words(stream, first, count, false);
  for (int64_t i = 0; i < count; ++i) {
    out[i] = -PlainLog(UnitInside(words.word[i])) / rate;
  }
}

void ExponentialDoubles(const RandomStream& stream, int64_t first,
                        int64_t count, double rate, double* out) {
  const Words words(stream, first, count, true);
  for (int64_t i = 0; i < count; ++i) {
    out[i] = -PlainLog(UnitInside(words.Pair(i))) / rate;
  }
}

void BernoulliBytes(const RandomStream& stream, int64_t first, int64_t count,
                    double p, bool pairs, uint8_t* out) {
  const Words words(stream, first, count, pairs);
  const double inside = p > 0 ? (p < 1 ? p : 1) : 0;  // NaN gives 0
  if (pairs) {
    const uint64_t below = static_cast<uint64_t>(inside * 0x1p53);
    for (int64_t i = 0; i < count; ++i) out[i] = words.Pair(i) >> 11 < below;
    return;
  }
  const uint64_t below = static_cast<uint64_t>(inside * 0x1p32);
  if (below >> 32) {
    for (int64_t i = 0; i < count; ++i) out[i] = 1;
    return;
  }
  const uint32_t below32 = static_cast<uint32_t>(below);
  for (int64_t i = 0; i < count; ++i) out[i] = words.word[i] < below32;
}

void Integers(const RandomStream& stream, int64_t first, int64_t count,
              int64_t low, uint64_t range, bool pairs, int64_t* out) {
  const Words words(stream, first, count, pairs);
  const uint64_t base = static_cast<uint64_t>(low);
  if (pairs) {
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t word = words.Pair(i);
      out[i] = static_cast<int64_t>(base + (range == 0 ? word : word % range));
    }
    return;
  }
  const bool whole = range == 0 || range >> 32 != 0;
  const uint32_t range32 = whole ? 1 : static_cast<uint32_t>(range);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t word = words.word[i];
    out[i] = static_cast<int64_t>(base + (whole ? word : word % range32));
  }
}

}  // namespace tvarant::host::TVARANT_ISA

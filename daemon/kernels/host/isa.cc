#include "daemon/kernels/host/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace tvarant::host {
namespace {

#if defined(__x86_64__)
// Clang 14's __builtin_cpu_supports has no name for it.
bool HasF16c() {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

Isa DetectIsa() {
#if defined(__x86_64__)
  // __builtin_cpu_supports asks the operating system's state mask too.
  const bool avx2 = __builtin_cpu_supports("avx2") &&
                    __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2") && HasF16c();
  if (!avx2) return Isa::kBaseline;
  const bool avx512 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? Isa::kAvx512 : Isa::kAvx2;
#else
  return Isa::kBaseline;
#endif
}

bool DetectBFloat16() {
#if defined(__x86_64__)
  // Leaf 7, subleaf 1. Its state is that of AVX-512.
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & (1u << 5)) != 0;
#else
  return false;
#endif
}

Isa AtMostBest(Isa isa) { return isa < BestIsa() ? isa : BestIsa(); }

Isa InitialIsa() {
  const char* asked = std::getenv("TVARANT_ISA");
  if (asked != nullptr) {
    for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
      if (std::strcmp(asked, NameOf(isa)) == 0) return AtMostBest(isa);
    }
  }
  return BestIsa();
}

std::atomic<int> g_isa{-1};

}  // namespace

Isa BestIsa() {
  static const Isa best = DetectIsa();
  return best;
}

Isa CurrentIsa() {
  int isa = g_isa.load(std::memory_order_relaxed);
  if (isa < 0) {
    isa = static_cast<int>(InitialIsa());
    g_isa.store(isa, std::memory_order_relaxed);
  }
  return static_cast<Isa>(isa);
}

void SetIsaForTesting(Isa isa) {
  g_isa.store(static_cast<int>(AtMostBest(isa)), std::memory_order_relaxed);
}

const char* NameOf(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kBaseline:
      break;
  }
  return "baseline";
}

bool HasBFloat16() {
  static const bool found = DetectBFloat16();
  return found && CurrentIsa() == Isa::kAvx512;
}

}  // namespace tvarant::host

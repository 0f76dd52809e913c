// Which instruction set the kernels use: chosen once, at run time.
//
// Sources built by tvarant_simd_library exist once per instruction set, each
// in its own namespace. TVARANT_FOR_ISA picks the copy to call:
//
//   TVARANT_FOR_ISA(GetTable)()   // avx2::GetTable() on an AVX2 machine
//
// The environment variable TVARANT_ISA ("baseline", "avx2", "avx512") asks for
// a lower set than the CPU has. Thread-safe.

#ifndef TVARANT_DAEMON_KERNELS_HOST_ISA_H_
#define TVARANT_DAEMON_KERNELS_HOST_ISA_H_

namespace tvarant::host {

enum class Isa : int { kBaseline = 0, kAvx2 = 1, kAvx512 = 2 };

// The best set this CPU has.
Isa BestIsa();

// The set in use.
Isa CurrentIsa();

// Whether the CPU multiplies pairs of bfloat16 (AVX512_BF16), and the set in
// use is AVX-512.
bool HasBFloat16();

// Chooses a set, at most BestIsa(). For tests and benchmarks, while no kernel
// runs.
void SetIsaForTesting(Isa isa);

const char* NameOf(Isa isa);

}  // namespace tvarant::host

#if defined(__x86_64__)
#define TVARANT_FOR_ISA(name)                                     \
  (::tvarant::host::CurrentIsa() == ::tvarant::host::Isa::kAvx512 \
       ? avx512::name                                             \
   : ::tvarant::host::CurrentIsa() == ::tvarant::host::Isa::kAvx2 \
       ? avx2::name                                               \
       : baseline::name)
// Declares a function of every instruction set.
#define TVARANT_DECLARE_FOR_ISAS(declaration) \
  namespace baseline {                        \
  declaration;                                \
  }                                           \
  namespace avx2 {                            \
  declaration;                                \
  }                                           \
  namespace avx512 {                          \
  declaration;                                \
  }
#else
#define TVARANT_FOR_ISA(name) (baseline::name)
#define TVARANT_DECLARE_FOR_ISAS(declaration) \
  namespace baseline {                        \
  declaration;                                \
  }
#endif

#endif  // TVARANT_DAEMON_KERNELS_HOST_ISA_H_

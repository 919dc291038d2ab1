// Picks the build of the handlers that this host runs best.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "vgpu/lowering.h"

namespace assay::vgpu {

namespace avx2_plain {
void fill_engine(Engine&);
}
namespace avx2_watched {
void fill_engine(Engine&);
}
namespace avx512_plain {
void fill_engine(Engine&);
}
namespace avx512_watched {
void fill_engine(Engine&);
}

namespace {

using Fill = void (*)(Engine&);

struct Build {
  bool avx512, watched;
  Fill fill;
};

// Best first.
constexpr Build kBuilds[] = {
#ifdef ASSAY_HAS_AVX512_PLAIN
    {true, false, avx512_plain::fill_engine},
#endif
#ifdef ASSAY_HAS_AVX512_WATCHED
    {true, true, avx512_watched::fill_engine},
#endif
#ifdef ASSAY_HAS_AVX2_PLAIN
    {false, false, avx2_plain::fill_engine},
#endif
#ifdef ASSAY_HAS_AVX2_WATCHED
    {false, true, avx2_watched::fill_engine},
#endif
};

// ASSAY_ISA=avx2 asks for the engine of hosts without AVX-512.
bool may_use_avx512() {
  const char* wish = std::getenv("ASSAY_ISA");
  if (wish && std::string_view(wish) == "avx2") return false;
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const Build& best(bool watched) {
  for (const Build& build : kBuilds)
    if (build.watched == watched && (!build.avx512 || may_use_avx512())) return build;
  // Nothing can run without one, and there is no caller that could handle an error. Locks may be held that exit handlers wait
  // for.
  std::fputs("assay: this build has no engine for AVX2; configure it with -DASSAY_INSTRUCTION_SETS=all\n",
             stderr);
  std::_Exit(2);
}

Engine make(bool watched) {
  Engine engine{};
  best(watched).fill(engine);
  return engine;
}

}  // namespace

bool uses_avx512() {
  static const bool wide = best(false).avx512;
  return wide;
}

const Engine& engine(bool watched) {
  static const Engine plain = make(false);
  static const Engine with_checks = make(true);
  return watched ? with_checks : plain;
}

}  // namespace assay::vgpu

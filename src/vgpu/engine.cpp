// Picks the build of the handlers that this host runs best.
#include <cstdlib>
#include <cstring>

#include "vgpu/lowering.h"

namespace assay::vgpu {

namespace avx2_plain { void fill_engine(Engine&); }
namespace avx2_watched { void fill_engine(Engine&); }
namespace avx512_plain { void fill_engine(Engine&); }
namespace avx512_watched { void fill_engine(Engine&); }

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

bool host_has_avx512() {
  const char* wish = std::getenv("ASSAY_ISA");
  if (wish && std::strcmp(wish, "avx2") == 0) return false;
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

Engine make(bool watched) {
  Engine engine{};
  for (const Build& build : kBuilds) {
    if (build.watched != watched || (build.avx512 && !host_has_avx512())) continue;
    build.fill(engine);
    break;
  }
  return engine;
}

}  // namespace

const Engine& engine(bool watched) {
  static const Engine plain = make(false);
  static const Engine with_checks = make(true);
  return watched ? with_checks : plain;
}

}  // namespace assay::vgpu

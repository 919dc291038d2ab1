set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

option(ASSAY_TESTS "Build the tests" ON)
option(ASSAY_BENCH "Build the benchmarks" OFF)
option(ASSAY_FUZZ "Build the fuzzers (clang)" OFF)
option(ASSAY_PORTABLE "Link everything but the C library and libgcc_s statically, for a package that runs on other distributions" OFF)
option(ASSAY_SANITIZE "Build with address and undefined-behaviour sanitizers" OFF)

# The loops over lanes are compiled for an instruction set of the host. One costs a minute or two.
set(ASSAY_INSTRUCTION_SETS host CACHE STRING
  "Instruction sets of the virtual GPU: host (what this CPU has), all (for a package), or some of avx2;avx512")
set(ASSAY_ISA_avx2 -march=x86-64-v3)
set(ASSAY_ISA_avx512 -march=x86-64-v4 -mprefer-vector-width=512)
if(ASSAY_INSTRUCTION_SETS STREQUAL "all")
  set(ASSAY_ISAS avx2 avx512)
elseif(ASSAY_INSTRUCTION_SETS STREQUAL "host")
  set(ASSAY_ISAS avx512)
  set(cpu "")
  if(EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo cpu LIMIT_COUNT 1 REGEX "^flags")
  endif()
  foreach(flag avx512f avx512bw avx512dq avx512vl)  # as vgpu/engine.cpp asks at run time
    if(NOT cpu MATCHES " ${flag}( |$)")
      set(ASSAY_ISAS avx2)
    endif()
  endforeach()
else()
  set(ASSAY_ISAS ${ASSAY_INSTRUCTION_SETS})
endif()

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")

# Designated initialisers name what matters and leave the rest at its default.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Werror -Wno-missing-field-initializers)
# Bit-exact numerics: the compiler may never fuse a multiply and an add on its own.
add_compile_options(-ffp-contract=off -march=x86-64-v3)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Nobody replaces our functions from outside, so those of a library may be inlined: checks cost 3 to 8 % less.
  add_compile_options(-fno-semantic-interposition)
  # gcc collects its garbage from 128 MB on, which costs a tenth of its time.
  add_compile_options(--param=ggc-min-heapsize=1000000)
endif()

if(ASSAY_SANITIZE)
  # A host pointer is a device address plus a distance that may be negative: pointers wrap on purpose.
  # The compiler sees uninitialised values in its own library once the sanitizers have rewritten it.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=pointer-overflow -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g
    -Wno-maybe-uninitialized)
  add_link_options(-fsanitize=address,undefined)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()
if(ASSAY_PORTABLE)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  # libgcc_s stays shared, and unused parts of libstdc++ (random_device) go: both would ask for a newer C library.
  add_link_options(-static-libstdc++ -Wl,--gc-sections)
  find_library(FMT_STATIC fmt)  # many distributions have none
  add_library(fmt::fmt INTERFACE IMPORTED)
  if(FMT_STATIC)
    target_link_libraries(fmt::fmt INTERFACE ${FMT_STATIC})
  else()
    target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
  endif()
else()
  find_package(fmt REQUIRED)
endif()
find_package(Threads REQUIRED)

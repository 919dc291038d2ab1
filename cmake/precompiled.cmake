# assay_precompiled(NAME OPTIMISATION [TESTS] TARGETS ...): these targets read the headers of the standard library, of
# fmt and of nlohmann::json (and, with TESTS, of googletest) precompiled, which saves about a third of their time. All
# of them must be compiled with the same optimisation. Only in release builds: in the others, a file that forgets an
# include does not compile.
# gcc warns of its own library, which it no longer takes for a system header once it is precompiled.
set(ASSAY_PRECOMPILED_WARNINGS -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict -Wno-maybe-uninitialized
  -Wno-dangling-pointer)
function(assay_precompiled name optimisation)
  cmake_parse_arguments(ARG "TESTS" "" "TARGETS" ${ARGN})
  if(NOT CMAKE_BUILD_TYPE STREQUAL Release OR ASSAY_SANITIZE)
    return()
  endif()
  set(headers <algorithm> <chrono> <cmath> <filesystem> <fstream> <functional> <map> <memory> <optional> <set> <sstream>
    <string> <variant> <vector> <fmt/format.h> <nlohmann/json.hpp>)
  if(ARG_TESTS)
    list(APPEND headers <gmock/gmock.h>)
  endif()
  set(source ${PROJECT_BINARY_DIR}/precompiled_${name}.cpp)
  file(WRITE ${source} "// Compiled for its precompiled header alone.\n")
  add_library(assay_precompiled_${name} OBJECT ${source})
  target_compile_options(assay_precompiled_${name} PRIVATE ${optimisation})
  target_link_libraries(assay_precompiled_${name} PRIVATE fmt::fmt Threads::Threads)
  if(ARG_TESTS)
    target_link_libraries(assay_precompiled_${name} PRIVATE GTest::gmock GTest::gtest)
    # Programs, unlike libraries, are compiled with -fPIE.
    set_target_properties(assay_precompiled_${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(assay_precompiled_${name} PRIVATE -fPIE)
  endif()
  target_precompile_headers(assay_precompiled_${name} PRIVATE ${headers})
  foreach(target ${ARG_TARGETS})
    target_precompile_headers(${target} REUSE_FROM assay_precompiled_${name})
    target_compile_options(${target} PRIVATE ${ASSAY_PRECOMPILED_WARNINGS})
  endforeach()
endfunction()

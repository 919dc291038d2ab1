# assay_unity(TARGET ...): these targets are compiled some files at a time, which halves the time of a build from
# scratch: most of it goes into headers and templates that every file reads again. Helpers in anonymous namespaces of
# one room therefore need different names. Only in release builds: in the others, a file that forgets an include does
# not compile. Whoever edits one file again and again is quicker with -DASSAY_UNITY=OFF.
option(ASSAY_UNITY "Compile some files at a time, in release builds" ON)
function(assay_unity)
  if(NOT CMAKE_BUILD_TYPE STREQUAL Release OR ASSAY_SANITIZE OR NOT ASSAY_UNITY)
    return()
  endif()
  set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 20)
  # gcc takes a file that is included for a header, and a local name in one file shadows nothing of another.
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage -Wno-shadow)
  endforeach()
endfunction()

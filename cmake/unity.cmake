# assay_unity(TARGET ...): these targets are compiled many files at a time, which takes less than half the time of a build
# from scratch: most of it goes into headers and templates that every file reads again. Helpers in anonymous namespaces
# of one room should therefore have different names; a file that gives a name another meaning is compiled alone
# (unity_names.py, when CMake runs). Only in release builds: in the others, a file that forgets an include does
# not compile. Whoever edits one file again and again is quicker with -DASSAY_UNITY=OFF.
option(ASSAY_UNITY "Compile many files at a time, in release builds" ON)
find_program(PYTHON3 python3)
function(assay_unity)
  if(NOT CMAKE_BUILD_TYPE STREQUAL Release OR ASSAY_SANITIZE OR NOT ASSAY_UNITY)
    return()
  endif()
  # Twenty are half as costly as six at a time and take gcc a gigabyte.
  set(most 24)
  foreach(target ${ARGN})
    # gcc takes a file that is included for a header, and a local name in one file shadows nothing of another.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage -Wno-shadow)
    get_target_property(sources ${target} SOURCES)
    get_target_property(folder ${target} SOURCE_DIR)
    list(FILTER sources INCLUDE REGEX "[.]cpp$")
    list(TRANSFORM sources PREPEND ${folder}/ REGEX "^[^/]")
    execute_process(COMMAND ${PYTHON3} -I -S ${PROJECT_SOURCE_DIR}/cmake/unity_names.py ${sources}
      OUTPUT_VARIABLE apart OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(apart)
      string(REPLACE "\n" ";" apart "${apart}")
      set_source_files_properties(${apart} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      list(REMOVE_ITEM sources ${apart})
    endif()
    # As few batches as possible, of equal sizes.
    list(LENGTH sources files)
    math(EXPR batches "(${files} + ${most} - 1) / ${most}")
    math(EXPR size "(${files} + ${batches} - 1) / ${batches}")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
  endforeach()
endfunction()

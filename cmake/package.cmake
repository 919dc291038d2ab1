# The Python package beside the programs, and what is installed.
#
# A build tree and an installed prefix look the same: bin/, lib/, python/. A wheel (pyproject.toml) has bin/ and lib/ under
# assay/_program and gets the module from scikit-build-core.
if(EXISTS ${PROJECT_SOURCE_DIR}/python)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/python ${PROJECT_BINARY_DIR}/python SYMBOLIC)
endif()

# All that a user needs, in one go: what `./assay` builds is what is installed.
add_custom_target(programs)
foreach(program assay assay-worker assayd)
  add_dependencies(programs ${program})
  install(TARGETS ${program} RUNTIME DESTINATION bin)
endforeach()
# The runtime, the driver, the worker of Python subjects, the monitor, and the compiler, which needs LLVM.
foreach(library cudart cuda assay-python-worker assay-monitor assay-compiler)
  if(TARGET ${library})
    add_dependencies(programs ${library})
    install(TARGETS ${library} LIBRARY DESTINATION lib NAMELINK_SKIP)
  endif()
endforeach()
install(FILES include/assay_monitor.h DESTINATION include)
# Z3, in a folder of its own: subjects search lib/ for libraries, and must not find it.
if(ASSAY_PORTABLE AND Z3_LIBRARY MATCHES "[.]so$")
  file(REAL_PATH ${Z3_LIBRARY} z3)
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${z3} OUTPUT_VARIABLE headers COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "SONAME +([^ \n]+)" found "${headers}")
  install(PROGRAMS ${z3} DESTINATION lib/z3 RENAME ${CMAKE_MATCH_1})
  set_property(TARGET assay APPEND PROPERTY INSTALL_RPATH "$ORIGIN/../lib/z3")
  # It uses the system's libstdc++: it must not find parts of ours, and the linker must not keep what only that one uses
  # (random_device, which would ask for a newer C library).
  target_link_options(assay PRIVATE -Wl,--exclude-libs,ALL -Wl,--allow-shlib-undefined)
endif()
if(NOT SKBUILD)
  install(DIRECTORY python/assay DESTINATION python PATTERN __pycache__ EXCLUDE)
endif()

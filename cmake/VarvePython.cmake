# The Python package's compiled half: python/varve/_core.abi3.so, from the public headers alone. nanobind comes from PyPI
# (docs/dependencies.md); one module serves every CPython from 3.10 on.

find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
                OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE missing ERROR_QUIET)
if(missing)
  message(FATAL_ERROR "VARVE_PYTHON needs nanobind for ${Python_EXECUTABLE}: pip install nanobind nanobind-backend")
endif()
find_package(nanobind CONFIG REQUIRED)

file(GLOB python_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/src/*.cpp")
set(names "")
if(VARVE_SANITIZE)
  set(names NOSTRIP)  # a report of a sanitizer needs them
endif()
nanobind_add_module(varve_python BACKEND_MODULE nanobind_backend NB_DOMAIN varve NOMINSIZE NB_SUPPRESS_WARNINGS ${names}
                    ${python_sources})
target_link_libraries(varve_python PRIVATE varve varve_flags)
target_compile_options(varve_python PRIVATE -O1 -fvisibility=hidden)
# The C++ run time is the shared one: oneDNN brings it into the process, and exceptions must not meet a second unwinder.
target_link_options(varve_python PRIVATE "-Wl,--exclude-libs,ALL")
set_target_properties(varve_python PROPERTIES OUTPUT_NAME _core
                      LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/python/varve")
# A wheel asks for them; `cmake --install` alone leaves them.
install(TARGETS varve_python LIBRARY DESTINATION varve COMPONENT python EXCLUDE_FROM_ALL)
# What ranks talk by lies beside the module.
if(TARGET varve_gloo)
  add_dependencies(varve_python varve_gloo)
  add_custom_command(TARGET varve_python POST_BUILD VERBATIM
                     COMMAND "${CMAKE_COMMAND}" -E create_symlink "$<TARGET_FILE:varve_gloo>"
                             "$<TARGET_FILE_DIR:varve_python>/$<TARGET_FILE_NAME:varve_gloo>")
  install(TARGETS varve_gloo LIBRARY DESTINATION varve COMPONENT python EXCLUDE_FROM_ALL)
endif()
# Type stubs, from the module itself. Importing it needs nanobind-backend, and no sanitizer's library loaded first.
if(NOT VARVE_SANITIZE)
  set(stubs _core.pyi _layer_table.pyi _networks.pyi _set_table.pyi _tables.pyi py.typed)
  add_custom_command(TARGET varve_python POST_BUILD VERBATIM
                     COMMAND "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/python-stubs"
                             "$<TARGET_FILE_DIR:varve_python>" "$<TARGET_FILE_DIR:varve_python>")
  list(TRANSFORM stubs PREPEND "$<TARGET_FILE_DIR:varve_python>/")
  install(FILES ${stubs} DESTINATION varve COMPONENT python EXCLUDE_FROM_ALL)
endif()
if(TARGET varve_cli)
  install(TARGETS varve_cli varve_bench_cli RUNTIME DESTINATION varve/bin COMPONENT python EXCLUDE_FROM_ALL)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/bench/adapters/" DESTINATION "varve/${CMAKE_INSTALL_DATADIR}/varve/adapters"
          COMPONENT python EXCLUDE_FROM_ALL FILES_MATCHING PATTERN "*.py" PATTERN "*.txt")
endif()

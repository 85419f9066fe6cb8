# How our own code is compiled. Everything hangs on one interface target, `varve_flags`, which our targets link
# privately: nothing here reaches the code of a user or of a dependency.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Installed programs find libraries that were taken from outside the system's folders, and libvarve beside them.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

find_program(VARVE_CCACHE ccache)
mark_as_advanced(VARVE_CCACHE)
if(VARVE_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths below the project are hashed as relative ones: what two build folders compile alike is compiled once.
  set(CMAKE_CXX_COMPILER_LAUNCHER env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${VARVE_CCACHE}")
endif()

add_library(varve_flags INTERFACE)
target_compile_features(varve_flags INTERFACE cxx_std_20)
target_compile_options(varve_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wnon-virtual-dtor $<$<NOT:$<BOOL:$<TARGET_PROPERTY:VARVE_MAY_SHADOW>>>:-Wshadow>
  # Options are named and have defaults (`{.stride = {2, 2}}`): leaving out the rest is the point.
  -Wno-missing-field-initializers
  # Numbers must not depend on what a compiler contracts or reorders, so no -ffast-math. These two give up only
  # errno and the floating-point trap flags, which nothing here reads.
  -ffp-contract=off -fno-math-errno -fno-trapping-math)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns falsely about plain std::string concatenation (GCC bug 105329).
  target_compile_options(varve_flags INTERFACE -Wno-restrict)
endif()

if(VARVE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Files that are compiled together include each other: what one keeps in an unnamed namespace is no leak of a header.
  target_compile_options(varve_flags INTERFACE -Wno-subobject-linkage)
endif()

if(VARVE_ARCH AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  target_compile_options(varve_flags INTERFACE "-march=${VARVE_ARCH}")
  # x86-64-v3 promises AVX2 but not AES, which we do not use. Without this Highway would take SSSE3 for the lowest
  # instruction set it must serve, and compile each kernel for two sets that can never be chosen.
  target_compile_definitions(varve_flags INTERFACE HWY_DISABLE_PCLMUL_AES)
endif()

if(VARVE_SANITIZE)
  # Instrumented code sets off false warnings in GCC's flow analysis; the plain builds keep warnings as errors.
  # What is tested is instrumented and has its assertions. The tests themselves are compiled as in the plain build, word
  # for word: a compiler cache then has them already.
  set(test "$<BOOL:$<TARGET_PROPERTY:VARVE_TEST>>")
  target_compile_options(varve_flags INTERFACE $<${test}:-Werror>)
  foreach(flag -O1 -UNDEBUG "-fsanitize=${VARVE_SANITIZE}" -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(varve_flags INTERFACE $<$<NOT:${test}>:${flag}>)
  endforeach()
else()
  target_compile_options(varve_flags INTERFACE -Werror)
endif()

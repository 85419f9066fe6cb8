# An emulated GPU for tests: a CUDA driver and an NVRTC that run kernels on the CPU, and an NCCL (tests/cuda_emulator/README.md).
# They come out as build/cuda_emulator/libcuda.so.1, libnvrtc.so.13 and libnccl.so.2; LD_LIBRARY_PATH puts them before the real ones.

find_package(CUDAToolkit QUIET)  # for its headers only
find_program(VARVE_EMULATOR_COMPILER g++)
mark_as_advanced(VARVE_EMULATOR_COMPILER)
if(NOT CUDAToolkit_FOUND OR NOT VARVE_EMULATOR_COMPILER OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  message(STATUS "CUDA emulator: left out; it needs the CUDA toolkit's headers, g++ and x86-64")
  return()
endif()

set(emulator_dir "${PROJECT_SOURCE_DIR}/tests/cuda_emulator")
set(VARVE_EMULATOR_FOLDER "${PROJECT_BINARY_DIR}/cuda_emulator")

function(varve_emulated name version)
  set(target varve_emulated_${name})
  add_library(${target} SHARED ${ARGN})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} SOVERSION ${version}
                        LIBRARY_OUTPUT_DIRECTORY "${VARVE_EMULATOR_FOLDER}")
  target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(${target} PRIVATE varve_flags Threads::Threads ${CMAKE_DL_LIBS})
  # Exports what the real library exports, under the same version where it has one.
  target_link_options(${target} PRIVATE "-Wl,--version-script=${emulator_dir}/${name}.map")
  set_target_properties(${target} PROPERTIES LINK_DEPENDS "${emulator_dir}/${name}.map")
endfunction()

foreach(file driver memory tensor_map stream graph module launch block fiber)
  list(APPEND driver_sources "${emulator_dir}/${file}.cpp")
endforeach()
foreach(file nvrtc compiler source)
  list(APPEND nvrtc_sources "${emulator_dir}/${file}.cpp")
endforeach()
varve_emulated(cuda 1 ${driver_sources})
varve_emulated(nvrtc 13 ${nvrtc_sources})
find_path(VARVE_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(VARVE_NCCL_INCLUDE_DIR)
  varve_emulated(nccl 2 "${emulator_dir}/nccl.cpp")
  target_include_directories(varve_emulated_nccl SYSTEM PRIVATE "${VARVE_NCCL_INCLUDE_DIR}")
  target_link_libraries(varve_emulated_nccl PRIVATE varve_emulated_cuda)
endif()
target_compile_definitions(varve_emulated_nvrtc PRIVATE VARVE_EMULATOR_COMPILER="${VARVE_EMULATOR_COMPILER}")

# Kernels are compiled with the prelude that lies beside the library.
file(GLOB prelude RELATIVE "${emulator_dir}" CONFIGURE_DEPENDS "${emulator_dir}/prelude/*.h")
foreach(header IN LISTS prelude)
  configure_file("${emulator_dir}/${header}" "${VARVE_EMULATOR_FOLDER}/${header}" COPYONLY)
endforeach()

add_executable(varve_emulator_test "${emulator_dir}/self_test.cpp")
set_target_properties(varve_emulator_test PROPERTIES OUTPUT_NAME self_test
                      RUNTIME_OUTPUT_DIRECTORY "${VARVE_EMULATOR_FOLDER}")
target_include_directories(varve_emulator_test SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(varve_emulator_test PRIVATE varve_flags Threads::Threads varve_emulated_cuda varve_emulated_nvrtc)
add_test(NAME cuda_emulator.self COMMAND varve_emulator_test)
set_tests_properties(cuda_emulator.self PROPERTIES TIMEOUT 120 LABELS cuda_emulator)

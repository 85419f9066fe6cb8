# The CUDA backend: libvarve_cuda.so, loaded by the core when a GPU is asked for. Built when the CUDA toolkit (13.0 or
# later) and cuDNN 9 are found; nothing else links CUDA.

if(NOT VARVE_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "VARVE_CUDA is '${VARVE_CUDA}'; it must be AUTO, ON or OFF.")
endif()
set(VARVE_HAS_CUDA OFF)
if(NOT VARVE_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit 13.0 QUIET)
  find_path(VARVE_CUDNN_INCLUDE_DIR cudnn_backend.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(VARVE_CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
  mark_as_advanced(VARVE_CUDNN_INCLUDE_DIR VARVE_CUDNN_LIBRARY)
  if(CUDAToolkit_FOUND AND TARGET CUDA::nvrtc AND TARGET CUDA::cublasLt AND TARGET CUDA::cuda_driver
     AND VARVE_CUDNN_INCLUDE_DIR AND VARVE_CUDNN_LIBRARY)
    set(VARVE_HAS_CUDA ON)
  elseif(VARVE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "VARVE_CUDA is ON, but the CUDA toolkit 13 (driver stub, NVRTC, cuBLASLt) or cuDNN 9 was not "
                        "found. Set CUDAToolkit_ROOT and VARVE_CUDNN_LIBRARY.")
  endif()
endif()
if(NOT VARVE_HAS_CUDA)
  message(STATUS "CUDA: left out")
  return()
endif()
message(STATUS "CUDA: ${CUDAToolkit_VERSION}, libvarve_cuda.so")

set(folder "${PROJECT_SOURCE_DIR}/src/backends/cuda")
file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cpp")
# Ranks on GPUs: NCCL's header alone, as its library is loaded when ranks are many.
find_path(VARVE_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
mark_as_advanced(VARVE_NCCL_INCLUDE_DIR)
if(VARVE_NCCL_INCLUDE_DIR)
  list(REMOVE_ITEM sources "${folder}/nccl/absent.cpp")
else()
  message(STATUS "CUDA: no ranks on GPUs, as nccl.h was not found")
  list(FILTER sources EXCLUDE REGEX "/nccl/(collectives|library|wire)\\.cpp$")
endif()
file(GLOB_RECURSE texts CONFIGURE_DEPENDS "${folder}/*.cu" "${folder}/*.cuh")

# Kernel texts travel inside the library.
set(embedded "${PROJECT_BINARY_DIR}/cuda/kernel_files.cpp")
add_custom_command(OUTPUT "${embedded}"
  COMMAND "${CMAKE_COMMAND}" -D "output=${embedded}" -D "folder=${folder}" -D "files=${texts}"
          -P "${PROJECT_SOURCE_DIR}/cmake/EmbedTexts.cmake"
  DEPENDS ${texts} "${PROJECT_SOURCE_DIR}/cmake/EmbedTexts.cmake" VERBATIM)

# The room, compiled once: for the library, and for tests that look inside.
add_library(varve_backend_cuda OBJECT ${sources} "${embedded}")
set_source_files_properties("${embedded}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
varve_unity(varve_backend_cuda)
varve_room_window(backends/cuda window)
set_property(GLOBAL APPEND PROPERTY VARVE_WINDOWS "${window}")
target_include_directories(varve_backend_cuda PRIVATE "${window}" "${PROJECT_SOURCE_DIR}/include")
target_include_directories(varve_backend_cuda SYSTEM PRIVATE
  ${CUDAToolkit_INCLUDE_DIRS} "${VARVE_CUDNN_INCLUDE_DIR}")
if(VARVE_NCCL_INCLUDE_DIR)
  target_include_directories(varve_backend_cuda SYSTEM PRIVATE "${VARVE_NCCL_INCLUDE_DIR}")
endif()
foreach(room base ir backend)
  varve_room_window(${room} room_window)
  target_include_directories(varve_backend_cuda PRIVATE "${room_window}")
endforeach()
target_link_libraries(varve_backend_cuda PRIVATE varve_flags)
set_target_properties(varve_backend_cuda PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
set(VARVE_CUDA_LINKS CUDA::cuda_driver CUDA::nvrtc CUDA::cublasLt "${VARVE_CUDNN_LIBRARY}")

# The library carries its own copy of the rooms it stands on, hidden, so that it works beside a static core as beside a
# shared one.
add_library(varve_cuda_base STATIC
  $<TARGET_OBJECTS:varve_base> $<TARGET_OBJECTS:varve_ir> $<TARGET_OBJECTS:varve_backend>)
set_target_properties(varve_cuda_base PROPERTIES LINKER_LANGUAGE CXX)
add_library(varve_cuda SHARED $<TARGET_OBJECTS:varve_backend_cuda>)
target_link_libraries(varve_cuda PRIVATE
  varve_cuda_base OpenMP::OpenMP_CXX Threads::Threads ${VARVE_CUDA_LINKS})
set_target_properties(varve_cuda PROPERTIES
  LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib" INSTALL_RPATH_USE_LINK_PATH ON)
target_link_options(varve_cuda PRIVATE -Wl,--no-undefined -Wl,--exclude-libs,ALL)
if(VARVE_SANITIZE)
  target_link_options(varve_cuda PRIVATE "-fsanitize=${VARVE_SANITIZE}")
endif()
install(TARGETS varve_cuda LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")

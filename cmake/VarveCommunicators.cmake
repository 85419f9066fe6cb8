# Engines that move values between ranks, each a library of its own that is loaded when ranks are many: Gloo, and one for
# each MPI that is found. Nothing else links them.

# varve_communicator(<name> <folder> COMPONENT <of the packages> [INCLUDE <folder>...] LINK <library>...)
function(varve_communicator name folder)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "COMPONENT" "INCLUDE;LINK")
  set(target varve_${name})
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/communicators/${folder}/*.cpp")
  add_library(${target} SHARED ${sources})
  foreach(room base ir backend)
    varve_room_window(${room} window)
    target_include_directories(${target} PRIVATE "${window}")
  endforeach()
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/include")
  target_include_directories(${target} SYSTEM PRIVATE ${arg_INCLUDE})
  target_compile_definitions(${target} PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)  # the C interface alone
  # A hidden copy of the room it stands on, so that it works beside a static core as beside a shared one.
  target_link_libraries(${target} PRIVATE
    varve_flags varve_plugin_base OpenMP::OpenMP_CXX Threads::Threads ${arg_LINK})
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
  target_link_options(${target} PRIVATE -Wl,--no-undefined -Wl,--exclude-libs,ALL)
  if(VARVE_SANITIZE)
    target_link_options(${target} PRIVATE "-fsanitize=${VARVE_SANITIZE}")
  endif()
  install(TARGETS ${target} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${arg_COMPONENT})
  set(VARVE_COMMUNICATORS ${VARVE_COMMUNICATORS} ${target} PARENT_SCOPE)
endfunction()

set(VARVE_COMMUNICATORS "")
add_library(varve_plugin_base STATIC $<TARGET_OBJECTS:varve_base>)
set_target_properties(varve_plugin_base PROPERTIES LINKER_LANGUAGE CXX)

find_path(VARVE_GLOO_INCLUDE_DIR gloo/rendezvous/context.h)
find_library(VARVE_GLOO_LIBRARY gloo)
# Both MPIs may be installed side by side: their own folders, not the ones that the system's alternatives point to.
find_path(VARVE_OPENMPI_INCLUDE_DIR mpi.h PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/include NO_DEFAULT_PATH)
find_library(VARVE_OPENMPI_LIBRARY NAMES libmpi.so.40 PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/lib
             /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
find_path(VARVE_MPICH_INCLUDE_DIR mpi.h PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/mpich NO_DEFAULT_PATH)
find_library(VARVE_MPICH_LIBRARY NAMES libmpich.so.12 mpich)
mark_as_advanced(VARVE_GLOO_INCLUDE_DIR VARVE_GLOO_LIBRARY VARVE_OPENMPI_INCLUDE_DIR VARVE_OPENMPI_LIBRARY
                 VARVE_MPICH_INCLUDE_DIR VARVE_MPICH_LIBRARY)
if(VARVE_GLOO_INCLUDE_DIR AND VARVE_GLOO_LIBRARY)
  varve_communicator(gloo gloo COMPONENT library INCLUDE "${VARVE_GLOO_INCLUDE_DIR}" LINK "${VARVE_GLOO_LIBRARY}")
endif()
foreach(mpi OPENMPI MPICH)
  if(VARVE_${mpi}_INCLUDE_DIR AND VARVE_${mpi}_LIBRARY)
    string(TOLOWER ${mpi} name)
    varve_communicator(${name} mpi COMPONENT mpi INCLUDE "${VARVE_${mpi}_INCLUDE_DIR}" LINK "${VARVE_${mpi}_LIBRARY}")
  endif()
endforeach()
message(STATUS "Ranks by: ${VARVE_COMMUNICATORS}")

# Finds oneDNN 2.x or 3.x: DNNL::dnnl, oneDNN_VERSION. VARVE_ONEDNN_ROOT, when set, is the only place looked in.
# It is also installed with Varve, whose static library needs it at link time.
#
# oneDNN's own CMake package is not used: Debian's insists on the OpenCL headers, which nothing here needs.

if(VARVE_ONEDNN_ROOT)
  set(_oneDNN_where PATHS "${VARVE_ONEDNN_ROOT}" NO_DEFAULT_PATH)
else()
  set(_oneDNN_where "")
endif()
find_path(oneDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp PATH_SUFFIXES include ${_oneDNN_where})
find_library(oneDNN_LIBRARY dnnl PATH_SUFFIXES lib ${_oneDNN_where})
mark_as_advanced(oneDNN_INCLUDE_DIR oneDNN_LIBRARY)
unset(_oneDNN_where)

set(oneDNN_VERSION "")
if(oneDNN_INCLUDE_DIR)
  file(STRINGS "${oneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" _oneDNN_lines REGEX "#define DNNL_VERSION_[MP]")
  if(_oneDNN_lines MATCHES "MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+)")
    set(oneDNN_VERSION "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3}")
  endif()
  unset(_oneDNN_lines)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(oneDNN
  REQUIRED_VARS oneDNN_LIBRARY oneDNN_INCLUDE_DIR VERSION_VAR oneDNN_VERSION)

if(oneDNN_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES
    IMPORTED_LOCATION "${oneDNN_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${oneDNN_INCLUDE_DIR}")
endif()

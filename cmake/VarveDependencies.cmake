# Every library that Varve uses, found in one place. docs/dependencies.md gives the reason for each.

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(ZLIB REQUIRED)
find_package(Highway REQUIRED)

if(NOT VARVE_ONEDNN MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "VARVE_ONEDNN is '${VARVE_ONEDNN}'; it must be AUTO, ON or OFF.")
endif()
set(VARVE_HAS_ONEDNN OFF)
if(NOT VARVE_ONEDNN STREQUAL "OFF")
  find_package(oneDNN)
  if(oneDNN_FOUND)
    set(VARVE_HAS_ONEDNN ON)
  elseif(VARVE_ONEDNN STREQUAL "ON" OR VARVE_ONEDNN_ROOT)
    message(FATAL_ERROR "oneDNN was asked for but not found (VARVE_ONEDNN_ROOT is '${VARVE_ONEDNN_ROOT}'). Install "
                        "libdnnl-dev, or set VARVE_ONEDNN_ROOT to the folder that holds its include/ and lib/.")
  endif()
endif()
if(NOT VARVE_HAS_ONEDNN)
  message(STATUS "oneDNN: left out")
endif()

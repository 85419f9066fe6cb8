# Every library that Varve uses, found in one place. docs/dependencies.md gives the reason for each.

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(ZLIB REQUIRED)
find_package(Highway REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(WebP)  # without it, .webp files are refused by name
set(VARVE_HAS_WEBP ${WebP_FOUND})
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)

# Downloads use libcurl, which is loaded when the first one starts: the command starts faster without it, and a machine
# without it can do everything else.
find_path(VARVE_CURL_INCLUDE_DIR curl/curl.h REQUIRED)
mark_as_advanced(VARVE_CURL_INCLUDE_DIR)

# Headers alone: nothing of it is left for those who link the installed library.
set(VARVE_JSON "$<BUILD_INTERFACE:nlohmann_json::nlohmann_json>")

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

# The one library, made of all rooms, and its installation: find_package(varve) gives varve::varve.

include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY VARVE_ROOMS)
get_property(links GLOBAL PROPERTY VARVE_LINKS)
list(REMOVE_DUPLICATES links)

# Before 1.0 a minor version may change the binary interface.
set(VARVE_SOVERSION "${PROJECT_VERSION_MAJOR}")
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(VARVE_SOVERSION "0.${PROJECT_VERSION_MINOR}")
endif()
add_library(varve)
add_library(varve::varve ALIAS varve)
set_target_properties(varve PROPERTIES
  LINKER_LANGUAGE CXX
  ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib"
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib"
  VERSION ${PROJECT_VERSION} SOVERSION ${VARVE_SOVERSION})
foreach(room IN LISTS rooms)
  target_sources(varve PRIVATE $<TARGET_OBJECTS:${room}>)
endforeach()
if(NOT rooms)
  file(WRITE "${PROJECT_BINARY_DIR}/empty.cpp" "")
  target_sources(varve PRIVATE "${PROJECT_BINARY_DIR}/empty.cpp")
endif()

target_compile_features(varve PUBLIC cxx_std_20)
target_include_directories(varve PUBLIC
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_link_libraries(varve PRIVATE ${links})
if(VARVE_SANITIZE)
  target_link_options(varve PUBLIC "-fsanitize=${VARVE_SANITIZE}")
endif()

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/varve")
# Components are the Debian packages of VarvePackages.cmake; `cmake --install` takes them all.
install(TARGETS varve EXPORT varveTargets
        LIBRARY COMPONENT library NAMELINK_COMPONENT devel
        ARCHIVE COMPONENT devel)
install(EXPORT varveTargets NAMESPACE varve:: DESTINATION "${package_dir}" COMPONENT devel)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/varve" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT devel
        FILES_MATCHING PATTERN "*.h")
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/varveConfig.cmake.in" "${PROJECT_BINARY_DIR}/varveConfig.cmake"
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/varveConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/varveConfig.cmake" "${PROJECT_BINARY_DIR}/varveConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindHighway.cmake" "${PROJECT_SOURCE_DIR}/cmake/FindoneDNN.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindWebP.cmake"
        DESTINATION "${package_dir}" COMPONENT devel)

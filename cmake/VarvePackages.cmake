# Debian packages, made by tools/deb (`make deb`) from a build with a shared libvarve:
#   varve          the command, its benchmarks, their adapters, man pages, bash completion
#   libvarve<x.y>  the library; before 1.0 every minor version has another binary interface
#   libvarve-dev   headers and the CMake package

find_program(VARVE_HELP2MAN help2man REQUIRED)
mark_as_advanced(VARVE_HELP2MAN)

set(library_package "libvarve${VARVE_SOVERSION}")
set(folder "${PROJECT_BINARY_DIR}/packages")
set(DEBIAN_CHANGELOG "${folder}/changelog.Debian.gz")
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(VARVE_MAINTAINER "The Varve developers <nobody@varve.invalid>" CACHE STRING "Who publishes the packages, with address")
set(contact "${VARVE_MAINTAINER}")
file(WRITE "${folder}/changelog.Debian" "varve (${PROJECT_VERSION}-1) unstable; urgency=medium

  * Version ${PROJECT_VERSION}.

 -- ${contact}  ${date}
")
file(READ "${PROJECT_SOURCE_DIR}/LICENSE" license)
string(REGEX REPLACE "^MIT License\n+Copyright \\(c\\) ([^\n]*)\n+" "" license "${license}")
string(REGEX REPLACE "\n\n" "\n.\n" license "${license}")
string(REGEX REPLACE "\n([^\n])" "\n \\1" license "${license}")
file(WRITE "${folder}/copyright" "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: varve

Files: *
Copyright: 2026 The Varve developers
License: Expat
 ${license}")

# What the command says of itself: man pages and completion.
set(made "")
foreach(program varve varve-bench)
  set(target varve_cli)
  set(words "trains, runs and benchmarks neural networks")
  if(program STREQUAL "varve-bench")
    set(target varve_bench_cli)
    set(words "compares Varve with other deep-learning frameworks")
  endif()
  add_custom_command(OUTPUT "${folder}/${program}.1.gz" DEPENDS ${target} VERBATIM
    COMMAND "${VARVE_HELP2MAN}" --no-info --no-discard-stderr --version-string=${PROJECT_VERSION} "--name=${words}"
            "--output=${folder}/${program}.1" "$<TARGET_FILE:${target}>"
    COMMAND gzip -9nf "${folder}/${program}.1")
  list(APPEND made "${folder}/${program}.1.gz")
  install(FILES "${folder}/${program}.1.gz" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT command)
endforeach()
add_custom_command(OUTPUT "${folder}/completion" DEPENDS varve_cli VERBATIM
  COMMAND sh -c "\"$1\" completion bash > \"$2\"" sh "$<TARGET_FILE:varve_cli>" "${folder}/completion")
add_custom_command(OUTPUT "${DEBIAN_CHANGELOG}" DEPENDS "${folder}/changelog.Debian" VERBATIM
  COMMAND gzip -9nkf "${folder}/changelog.Debian")
add_custom_target(varve_packages ALL DEPENDS ${made} "${folder}/completion" "${DEBIAN_CHANGELOG}")
install(FILES "${folder}/completion" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME varve
        COMPONENT command)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "deep-learning framework in C++20")
set(CPACK_PACKAGE_CONTACT "${contact}")
set(CPACK_PACKAGING_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL command library devel)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}/lib")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(about "Varve defines, trains, runs and benchmarks neural networks, from C++ or
 the command line. A whole training step is one compiled program whose memory
 is known before it runs. It needs a processor with AVX2 (x86-64-v3).")
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "${about}
 This package has the command.")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "${about}
 This package has the library.")
set(CPACK_COMPONENT_DEVEL_DESCRIPTION "${about}
 This package has headers and the CMake package.")
set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME varve)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library_package})
set(CPACK_DEBIAN_DEVEL_PACKAGE_NAME libvarve-dev)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION science)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEVEL_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVEL_PACKAGE_SHLIBDEPS OFF)
file(WRITE "${folder}/shlibs" "libvarve ${VARVE_SOVERSION} ${library_package} (>= ${PROJECT_VERSION})\n")
file(WRITE "${folder}/triggers" "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA "${folder}/shlibs;${folder}/triggers")
set(same "(= ${PROJECT_VERSION}-1)")
set(CPACK_DEBIAN_COMMAND_PACKAGE_DEPENDS "${library_package} ${same}")
set(CPACK_DEBIAN_COMMAND_PACKAGE_SUGGESTS "libcurl4, liblapack3, python3")
set(CPACK_DEBIAN_DEVEL_PACKAGE_DEPENDS "${library_package} ${same}")
set(names varve ${library_package} libvarve-dev)
foreach(component package IN ZIP_LISTS CPACK_COMPONENTS_ALL names)
  install(FILES "${folder}/copyright" "${DEBIAN_CHANGELOG}" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${package}"
          COMPONENT ${component})
endforeach()
include(CPack)

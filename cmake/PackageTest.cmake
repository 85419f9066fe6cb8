# Run by ctest: installs the build to a prefix of its own, then configures, builds and runs tests/package against it.

set(work "${build}/package-test")
file(REMOVE_RECURSE "${work}")

function(step)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed (${status}): ${ARGV}\n${output}")
  endif()
endfunction()

step("${CMAKE_COMMAND}" --install "${build}" --prefix "${work}/prefix")
step("${CMAKE_COMMAND}" -S "${consumer}" -B "${work}/build" -G "${generator}"
     "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_BUILD_TYPE=${config}" "-DCMAKE_PREFIX_PATH=${work}/prefix")
step("${CMAKE_COMMAND}" --build "${work}/build")
step("${work}/build/consumer")
file(REMOVE_RECURSE "${work}")

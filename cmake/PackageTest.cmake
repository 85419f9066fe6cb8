# Run by ctest: installs the build to a prefix of its own, then configures, builds and runs tests/package and
# examples/embedding against it.

set(work "${build}/package-test")
file(REMOVE_RECURSE "${work}")

function(step)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed (${status}): ${ARGV}\n${output}")
  endif()
endfunction()

# A project of its own, against the installed library.
function(build source folder)
  step("${CMAKE_COMMAND}" -S "${source}" -B "${work}/${folder}" -G "${generator}"
       "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_BUILD_TYPE=${config}" "-DCMAKE_PREFIX_PATH=${work}/prefix")
  step("${CMAKE_COMMAND}" --build "${work}/${folder}")
endfunction()

step("${CMAKE_COMMAND}" --install "${build}" --prefix "${work}/prefix")
build("${root}/tests/package" consumer)
step("${work}/consumer/consumer")

# The network that the embedding example carries is trained and exported by the installed command, where there is one.
build("${root}/examples/embedding" embedding)
set(varve "${work}/prefix/bin/varve")
if(EXISTS "${varve}")
  set(network "${root}/examples/networks/lenet.toml")
  step("${varve}" train "${network}" epochs=4 data.train=3000 data.test=100 "runs=${work}/runs" --quiet)
  step("${varve}" export "${work}/runs/lenet-1" "${work}/lenet.safetensors")
  step("${work}/embedding/embedding" "${network}" "${work}/lenet.safetensors")
endif()
file(REMOVE_RECURSE "${work}")

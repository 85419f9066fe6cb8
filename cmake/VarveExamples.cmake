# Each examples/<name>.cpp is a program of its own, build/examples/<name>, and a test.

file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.cpp")
set(VARVE_EXAMPLE_NAMES "")
add_custom_target(examples)
foreach(source IN LISTS sources)
  get_filename_component(name "${source}" NAME_WE)
  add_executable(example_${name} "${source}")
  set_target_properties(example_${name} PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
  target_link_libraries(example_${name} PRIVATE varve varve_flags)
  add_dependencies(examples example_${name})
  list(APPEND VARVE_EXAMPLE_NAMES ${name})
endforeach()

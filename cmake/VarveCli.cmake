# cli/**/*.cpp make the varve command, build/varve. Like the tests it may look inside the library: it lists operators and
# backends, and measures them.

file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cli/*.cpp")
if(sources)
  find_package(CLI11 REQUIRED)
  add_executable(varve_cli ${sources})
  set_target_properties(varve_cli PROPERTIES OUTPUT_NAME varve RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
  get_property(windows GLOBAL PROPERTY VARVE_WINDOWS)
  set(window "${PROJECT_BINARY_DIR}/rooms/varve_cli")
  file(MAKE_DIRECTORY "${window}")
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/cli" "${window}/cli" SYMBOLIC)
  target_include_directories(varve_cli PRIVATE "${window}" ${windows})
  target_link_libraries(varve_cli PRIVATE varve_bench varve varve_flags nlohmann_json::nlohmann_json CLI11::CLI11)
  if(VARVE_HAS_ONEDNN)
    target_compile_definitions(varve_cli PRIVATE VARVE_HAS_ONEDNN=1)
  endif()
  install(TARGETS varve_cli)
endif()

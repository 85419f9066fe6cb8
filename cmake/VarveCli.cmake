# cli/*.cpp make the varve command, build/varve. Like the tests it may look inside the library: it lists operators and
# backends, and measures them.

file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cli/*.cpp")
if(sources)
  find_package(CLI11 REQUIRED)
  add_executable(varve_cli ${sources})
  varve_unity(varve_cli BATCH 8)
  target_compile_options(varve_cli PRIVATE -O1)
  set_target_properties(varve_cli PROPERTIES OUTPUT_NAME varve RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
  get_property(windows GLOBAL PROPERTY VARVE_WINDOWS)
  target_include_directories(varve_cli PRIVATE ${windows})
  target_link_libraries(varve_cli PRIVATE varve_bench varve varve_flags nlohmann_json::nlohmann_json CLI11::CLI11)
  if(VARVE_HAS_ONEDNN)
    target_compile_definitions(varve_cli PRIVATE VARVE_HAS_ONEDNN=1)
  endif()
  install(TARGETS varve_cli)
endif()

# cli/*.cpp make the varve command, build/varve.

file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cli/*.cpp")
if(sources)
  find_package(nlohmann_json REQUIRED)
  find_package(CLI11 REQUIRED)
  add_executable(varve_cli ${sources})
  set_target_properties(varve_cli PROPERTIES OUTPUT_NAME varve RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
  target_link_libraries(varve_cli PRIVATE varve varve_flags nlohmann_json::nlohmann_json CLI11::CLI11)
  install(TARGETS varve_cli)
endif()

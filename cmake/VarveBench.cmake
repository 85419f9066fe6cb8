# bench/*.cpp make varve_bench, the library behind `varve bench`: workloads, workers, rounds and records. Like the
# command it may look inside the library. bench/adapters/ holds the workers of other frameworks, installed as data.

file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.cpp")
add_library(varve_bench STATIC ${sources})
varve_unity(varve_bench BATCH 5)
target_compile_options(varve_bench PRIVATE -O1)
set(window "${PROJECT_BINARY_DIR}/rooms/varve_bench")
file(MAKE_DIRECTORY "${window}")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/bench" "${window}/bench" SYMBOLIC)
get_property(windows GLOBAL PROPERTY VARVE_WINDOWS)
set(VARVE_BENCH_WINDOW "${window}")
target_include_directories(varve_bench PUBLIC "${window}" PRIVATE ${windows})
target_link_libraries(varve_bench PUBLIC varve nlohmann_json::nlohmann_json PRIVATE varve_flags)
set(adapters "${CMAKE_INSTALL_DATADIR}/varve/adapters")
target_compile_definitions(varve_bench PRIVATE
  VARVE_SOURCE_DIR="${PROJECT_SOURCE_DIR}" VARVE_ADAPTERS_INSTALLED="${adapters}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/bench/adapters/" DESTINATION "${adapters}" COMPONENT command
        FILES_MATCHING PATTERN "*.py" PATTERN "*.txt")

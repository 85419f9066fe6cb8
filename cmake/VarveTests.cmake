# Each folder of tests/ is one program: tests/ops/**/*.cpp make test_ops, and every case in it is a test of ctest.
# A folder without any *_test.cpp holds helpers, and is linked into all of them. Tests may look inside the library:
# they see the headers of every room.

find_package(GTest REQUIRED)
include(GoogleTest)

set(tests_dir "${PROJECT_SOURCE_DIR}/tests")
file(GLOB_RECURSE paths RELATIVE "${tests_dir}" CONFIGURE_DEPENDS "${tests_dir}/*.cpp")
list(FILTER paths EXCLUDE REGEX "^(package/|cuda_emulator/|[^/]*$)")
if(NOT TARGET varve_bench)  # comes with the command
  list(FILTER paths EXCLUDE REGEX "^bench/")
endif()

if(NOT VARVE_HAS_CUDA)
  list(FILTER paths EXCLUDE REGEX "^cuda/")
endif()
if(NOT TARGET varve_gloo)
  message(STATUS "Tests of several ranks: left out, as Gloo was not found")
  list(FILTER paths EXCLUDE REGEX "^distributed/")
endif()

set(folders "")
foreach(path IN LISTS paths)
  string(REGEX REPLACE "/.*" "" folder "${path}")
  list(APPEND folders ${folder})
  list(APPEND sources_${folder} "${tests_dir}/${path}")
endforeach()
list(REMOVE_DUPLICATES folders)

# What every test program is compiled with.
add_library(varve_test_base INTERFACE)
get_property(windows GLOBAL PROPERTY VARVE_WINDOWS)
target_include_directories(varve_test_base INTERFACE ${windows} "${tests_dir}")
target_compile_definitions(varve_test_base INTERFACE VARVE_TESTS_DIR="${tests_dir}")
target_link_libraries(varve_test_base INTERFACE
  varve varve_flags OpenMP::OpenMP_CXX Highway::hwy ZLIB::ZLIB GTest::gtest)
if(TARGET nlohmann_json::nlohmann_json)
  target_link_libraries(varve_test_base INTERFACE nlohmann_json::nlohmann_json)
endif()
if(VARVE_HAS_ONEDNN)
  target_compile_definitions(varve_test_base INTERFACE VARVE_HAS_ONEDNN=1)
  target_link_libraries(varve_test_base INTERFACE DNNL::dnnl)
endif()

# The C++ of README.md and docs/ is compiled and run with tests/docs.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
file(GLOB pages CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/docs/*.md")
set(snippets "${PROJECT_BINARY_DIR}/tests/docs/snippets.cpp")
add_custom_command(OUTPUT "${snippets}"
  COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/tools/extract_snippets.py" "${snippets}" ${pages}
  DEPENDS "${PROJECT_SOURCE_DIR}/tools/extract_snippets.py" ${pages} VERBATIM)
list(APPEND sources_docs "${snippets}")
set_source_files_properties("${snippets}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# GCC 12 at -O1 takes the replaced operator delete for a mismatch.
set_source_files_properties("${tests_dir}/runtime/replay_test.cpp" PROPERTIES COMPILE_OPTIONS -O2)

# Pages are looked at in a browser, which `make test-pages` installs; they show the records that test_bench makes up.
if("pages" IN_LIST folders)
  list(APPEND sources_pages "${tests_dir}/bench/report/made_up.cpp")
endif()

# Tests run side by side, each with as many threads as there are cores: threads that wait must not spin.
set(environment ENVIRONMENT OMP_WAIT_POLICY=passive)

# The table of operators has thousands of cases, too many for a process each: ctest runs it in parts.
set(sharded ops)
set(shards 8)

set(helpers "")
foreach(folder IN LISTS folders)
  if(NOT "${sources_${folder}}" MATCHES "_test\\.cpp")
    add_library(test_helpers_${folder} STATIC ${sources_${folder}})
    target_link_libraries(test_helpers_${folder} PUBLIC varve_test_base)
    list(APPEND helpers test_helpers_${folder})
  endif()
endforeach()

foreach(folder IN LISTS folders)
  if(NOT "${sources_${folder}}" MATCHES "_test\\.cpp")
    continue()
  endif()
  add_executable(test_${folder} ${sources_${folder}})
  varve_unity(test_${folder} BATCH 8)
  set_target_properties(test_${folder} PROPERTIES VARVE_TEST ON VARVE_MAY_SHADOW ${VARVE_UNITY})  # names of a neighbour in the batch
  target_compile_options(test_${folder} PRIVATE -O1)
  set_target_properties(test_${folder} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_link_libraries(test_${folder} PRIVATE ${helpers} varve_test_base GTest::gtest_main)
  if(folder STREQUAL "cuda")
    target_sources(test_cuda PRIVATE $<TARGET_OBJECTS:varve_backend_cuda>)
    target_include_directories(test_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} "${VARVE_CUDNN_INCLUDE_DIR}")
    target_link_libraries(test_cuda PRIVATE ${VARVE_CUDA_LINKS})
  endif()
  if(folder STREQUAL "distributed")
    add_dependencies(test_distributed ${VARVE_COMMUNICATORS})
  endif()
  if(folder MATCHES "^(bench|pages)$")
    target_link_libraries(test_${folder} PRIVATE varve_bench)
  endif()
  if(TARGET varve_cli AND folder MATCHES "^(bench|cli|docs|pages|cuda)$")  # those that start the command
    target_compile_definitions(test_${folder} PRIVATE VARVE_CLI_PATH="$<TARGET_FILE:varve_cli>")
    add_dependencies(test_${folder} varve_cli varve_bench_cli)
  endif()
  if(folder STREQUAL "cuda")
    include(VarveCudaTests)
  elseif(folder IN_LIST sharded)
    math(EXPR last "${shards} - 1")
    foreach(shard RANGE ${last})
      add_test(NAME ${folder}.part${shard} COMMAND test_${folder} --gtest_brief=1)
      set_tests_properties(${folder}.part${shard} PROPERTIES TIMEOUT 900 ${environment} LABELS ${folder})
      set_property(TEST ${folder}.part${shard} APPEND PROPERTY
        ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards}" "GTEST_SHARD_INDEX=${shard}")
    endforeach()
    # In a world of one rank whose collectives stay.
    set(collective_rows *all_sum*:*all_max*:*all_min*:*all_gather*:*sum_scatter*:*rank_broadcast*)
    add_test(NAME ops.lone_rank COMMAND test_ops --gtest_brief=1 --gtest_filter=${collective_rows})
    set_tests_properties(ops.lone_rank PROPERTIES TIMEOUT 300 ${environment} LABELS ops)
    set_property(TEST ops.lone_rank APPEND PROPERTY ENVIRONMENT VARVE_WITHOUT=lone-rank)
  else()
    # What takes minutes is for `make test-slow`, which calls the programs itself.
    gtest_discover_tests(test_${folder} TEST_PREFIX "${folder}." TEST_FILTER "-*Full*"
                         DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                         PROPERTIES TIMEOUT 300 ${environment} LABELS ${folder})
  endif()
endforeach()

# Installs Varve, then builds and runs projects that know it only by find_package.
file(GLOB package CONFIGURE_DEPENDS "${tests_dir}/package/main.cpp")
if(package)
  add_test(NAME package.consumer
    COMMAND "${CMAKE_COMMAND}" -D "build=${PROJECT_BINARY_DIR}" -D "root=${PROJECT_SOURCE_DIR}"
            -D "generator=${CMAKE_GENERATOR}" -D "compiler=${CMAKE_CXX_COMPILER}" -D "config=${CMAKE_BUILD_TYPE}"
            -P "${PROJECT_SOURCE_DIR}/cmake/PackageTest.cmake")
  set_tests_properties(package.consumer PROPERTIES TIMEOUT 300 ${environment} LABELS package)
endif()

# A rank that is killed at random moments of a training: a few here, more in docs/faults.md.
if(TARGET varve_cli AND TARGET varve_gloo)
  add_test(NAME distributed.moments
    COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/tools/rank-faults" "$<TARGET_FILE:varve_cli>" --moments 3)
  set_tests_properties(distributed.moments PROPERTIES TIMEOUT 300 COST 15 ${environment} LABELS distributed)
endif()

# Tables and plot of docs/scaling-model.md are what the records give.
add_test(NAME docs.scaling_model COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/tools/scaling-model" --check)
set_tests_properties(docs.scaling_model PROPERTIES TIMEOUT 60 LABELS docs)

# Shell commands of the pages that are marked as runnable.
if(TARGET varve_cli)
  add_test(NAME docs.commands
    COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/tools/run_doc_commands.py" "$<TARGET_FILE:varve_cli>" ${pages})
  set_tests_properties(docs.commands PROPERTIES TIMEOUT 300 COST 20 ${environment} LABELS docs)
endif()

# Each example checks itself: its exit code says whether it worked.
foreach(example IN LISTS VARVE_EXAMPLE_NAMES)
  add_test(NAME examples.${example} COMMAND example_${example})
  set_tests_properties(examples.${example} PROPERTIES TIMEOUT 300 ${environment} LABELS examples)
endforeach()

# "../ir/graph.h" would walk around the walls between the rooms.
add_test(NAME rooms.no_relative_includes
  COMMAND "${CMAKE_COMMAND}" -D "root=${PROJECT_SOURCE_DIR}" -P "${PROJECT_SOURCE_DIR}/cmake/CheckIncludes.cmake")
set_tests_properties(rooms.no_relative_includes PROPERTIES LABELS rooms)

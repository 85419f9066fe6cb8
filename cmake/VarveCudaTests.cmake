# The CUDA backend is tested three times over: on a GPU where there is one; without one, for what needs none (texts that
# NVRTC compiles, planning, refusals); and on the emulated GPU, which runs every kernel of our own on the processor.
# The libraries of NVIDIA (cuBLASLt, cuDNN) run on a GPU alone: tools/gpu-check does that.

# A machine without a driver has no libcuda.so.1 to load: the toolkit's stub, which says that there is no GPU.
find_library(VARVE_CUDA_DRIVER libcuda.so.1)
mark_as_advanced(VARVE_CUDA_DRIVER)
set(plain ${environment})
if(NOT VARVE_CUDA_DRIVER)
  set(stub "${PROJECT_BINARY_DIR}/cuda_stub")
  file(MAKE_DIRECTORY "${stub}")
  file(CREATE_LINK "${CUDA_cuda_driver_LIBRARY}" "${stub}/libcuda.so.1" SYMBOLIC)
  list(APPEND plain "LD_LIBRARY_PATH=${stub}")
endif()
# COST: ctest starts what takes longest first, so that all cores have work to the end.
set(cuda_shards 4)
math(EXPR last_shard "${cuda_shards} - 1")
foreach(shard RANGE ${last_shard})
  add_test(NAME cuda.part${shard} COMMAND test_cuda --gtest_brief=1)
  set_tests_properties(cuda.part${shard} PROPERTIES TIMEOUT 900 COST 50 LABELS cuda)
  set_property(TEST cuda.part${shard} PROPERTY ${plain} "GTEST_TOTAL_SHARDS=${cuda_shards}"
               "GTEST_SHARD_INDEX=${shard}")
endforeach()
# There NVRTC hardly optimises; here it does, as for a GPU.
add_test(NAME cuda.optimized COMMAND test_cuda --gtest_brief=1)
set_property(TEST cuda.optimized PROPERTY ${plain} VARVE_TEST_FULL=1)
set_tests_properties(cuda.optimized PROPERTIES TIMEOUT 900 LABELS slow)

if(NOT VARVE_EMULATOR_FOLDER OR VARVE_SANITIZE)  # kernels in fibers are beyond the sanitizers
  return()
endif()
add_dependencies(test_cuda varve_emulated_cuda varve_emulated_nvrtc varve_cuda)
set(emulated ${environment} "LD_LIBRARY_PATH=${VARVE_EMULATOR_FOLDER}" "VARVE_WITHOUT=cublas,cudnn"
    "VARVE_CUDA_CACHE=${PROJECT_BINARY_DIR}/cuda_emulator/cache" "VARVE_TEST_DEVICES=cuda"
    "VARVE_EMULATOR_CACHE=${PROJECT_BINARY_DIR}/cuda_emulator/kernels")
# The table of operators compiles thousands of kernels for it, which takes half an hour: in f32 it meets every kernel, and
# `make test` runs every fourth case of that, `make test-slow` the rest.
set(ops_filter --gtest_brief=1 --gtest_filter=*/*_cuda_f32:*Exactness*cuda*)
foreach(shard RANGE ${last_shard})
  add_test(NAME cuda_emulated.part${shard} COMMAND test_cuda --gtest_brief=1)
  set_property(TEST cuda_emulated.part${shard} PROPERTY ${emulated} "GTEST_TOTAL_SHARDS=${cuda_shards}"
               "GTEST_SHARD_INDEX=${shard}")
  set_tests_properties(cuda_emulated.part${shard} PROPERTIES TIMEOUT 900 COST 100 LABELS cuda)
  add_test(NAME cuda_emulated.ops.part${shard} COMMAND test_ops ${ops_filter})
  set_property(TEST cuda_emulated.ops.part${shard} PROPERTY ${emulated} "GTEST_TOTAL_SHARDS=${cuda_shards}"
               "GTEST_SHARD_INDEX=${shard}")
  if(shard EQUAL 0)
    set_tests_properties(cuda_emulated.ops.part${shard} PROPERTIES TIMEOUT 900 COST 100 LABELS cuda)
  else()
    set_tests_properties(cuda_emulated.ops.part${shard} PROPERTIES TIMEOUT 900 LABELS slow)
  endif()
endforeach()

# Ranks there: processes that have an emulated GPU each, and an NCCL between them.
if(TARGET varve_emulated_nccl AND TARGET varve_gloo)
  add_dependencies(test_cuda varve_emulated_nccl)
  set(ranks_one *Collectives.*/0)
  set(ranks_two *Collectives.*/1:*FitAmongRanks.Losses*/1:*Sharded.Parameters*/1:*Faults.AKilled*/0:*SixShards.*/0)
  set(ranks_three *Collectives.InCompiled*/2:*Collectives.MeanMax*/2:*Collectives.Messages*/2)
  foreach(ranks one two three)
    add_test(NAME cuda_emulated.ranks.${ranks} COMMAND test_distributed --gtest_brief=1 --gtest_filter=${ranks_${ranks}})
    set_tests_properties(cuda_emulated.ranks.${ranks} PROPERTIES TIMEOUT 300 LABELS cuda)
    set_property(TEST cuda_emulated.ranks.${ranks} PROPERTY ${emulated})
  endforeach()
  set(collective_rows *all_sum*:*all_max*:*all_min*:*all_gather*:*sum_scatter*:*rank_broadcast*)
  add_test(NAME cuda_emulated.ranks.rows COMMAND test_ops --gtest_brief=1 --gtest_filter=${collective_rows})
  # A library that is none.
  file(WRITE "${VARVE_EMULATOR_FOLDER}/without_nccl/libnccl.so.2" "")
  add_test(NAME cuda_emulated.ranks.missing COMMAND test_distributed --gtest_filter=*Collectives.AreMoved*/1)
  set_tests_properties(cuda_emulated.ranks.missing PROPERTIES PASS_REGULAR_EXPRESSION
    "ranks on GPUs need libnccl.so.2, which cannot be loaded.*nvidia-nccl-cu13")
  foreach(ranks rows missing)
    set_tests_properties(cuda_emulated.ranks.${ranks} PROPERTIES TIMEOUT 300 LABELS cuda)
    set_property(TEST cuda_emulated.ranks.${ranks} PROPERTY ${emulated})
  endforeach()
  set_property(TEST cuda_emulated.ranks.missing APPEND PROPERTY ENVIRONMENT
    "LD_LIBRARY_PATH=${VARVE_EMULATOR_FOLDER}/without_nccl:${VARVE_EMULATOR_FOLDER}")
  set_property(TEST cuda_emulated.ranks.rows APPEND PROPERTY ENVIRONMENT VARVE_WITHOUT=cublas,cudnn,lone-rank)
  set_property(TEST cuda_emulated.ranks.one APPEND PROPERTY ENVIRONMENT VARVE_WITHOUT=cublas,cudnn,lone-rank)
  set_property(TEST cuda_emulated.ranks.two APPEND PROPERTY ENVIRONMENT VARVE_EMULATOR_DEVICES=2)
endif()

# The command there: what it finds, and figures of each kind, if not their sizes.
if(TARGET varve_cli)
  set(small fcn-scaling-1x32 batch=16 threads=1 device=cuda)
  set(quick repeat=1 samples=2 seconds=0 frameworks=varve)
  add_test(NAME cuda_emulated.command.doctor COMMAND varve_cli doctor)
  set_tests_properties(cuda_emulated.command.doctor PROPERTIES PASS_REGULAR_EXPRESSION "learns on cuda")
  add_test(NAME cuda_emulated.command.step
    COMMAND varve_cli bench step ${small} ${quick} precision=f32,tf32,bf16)
  add_test(NAME cuda_emulated.command.infer COMMAND varve_cli bench infer ${small} ${quick})
  add_test(NAME cuda_emulated.command.parts COMMAND varve_cli bench parts ${small} ${quick})
  add_test(NAME cuda_emulated.command.explain COMMAND varve_cli bench explain ${small} precision=bf16 rows=5)
  add_test(NAME cuda_emulated.command.old_card COMMAND varve_cli bench step ${small} ${quick})
  set_tests_properties(cuda_emulated.command.old_card PROPERTIES
    PASS_REGULAR_EXPRESSION "has compute capability 7\\.5. Varve needs 8\\.0")
  add_test(NAME cuda_emulated.command.old_driver COMMAND varve_cli bench step ${small} ${quick})
  set_tests_properties(cuda_emulated.command.old_driver PROPERTIES
    PASS_REGULAR_EXPRESSION "supports CUDA 12\\.8. Varve was built for CUDA 13\\.0")
  foreach(name doctor step infer parts explain old_card old_driver)
    set_tests_properties(cuda_emulated.command.${name} PROPERTIES TIMEOUT 300 LABELS cuda)
    set_property(TEST cuda_emulated.command.${name} PROPERTY ${emulated})
  endforeach()
  set_property(TEST cuda_emulated.command.old_card APPEND PROPERTY ENVIRONMENT VARVE_EMULATOR_CAPABILITY=75)
  set_property(TEST cuda_emulated.command.old_driver APPEND PROPERTY ENVIRONMENT VARVE_EMULATOR_DRIVER=12080)
endif()

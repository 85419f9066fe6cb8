// In place of the rest of this folder, where nccl.h was not found.
#include "backends/cuda/claims.h"
#include "backends/cuda/device/context.h"
#include "base/text.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

constexpr const char* kAbsent =
    "this build has no NCCL: build Varve where nccl.h is found (NVIDIA's package libnccl-dev, or PyPI's "
    "nvidia-nccl-cu13)";

}  // namespace

void add_collective_claims(ClaimMap& map) {
  for (const char* op : {"all_sum", "all_max", "all_min", "all_gather", "sum_scatter", "all_to_all", "rank_broadcast",
                         "send", "recv", "rank_barrier", "all_sum_begin", "all_sum_end"})
    map[op].push_back([](const backend::Site&, std::vector<backend::Claim>& claims) {
      claims.push_back(backend::Claim::no("nccl", kAbsent));
    });
}

std::string nccl_version() { return "left out of this build"; }

void Context::join(const backend::DeviceRanks&) { throw Error(cat("ranks on GPUs: ", kAbsent, ".")); }

std::string Context::rank_failure() const { return ""; }

}  // namespace varve::cuda

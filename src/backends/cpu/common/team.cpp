#include "backends/cpu/common/team.h"

#include <omp.h>

#include "base/threads.h"

namespace varve::cpu {

Setting Setting::now() { return {varve::threads(), varve::deterministic()}; }

Team::Team(int threads) : before_(omp_get_max_threads()) {
  if (threads != before_) omp_set_num_threads(threads);
}

Team::~Team() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}

}  // namespace varve::cpu

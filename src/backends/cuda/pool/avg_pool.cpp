// Means of windows of images, channels last, and their gradient.
#include "backends/cuda/pool/pool.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

// x -> y, or dy -> dx.
Prepared prepare_average(const Pool& pool, bool gradient) {
  if (pool.empty()) return nothing();
  const int vec = pool.most_channels();
  const int rows = gradient ? pool.shape.height : pool.shape.out_height;
  const int columns = gradient ? pool.shape.width : pool.shape.out_width;
  const PoolKernel kernel(gradient ? "avg_pool_grad" : "avg_pool", pool, vec, {}, "pool/avg_pool.cu");
  const auto run = [=](const RunArgs& args) {
    const bool wide = kernel.takes_packs() && aligned(16, args.in[0], args.out[0]);
    const PoolLaunch go = pool_launch(pool, rows, columns, wide ? vec : 1);
    kernel.for_packs(wide)(go.launch, go.shape, args.in[0], args.out[0]);
  };
  return backend::prepared(run);
}

Prepared avg_pool(const Task& task) {
  return prepare_average(Pool(task.attrs, task.shape_in(0), task.out[0].type), false);
}
Prepared avg_pool_grad(const Task& task) {
  return prepare_average(Pool(task.attrs, task.shape_out(), task.in[0].type), true);
}

void claim_average(const Site& site, std::vector<Claim>& claims) {
  const bool gradient = site.node().is("avg_pool2d_grad");
  const Shape& x = gradient ? site.node().types[0].shape : site.node().inputs[0].type().shape;
  const std::string no = Pool::refusal(x);
  claims.push_back(no.empty() ? claim_of(site.root(), gradient ? avg_pool_grad : avg_pool)
                              : Claim::no(cat("cuda ", site.node().op->name), no));
}

}  // namespace

void add_avg_pool_claims(ClaimMap& map) {
  map["avg_pool2d"].push_back(claim_average);
  map["avg_pool2d_grad"].push_back(claim_average);
}

}  // namespace varve::cuda

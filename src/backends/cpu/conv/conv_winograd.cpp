// Convolutions by plain Winograd kernels, with bias and ReLU, where they cost less than direct convolution.
#include <algorithm>

#include "backends/cpu/common/loops.h"
#include "backends/cpu/common/team.h"
#include "backends/cpu/common/workspace.h"
#include "backends/cpu/conv/conv_biased.h"
#include "backends/cpu/conv/conv_claims.h"
#include "backends/cpu/conv/conv_costs.h"
#include "backends/cpu/conv/winograd/winograd.h"
#include "base/levers.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::Site;
using plain::WinogradSize;

std::string text(WinogradSize size) {
  return cat("F(", size.out, "×", size.out, ",", size.kernel(), "×", size.kernel(), ")");
}

struct Choice {
  std::string refusal;  // empty: `size`
  WinogradSize size;
};

// The cheapest tiles whose scratch memory is allowed.
Choice choose(const ConvCall& call, DType dtype, int threads) {
  if (!lever("winograd")) return {kLeftOut, {}};
  if (call.empty) return {"an empty tensor", {}};
  Choice best{"", {}};
  double least = direct_cost(call.shape, dtype);
  std::string reasons;
  for (const WinogradSize size : plain::kWinogradSizes) {
    if (size.kernel() != call.shape.kernel_height) continue;
    std::string refusal = plain::winograd_refusal(call.shape, size, dtype);
    const double cost = winograd_cost(call.pass, call.shape, size);
    if (refusal.empty() && cost >= least)
      refusal = cat("costs ", static_cast<std::int64_t>(cost / least * 100), "% of the best candidate");
    if (refusal.empty()) {
      const std::size_t bytes =
          plain::winograd(call.pass, call.shape, {.size = size, .dtype = dtype, .workers = threads})->scratch_bytes();
      if (bytes > workspace_limit()) refusal = cat("needs ", bytes >> 20, " MB of workspace");
    }
    if (refusal.empty()) {
      least = cost;
      best.size = size;
    } else {
      reasons += cat(reasons.empty() ? "" : "; ", text(size), " ", refusal);
    }
  }
  if (best.size.size == 0) best.refusal = reasons.empty() ? "no tiles for this kernel" : reasons;
  return best;
}

}  // namespace

void claim_winograd(const Site& site, std::vector<Claim>& claims) {
  const ConvCall call = conv_call(site.node());
  const DType dtype = site.node().types[0].dtype;
  const Choice choice = choose(call, dtype, Setting::now().threads);
  if (!choice.refusal.empty()) {
    claims.push_back(Claim::no(cat("winograd ", name(call.pass)), choice.refusal));
    return;
  }
  const plain::WinogradOptions options{.size = choice.size, .dtype = dtype, .workers = Setting::now().threads};
  const auto make = [call, options](bool relu) {
    plain::WinogradOptions finished = options;
    finished.relu = relu;
    return plain::winograd(call.pass, call.shape, finished);
  };
  offer_biased_conv(site, call, {cat("winograd ", text(choice.size)), make}, claims);
}

}  // namespace varve::cpu

// Convolutions by our own Winograd, with bias and ReLU, where it is cheaper than the direct way.
#include <algorithm>

#include "backends/cpu/conv_claims.h"
#include "backends/cpu/conv_costs.h"
#include "backends/cpu/loops.h"
#include "backends/cpu/patterns.h"
#include "backends/cpu/plain/winograd.h"
#include "backends/cpu/team.h"
#include "backends/cpu/tile/scratch.h"
#include "backends/cpu/workspace.h"
#include "base/levers.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::Port;
using backend::RunArgs;
using backend::Site;
using plain::WinogradSize;

constexpr WinogradSize kSizes[] = {{4, 2}, {6, 4}, {8, 6}, {6, 2}, {8, 4}, {8, 2}};

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
  for (const WinogradSize size : kSizes) {
    if (size.kernel() != call.shape.kernel_height) continue;
    std::string refusal = plain::winograd_refusal(call.shape, size, dtype);
    const double cost = winograd_cost(call.pass, call.shape, size);
    if (refusal.empty() && cost >= least)
      refusal = cat("costs ", static_cast<std::int64_t>(cost / least * 100), "% of the best other way");
    if (refusal.empty()) {
      const std::size_t bytes =
          plain::winograd(call.pass, call.shape, {.size = size, .dtype = dtype, .lanes = threads})->scratch_bytes();
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

// The bias as f32, then the convolution.
class WinogradKernel {
 public:
  WinogradKernel(const ConvCall& call, const plain::WinogradOptions& options, bool biased)
      : conv_(plain::winograd(call.pass, call.shape, options)),
        dtype_(options.dtype),
        channels_(biased ? call.shape.out_channels : 0) {}

  std::size_t scratch_bytes() const { return bias_bytes() + conv_->scratch_bytes(); }

  void operator()(const RunArgs& args) const {
    auto* bias = channels_ > 0 ? static_cast<float*>(args.scratch) : nullptr;
    if (bias) convert(args.in[2], dtype_, bias, f32, channels_);
    conv_->run({args.in[0], args.in[1], bias, args.out[0], at(args.scratch, static_cast<std::int64_t>(bias_bytes()))});
  }

 private:
  std::size_t bias_bytes() const { return round_up(static_cast<std::size_t>(channels_) * sizeof(float)); }

  std::unique_ptr<plain::Winograd> conv_;
  DType dtype_;
  std::int64_t channels_;  // of the bias; 0: none
};

Claim winograd_claim(const Site& site, const ConvCall& call, WinogradSize size, const Epilogue& epilogue) {
  const plain::WinogradOptions options{.size = size,
                                       .dtype = site.node().types[0].dtype,
                                       .relu = epilogue.activation == dnn::Activation::relu,
                                       .lanes = Setting::now().threads};
  Claim claim =
      Claim::of(cat("winograd ", text(size), " ", name(call.pass), epilogue.text()), site.root(),
                [call, options, biased = epilogue.biased](const std::vector<Port>&, const std::vector<Port>&) {
                  WinogradKernel kernel(call, options, biased);
                  const std::size_t scratch = kernel.scratch_bytes();
                  return backend::prepared(std::move(kernel), scratch);
                });
  epilogue.cover(claim);
  return claim;
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
  if (call.pass == ConvPass::forward)
    for (const Epilogue& epilogue : epilogues_after(site, call.shape.taps() * call.shape.in_group()))
      if (epilogue.activation == dnn::Activation::none || epilogue.activation == dnn::Activation::relu)
        claims.push_back(winograd_claim(site, call, choice.size, epilogue));
  claims.push_back(winograd_claim(site, call, choice.size, {}));
}

}  // namespace varve::cpu

// Who offers convolutions and their gradients, with the bias and ReLU that follow.
#include "backend/followers.h"
#include "backends/cuda/claims.h"
#include "backends/cuda/conv/conv_cudnn.h"
#include "backends/cuda/device/fill.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::Followers;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

ConvEpilogue epilogue_of(const Followers& followers) {
  return {.bias = followers.biased(), .relu = !followers.activation.empty()};
}

// All that can follow the convolution, and nothing last.
std::vector<Followers> followers_of_conv(const Site& site, const ConvCall& call) {
  std::vector<Followers> found;
  if (call.pass == ConvPass::forward && !call.empty)
    found = backend::followers_of(site, [](const ir::Node& next) { return next.is("relu"); });
  found.push_back({});
  return found;
}

Prepared prepare_plain(const ConvSpec& spec) {
  ConvAlgorithm algorithm = plain_algorithm(spec);
  const std::size_t scratch = algorithm.scratch_bytes;
  return backend::prepared(
      [algorithm = std::move(algorithm), bias = spec.epilogue.bias](const RunArgs& args) {
        algorithm.run({args.in[0], args.in[1], bias ? args.in[2] : nullptr, args.out[0]}, args.scratch);
      },
      scratch);
}

Claim plain_claim(const Site& site, const ConvCall& call, const Followers& with) {
  Claim claim = Claim::of(cat("plain ", name(call.pass), with.text()), site.root(),
                          [call, epilogue = epilogue_of(with)](const std::vector<Port>&, const std::vector<Port>& out) {
                            if (call.empty) return prepare_fill(out[0].type, 0);  // a sum over nothing
                            return prepare_plain({call, out[0].type.dtype, epilogue});
                          });
  with.cover(claim);
  return claim;
}

// `likely`: nothing better has been offered.
Claim dnn_claim(const Site& site, const ConvCall& call, const Followers& with, bool likely) {
  const std::string who = cat("cudnn ", name(call.pass), with.text());
  const DType dtype = site.node().types[0].dtype;
  const ConvSpec spec{call, dtype, epilogue_of(with), dtype == f32 && site.choices().tf32};
  if (const std::string refusal = dnn_refusal(spec); !refusal.empty()) return Claim::no(who, refusal);
  if (likely) begin_dnn_conv(spec);
  Claim claim = Claim::of(
      who, site.root(), [spec](const std::vector<Port>&, const std::vector<Port>&) { return prepare_dnn_conv(spec); });
  with.cover(claim);
  claim.measures = true;
  return claim;
}

void claim_conv(const Site& site, std::vector<Claim>& claims) {
  const ConvCall call = conv_call(site.node());
  const std::vector<Followers> all = followers_of_conv(site, call);
  bool dnn = false;
  for (const Followers& with : all) {
    claims.push_back(dnn_claim(site, call, with, !dnn));
    dnn = dnn || claims.back().accepted();
  }
  // Ours after all of cuDNN's: a bias within the kernel is worth less than a faster product.
  if (dnn) return;
  for (const Followers& with : all) claims.push_back(plain_claim(site, call, with));
}

}  // namespace

void add_conv_claims(ClaimMap& map) {
  for (const char* op : {"conv2d", "conv2d_input_grad", "conv2d_weight_grad"}) map[op].push_back(claim_conv);
}

}  // namespace varve::cuda

// Who computes a convolution; and the plain kernel, which takes every floating type.
#include "backends/cpu/common/loops.h"
#include "backends/cpu/common/team.h"
#include "backends/cpu/conv/conv_claims.h"
#include "backends/cpu/conv/direct/convolution.h"

namespace varve::cpu {

using backend::Claim;
using backend::Port;
using backend::RunArgs;

backend::Prepared prepare_plain_conv(const ConvCall& call, DType dtype, int threads) {
  std::unique_ptr<plain::Convolution> conv = plain::convolution(call.pass, call.shape, dtype, threads);
  const std::size_t scratch = conv->scratch_bytes();
  return backend::prepared(
      [conv = std::move(conv)](const RunArgs& args) { conv->run(args.in[0], args.in[1], args.out[0], args.scratch); },
      scratch);
}

namespace {

void claim_plain_conv(const backend::Site& site, std::vector<Claim>& claims) {
  const ConvCall call = conv_call(site.node());
  claims.push_back(Claim::of(cat("plain ", name(call.pass)), site.root(),
                             [call, setting = Setting::now()](const std::vector<Port>&, const std::vector<Port>& out) {
                               // A sum over nothing is zero.
                               if (call.empty)
                                 return backend::prepared([bytes = static_cast<std::int64_t>(out[0].type.bytes())](
                                                              const RunArgs& args) { zero_bytes(args.out[0], bytes); });
                               return prepare_plain_conv(call, out[0].type.dtype, setting.threads);
                             }));
}

}  // namespace

void add_conv_claims(ClaimMap& map) {
#ifdef VARVE_HAS_ONEDNN
  map["conv2d_weight_grad"].push_back(claim_pointwise);
#endif
  for (const char* op : {"conv2d", "conv2d_input_grad", "conv2d_weight_grad"}) {
    map[op].push_back(claim_fft);
    map[op].push_back(claim_winograd);
    map[op].push_back(claim_few_channels);
#ifdef VARVE_HAS_ONEDNN
    map[op].push_back(claim_dnn_conv);
#endif
    map[op].push_back(claim_plain_conv);
  }
}

}  // namespace varve::cpu

// GELU where its slope is wanted too, as a training step does: both at once, and the input may go. f32; anything else
// is left to fused groups.
#include "backends/cpu/groups/gelu_kernels.h"

#include "backends/cpu/common/loops.h"

namespace varve::cpu {
namespace {

using backend::Claim;

void claim_gelu(const backend::Site& site, std::vector<Claim>& claims) {
  const ir::Value& x = site.node().inputs[0];
  const TensorType& type = x.type();
  const auto refuse = [&](const std::string& reason) { claims.push_back(Claim::no("gelu+slope", reason)); };
  if (type.dtype != f32) return refuse(name(type.dtype));
  ir::NodePtr slope;
  for (const ir::Use& use : site.users(x))
    if (use.user->is("gelu_slope")) slope = use.user;
  if (!slope) return refuse("nobody wants the slope");
  Claim claim =
      Claim::of("gelu+slope", site.root(),
                [count = type.shape.numel()](const std::vector<backend::Port>&, const std::vector<backend::Port>&) {
                  return backend::prepared([count](const backend::RunArgs& args) {
                    gelu_with_slope(static_cast<const float*>(args.in[0]), static_cast<float*>(args.out[0]),
                                    static_cast<float*>(args.out[1]), count);
                  });
                });
  claim.nodes.push_back(slope);
  claim.outputs.push_back({slope, 0});
  claim.in_place = {{1, 0}, {0, 0}};
  claims.push_back(std::move(claim));
}

}  // namespace

void add_gelu_claims(ClaimMap& map) { map["gelu"].push_back(claim_gelu); }

}  // namespace varve::cpu

#include "backends/cpu/groups/groups.h"

#include "backends/cpu/tile/tile.h"

namespace varve::cpu {
namespace {

// Strides of an operand over the group's space: sizes of 1, and axes it does not have, repeat.
Access access(const backend::Port& port, const Shape& space) {
  Access result{port.type.dtype, Ints(static_cast<std::size_t>(space.rank()), 0)};
  const int shift = space.rank() - port.type.shape.rank();
  for (int a = 0; a < port.type.shape.rank(); ++a)
    if (port.type.shape[a] != 1)
      result.strides[static_cast<std::size_t>(a + shift)] = port.layout.strides[static_cast<std::size_t>(a)];
  return result;
}

// A reduced output has lost its axes, or keeps them with size 1: contiguous in both cases.
Access reduced_access(const backend::Port& port, const Shape& space, const std::vector<bool>& reduced) {
  Access result{port.type.dtype, Ints(static_cast<std::size_t>(space.rank()), 0)};
  std::int64_t stride = 1;
  for (int a = space.rank() - 1; a >= 0; --a) {
    if (reduced[static_cast<std::size_t>(a)]) continue;
    result.strides[static_cast<std::size_t>(a)] = stride;
    stride *= space[a];
  }
  return result;
}

backend::Prepared prepare(TileKernel kernel) {
  const std::size_t scratch = kernel.scratch_bytes();
  return backend::prepared(
      [kernel = std::move(kernel)](const backend::RunArgs& args) { kernel.run(args.in, args.out, args.scratch); },
      scratch);
}

}  // namespace

backend::Claim offer_group(const backend::Group& group) {
  backend::Claim claim;
  claim.kernel = "tile";
  claim.nodes = group.nodes;
  claim.inputs = group.inputs;
  claim.outputs = group.outputs;
  claim.memory.assign(group.inputs.size(), backend::Memory::strided);
  claim.prepare = [group](const std::vector<backend::Port>& in, const std::vector<backend::Port>& out) {
    Group tile;
    tile.code = group.code;
    tile.compute = group.compute;
    tile.extents = group.shape.vec();
    tile.reduced = group.reduced_axes;
    for (const backend::Port& port : in) tile.inputs.push_back(access(port, group.shape));
    for (std::size_t o = 0; o < out.size(); ++o) {
      const bool reduces = group.reduce[o] != backend::Reduce::none;
      tile.outputs.push_back(reduces ? reduced_access(out[o], group.shape, group.reduced_axes)
                                     : access(out[o], group.shape));
      tile.reduce.push_back(static_cast<Reduce>(group.reduce[o]));
    }
    return prepare(TileKernel(tile));
  };
  return claim;
}

}  // namespace varve::cpu

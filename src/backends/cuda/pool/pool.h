// The windows of a pooling, and how its kernels are launched.
#pragma once

#include "backends/cuda/device/launch.h"

namespace varve::cuda {

// x [N,H,W,C]  y [N,OH,OW,C]. As pool/pool.cuh has it.
struct PoolShape {
  std::int64_t images;
  int height, width, channels, out_height, out_width;
  int top, left;
  int rows = 0, columns = 0;  // what threads number; set before a launch
  int count_padding = 0;
};

struct Pool {
  PoolShape shape;
  int window[2], stride[2];
  DType dtype;

  Pool(const Attrs& attrs, const Shape& x, const TensorType& y);
  // Why no kernel would take it, or nothing.
  static std::string refusal(const Shape& x);

  bool clipped() const;  // windows hang over the edges
  bool empty() const { return shape.images == 0 || shape.channels == 0; }
  int most_channels() const { return static_cast<int>(16 / element_bytes(dtype)); }  // of 16 bytes
  std::string constants(int channels_at_a_time, const Constants& more) const;        // what pool/pool.cuh expects
};

// A kernel for packs of channels, and the same for single ones. The one that will hardly be wanted is compiled when it
// is.
class PoolKernel {
 public:
  PoolKernel(const std::string& name, const Pool& pool, int pack, const Constants& constants, const std::string& file)
      : whole_(pool.shape.channels % pack == 0),
        packs_(name, {file, pool.constants(pack, constants)}, whole_ ? Begin::now : Begin::when_started),
        singly_(name, {file, pool.constants(1, constants)}, whole_ ? Begin::when_started : Begin::now) {}

  bool takes_packs() const { return whole_; }
  const Function& for_packs(bool so) const { return so ? packs_ : singly_; }

 private:
  bool whole_;
  Function packs_, singly_;
};

// Threads along the channels by pixels.
struct PoolLaunch {
  Launch launch;
  PoolShape shape;
};
// `blocks`: to a multiprocessor, at most.
constexpr std::int64_t kPoolAcross = 64;  // threads along the channels, at most; the rest of them is the grid's y
PoolLaunch pool_launch(const Pool& pool, int rows, int columns, int channels_at_a_time, std::int64_t blocks = 64,
                       std::int64_t most_across = kPoolAcross);

void add_max_pool_claims(ClaimMap& map);
void add_avg_pool_claims(ClaimMap& map);

}  // namespace varve::cuda

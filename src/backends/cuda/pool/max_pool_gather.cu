// y = the value where x has its window's largest.
#include "pool/window_max.cuh"

extern "C" __global__ void max_pool_gather(Pool p, const T* x, const T* values, T* y) {
  begin_kernel();
  const int channel = first_channel<1>();
  if (channel >= p.channels) return;
  const i64 total = p.images * p.rows * p.columns;
  for (i64 number = first_pixel(); number < total; number += pixel_step()) {
    const Pixel at(number, p);
    const i64 image = at.image * p.height * p.width * p.channels + channel;
    const int row = at.row * SH - p.top, column = at.column * SW - p.left;
    const int which = Largest<1>(x + image, nullptr, p, row, column).which[0];
    y[number * p.channels + channel] =
        values[image + (i64)((row + which / KW) * p.width + column + which % KW) * p.channels];
  }
}

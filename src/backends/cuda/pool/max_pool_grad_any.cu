// x, dy -> dx for windows and strides of any size (window_max.cuh): a thread has one cell of x and visits the windows
// that cover it.
#include "pool/window_max.cuh"

extern "C" __global__ void max_pool_grad_any(Pool p, const T* x, const T* dy, T* dx) {
  begin_kernel();
  const int channel = first_channel<1>();
  if (channel >= p.channels) return;
  const i64 total = p.images * p.rows * p.columns;
  for (i64 number = first_pixel(); number < total; number += pixel_step()) {
    const Pixel at(number, p);
    const i64 image = at.image * p.height * p.width * p.channels + channel;
    const Range rows = covering(at.row + p.top, KH, SH, p.out_height);
    const Range columns = covering(at.column + p.left, KW, SW, p.out_width);
    S sum = 0;
    for (int r = rows.begin; r < rows.end; ++r)
      for (int c = columns.begin; c < columns.end; ++c) {
        const int row = r * SH - p.top, column = c * SW - p.left;
        const int here = (at.row - row) * KW + at.column - column;
        if (Largest<1>(x + image, nullptr, p, row, column).which[0] == here)
          sum += widen<S>(dy[((at.image * p.out_height + r) * p.out_width + c) * p.channels + channel]);
      }
    dx[number * p.channels + channel] = narrow<T>(sum);
  }
}

// A convolution and its two gradients as products over tiles of 64 × 64, for every type and every geometry. What stands
// in the tiles is gathered from the images; nothing is unfolded in memory.
//
// T: the stored type; INDEX: int, or i64 for counts that need it; PASS: 0 forward, 1 input gradient, 2 weight gradient.
//
//           rows            columns      terms                  first   second
// forward   output pixels   O / groups   taps × (I / groups)    x       w
// input     input pixels    I / groups   taps × (O / groups)    dy      w
// weight    O / groups      taps × I/g   output pixels          dy      x
#include "kernels/prelude.cuh"

#include "generated.cuh"

typedef Wide<T>::type W;

struct Conv {
  i64 batch, groups;
  i64 in_height, in_width, in_channels;
  i64 out_height, out_width, out_channels;
  i64 kernel_height, kernel_width;
  i64 stride_height, stride_width, dilation_height, dilation_width;
  i64 pad_top, pad_bottom, pad_left, pad_right;
};

const int kTile = 64, kStep = 16, kThreads = 256, kRow = kTile + 4;

struct Pixel {
  i64 image;  // which of the batch; below 0: none
  INDEX y, x;
};
__device__ __forceinline__ Pixel pixel(INDEX p, INDEX count, INDEX height, INDEX width) {
  Pixel at;
  INDEX row = p / width;
  at.x = p - row * width;
  at.image = row / height;
  at.y = row - (INDEX)at.image * height;
  if (p >= count) at.image = -1;
  return at;
}

// The first channel of the input pixel under a tap, or -1 in the padding.
__device__ __forceinline__ i64 under(const Conv& s, const Pixel& out, INDEX ky, INDEX kx) {
  i64 y = (i64)out.y * s.stride_height + (i64)ky * s.dilation_height - s.pad_top;
  i64 x = (i64)out.x * s.stride_width + (i64)kx * s.dilation_width - s.pad_left;
  if (out.image < 0 || y < 0 || y >= s.in_height || x < 0 || x >= s.in_width) return -1;
  return ((out.image * s.in_height + y) * s.in_width + x) * s.in_channels;
}

// The first channel of the output pixel whose tap lies on an input pixel, or -1 when there is none.
__device__ __forceinline__ i64 above(const Conv& s, const Pixel& in, INDEX ky, INDEX kx) {
  i64 y = (i64)in.y + s.pad_top - (i64)ky * s.dilation_height;
  i64 x = (i64)in.x + s.pad_left - (i64)kx * s.dilation_width;
  if (in.image < 0 || y < 0 || x < 0) return -1;
  i64 oy = s.stride_height == 1 ? y : y / s.stride_height, ox = s.stride_width == 1 ? x : x / s.stride_width;
  if (oy * s.stride_height != y || ox * s.stride_width != x || oy >= s.out_height || ox >= s.out_width) return -1;
  return ((in.image * s.out_height + oy) * s.out_width + ox) * s.out_channels;
}

__device__ __forceinline__ W at(const T* data, i64 offset) { return widen<W>(data[offset]); }

// One of the two operands of the product: fills the slab of `kStep` terms that starts at `term`, up to `last`.
// Neighbouring threads take neighbouring elements of memory: terms in some operands, rows or columns in others.
#if PASS == 2
// dy [pixels, O]
struct First {
  const T* data;
  i64 row, rows, stride;
  __device__ First(const Conv& s, const T* dy, i64 first, i64 group) : data(dy), stride(s.out_channels) {
    rows = s.out_channels / s.groups;
    row = first + threadIdx.x % kTile;
    data += group * rows + row;
  }
  __device__ void fill(W (*slab)[kRow], const Conv&, i64 term, i64 last) {
    for (int k = threadIdx.x / kTile; k < kStep; k += kThreads / kTile)
      slab[k][threadIdx.x % kTile] = row < rows && term + k < last ? at(data, (term + k) * stride) : (W)0;
  }
};
// x, gathered
struct Second {
  const T* data;
  INDEX ky, kx;
  bool in;
  __device__ Second(const Conv& s, const T* x, i64 first, i64 group) {
    i64 channels = s.in_channels / s.groups, column = first + threadIdx.x % kTile, tap = column / channels;
    in = tap < s.kernel_height * s.kernel_width;
    ky = (INDEX)(tap / s.kernel_width);
    kx = (INDEX)(tap - ky * s.kernel_width);
    data = x + group * channels + (column - tap * channels);
  }
  __device__ void fill(W (*slab)[kRow], const Conv& s, i64 term, i64 last) {
    for (int k = threadIdx.x / kTile; k < kStep; k += kThreads / kTile) {
      Pixel out = pixel((INDEX)(term + k), (INDEX)last, (INDEX)s.out_height, (INDEX)s.out_width);
      i64 offset = in ? under(s, out, ky, kx) : -1;
      slab[k][threadIdx.x % kTile] = offset < 0 ? (W)0 : at(data, offset);
    }
  }
};
#else
// x or dy, gathered
struct First {
  const T* data;
  Pixel row[kTile * kStep / kThreads];
  INDEX channels;
  __device__ First(const Conv& s, const T* from, i64 first, i64 group) {
    channels = (INDEX)((PASS == 0 ? s.in_channels : s.out_channels) / s.groups);
    data = from + group * channels;
    INDEX height = (INDEX)(PASS == 0 ? s.out_height : s.in_height),
          width = (INDEX)(PASS == 0 ? s.out_width : s.in_width);
    for (int r = 0; r < kTile * kStep / kThreads; ++r)
      row[r] = pixel((INDEX)(first + threadIdx.x / kStep + r * (kThreads / kStep)), (INDEX)s.batch * height * width,
                     height, width);
  }
  __device__ void fill(W (*slab)[kRow], const Conv& s, i64 term, i64 last) {
    int k = threadIdx.x % kStep;
    INDEX tap = (INDEX)(term + k) / channels, channel = (INDEX)(term + k) - tap * channels;
    INDEX ky = tap / (INDEX)s.kernel_width, kx = tap - ky * (INDEX)s.kernel_width;
    for (int r = 0; r < kTile * kStep / kThreads; ++r) {
      i64 offset = term + k >= last ? -1 : PASS == 0 ? under(s, row[r], ky, kx) : above(s, row[r], ky, kx);
      slab[k][threadIdx.x / kStep + r * (kThreads / kStep)] = offset < 0 ? (W)0 : at(data, offset + channel);
    }
  }
};
#if PASS == 0
// w [O, taps × I/groups]
struct Second {
  const T* data;
  i64 column, columns, terms;
  __device__ Second(const Conv& s, const T* w, i64 first, i64 group) {
    columns = s.out_channels / s.groups;
    column = first + threadIdx.x / kStep;
    terms = s.kernel_height * s.kernel_width * (s.in_channels / s.groups);
    data = w + group * columns * terms;
  }
  __device__ void fill(W (*slab)[kRow], const Conv&, i64 term, i64 last) {
    int k = threadIdx.x % kStep;
    for (int c = 0; c < kTile; c += kThreads / kStep)
      slab[k][threadIdx.x / kStep + c] =
          column + c < columns && term + k < last ? at(data, (column + c) * terms + term + k) : (W)0;
  }
};
#else
// w [O, taps, I/groups], for the terms (tap, o)
struct Second {
  const T* data;
  i64 column, columns;
  INDEX filters, taps;
  __device__ Second(const Conv& s, const T* w, i64 first, i64 group) {
    columns = s.in_channels / s.groups;
    column = first + threadIdx.x % kTile;
    filters = (INDEX)(s.out_channels / s.groups);
    taps = (INDEX)(s.kernel_height * s.kernel_width);
    data = w + group * filters * taps * columns + column;
  }
  __device__ void fill(W (*slab)[kRow], const Conv&, i64 term, i64 last) {
    for (int k = threadIdx.x / kTile; k < kStep; k += kThreads / kTile) {
      INDEX tap = (INDEX)(term + k) / filters, filter = (INDEX)(term + k) - tap * filters;
      slab[k][threadIdx.x % kTile] =
          column < columns && term + k < last ? at(data, ((i64)filter * taps + tap) * columns) : (W)0;
    }
  }
};
#endif
#endif

// Sums of 4 × 4 elements in each thread. Terms are added in their order, so a result has the same bits at every run.
struct Sums {
  W of[4][4];
  __device__ Sums() {
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) of[i][j] = (W)0;
  }
  __device__ void add(const W (*first)[kRow], const W (*second)[kRow], int row, int column) {
#pragma unroll
    for (int k = 0; k < kStep; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) of[i][j] += first[k][row + i] * second[k][column + j];
  }
};

// The grid is groups × parts × column tiles × row tiles. The terms of each sum are cut into parts of `part_terms`; more
// parts than one go to `parts`, as [part, result], for conv_sum.
extern "C" __global__ void __launch_bounds__(256) conv(const T* first, const T* second, const T* bias, T* out, W* parts,
                                                       Conv s, int relu, i64 part_terms, i64 part_count) {
  begin_kernel();
  __shared__ W a[kStep][kRow];
  __shared__ W b[kStep][kRow];
  i64 taps = s.kernel_height * s.kernel_width, in_group = s.in_channels / s.groups,
      out_group = s.out_channels / s.groups, out_pixels = s.batch * s.out_height * s.out_width;
  i64 rows = PASS == 0 ? out_pixels : PASS == 1 ? s.batch * s.in_height * s.in_width : out_group;
  i64 columns = PASS == 0 ? out_group : PASS == 1 ? in_group : taps * in_group;
  i64 terms = PASS == 0 ? taps * in_group : PASS == 1 ? taps * out_group : out_pixels;
  i64 row_tiles = (rows + kTile - 1) / kTile, column_tiles = (columns + kTile - 1) / kTile;
  i64 block = blockIdx.x;
  i64 first_row = block % row_tiles * kTile;
  block /= row_tiles;
  i64 first_column = block % column_tiles * kTile;
  block /= column_tiles;
  i64 part = block % part_count, group = block / part_count;

  First from_first(s, first, first_row, group);
  Second from_second(s, second, first_column, group);
  Sums sums;
  int row = (int)threadIdx.x / 16 * 4, column = (int)threadIdx.x % 16 * 4;
  i64 last = (part + 1) * part_terms < terms ? (part + 1) * part_terms : terms;
  for (i64 term = part * part_terms; term < last; term += kStep) {
    from_first.fill(a, s, term, last);
    from_second.fill(b, s, term, last);
    __syncthreads();
    sums.add(a, b, row, column);
    __syncthreads();
  }

  // Where row r and column c of this group's product stand in the result.
  i64 row_stride = PASS == 0 ? s.out_channels : PASS == 1 ? s.in_channels : columns;
  i64 start = PASS == 2 ? group * rows * columns : group * columns;
  i64 results = PASS == 2 ? s.groups * rows * columns : rows * row_stride;
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      i64 r = first_row + row + i, c = first_column + column + j;
      if (r >= rows || c >= columns) continue;
      i64 to = start + r * row_stride + c;
      W sum = sums.of[i][j];
      if (part_count > 1) {
        parts[part * results + to] = sum;
        continue;
      }
      if (bias) sum += at(bias, group * columns + c);
      if (relu && sum < (W)0) sum = (W)0;
      out[to] = narrow<T>(sum);
    }
}

extern "C" __global__ void conv_sum(const W* parts, T* out, i64 count, i64 part_count) {
  begin_kernel();
  i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  W sum = parts[i];
  for (i64 p = 1; p < part_count; ++p) sum += parts[p * count + i];
  out[i] = narrow<T>(sum);
}

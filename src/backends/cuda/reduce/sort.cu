// Order along an axis, stable: pairs of a key that compares as an integer and the place it came from are sorted in
// tiles, then tiles are merged in pairs. No two pairs are equal, so every way of sorting gives the same order. Before
// it: T, the stored type; KEY and PLACE: u32 or u64; FLOATING (1 or 0), and WIDE: float or double; DESCENDING (1 or 0);
// TILE pairs of a block.
#include "kernels/convert.cuh"

#include "generated.cuh"

__device__ __forceinline__ u32 bits_of(float x) { return __float_as_uint(x); }
__device__ __forceinline__ u64 bits_of(double x) { return (u64)__double_as_longlong(x); }

// Grows as the value does: the bits of a floating-point number with the order of the negative ones turned round. Both
// zeros are equal; NaN is last in either direction.
__device__ __forceinline__ KEY key_of(T x) {
  constexpr KEY kSign = (KEY)1 << (8 * sizeof(KEY) - 1);
#if FLOATING
  WIDE value = read<WIDE>(x);
  if (value != value) return ~(KEY)0;
  KEY bits = value == 0 ? (KEY)0 : bits_of(value);
  KEY rising = (bits & kSign) != 0 ? ~bits : bits | kSign;
#else
  KEY rising = (KEY)read<i64>(x) ^ kSign;
#endif
  return DESCENDING ? ~rising : rising;
}
__device__ __forceinline__ bool before(KEY key_a, PLACE place_a, KEY key_b, PLACE place_b) {
  return key_a < key_b || (key_a == key_b && place_a < place_b);
}

struct Rows {
  const T* x;
  T* values;
  i64* places;
  i64 outer, size, inner;
  // Where element k of row number `row` lies.
  __device__ __forceinline__ i64 at(i64 row, i64 k) const {
    i64 o = row / inner;
    return (o * size + k) * inner + (row - o * inner);
  }
};

// Each block sorts TILE / `width` runs of `width` (a power of two) elements of rows. With `keys` null the runs are
// whole rows and go to the results.
extern "C" __global__ void __launch_bounds__(256) sort_tiles(Rows rows, int width, KEY* keys, PLACE* places) {
  begin_kernel();
  __shared__ KEY key[TILE];
  __shared__ PLACE place[TILE];
  i64 runs = (rows.size + width - 1) / width, count = rows.outer * rows.inner * runs;
  i64 first = (i64)blockIdx.x * (TILE / width);
  for (int t = threadIdx.x; t < TILE; t += 256) {
    i64 run = first + t / width, row = run / runs, k = (run - row * runs) * width + t % width;
    bool there = run < count && k < rows.size;
    key[t] = there ? key_of(rows.x[rows.at(row, k)]) : ~(KEY)0;
    place[t] = there ? (PLACE)k : ~(PLACE)0;
  }
  // Bitonic, the first step of each stage mirrored, so that all comparisons go one way.
  for (int stage = 2; stage <= width; stage *= 2)
    for (int step = stage / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int t = threadIdx.x; t < TILE / 2; t += 256) {
        int low = t / step * (2 * step) + t % step;
        int high = step == stage / 2 ? low / stage * stage + stage - 1 - low % stage : low + step;
        KEY a = key[low], b = key[high];
        PLACE from_a = place[low], from_b = place[high];
        if (!before(b, from_b, a, from_a)) continue;
        key[low] = b;
        key[high] = a;
        place[low] = from_b;
        place[high] = from_a;
      }
    }
  __syncthreads();
  for (int t = threadIdx.x; t < TILE; t += 256) {
    i64 run = first + t / width, row = run / runs, k = (run - row * runs) * width + t % width;
    if (run >= count || k >= rows.size) continue;
    if (keys) {
      keys[row * rows.size + k] = key[t];
      places[row * rows.size + k] = place[t];
    } else {
      i64 to = rows.at(row, k);
      rows.values[to] = rows.x[rows.at(row, (i64)place[t])];
      rows.places[to] = (i64)place[t];
    }
  }
}

// Neighbouring runs of `width` become one: an element's place is its own number and that of the sibling's before it.
extern "C" __global__ void __launch_bounds__(256)
    merge_runs(const KEY* keys, const PLACE* places, KEY* to_keys, PLACE* to_places, i64 count, i64 size, i64 width) {
  begin_kernel();
  i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
  if (i >= count) return;
  i64 row = i / size, k = i - row * size, run = k / width, base = row * size;
  i64 low = (run ^ 1) * width, high = low + width;
  low = low < size ? low : size;
  high = high < size ? high : size;
  KEY key = keys[i];
  PLACE place = places[i];
  i64 start = low;
  while (low < high) {
    i64 middle = (low + high) / 2;
    if (before(keys[base + middle], places[base + middle], key, place))
      low = middle + 1;
    else
      high = middle;
  }
  i64 to = base + (run & ~(i64)1) * width + (k - run * width) + (low - start);
  to_keys[to] = key;
  to_places[to] = place;
}

extern "C" __global__ void __launch_bounds__(256) write_sorted(Rows rows, const PLACE* places) {
  begin_kernel();
  i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
  if (i >= rows.outer * rows.size * rows.inner) return;
  i64 row = i / rows.size, from = (i64)places[i], to = rows.at(row, i - row * rows.size);
  rows.values[to] = rows.x[rows.at(row, from)];
  rows.places[to] = from;
}

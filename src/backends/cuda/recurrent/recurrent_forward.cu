// A recurrent layer from its first step to its last. A thread has one unit of a few sequences: their states stay in its
// registers. Between steps the new states go to every block of the group, which keeps them in shared memory for its
// product.
#include "recurrent/recurrent.cuh"
#if defined(TENSOR_TF32) || defined(TENSOR_BF16) || defined(TENSOR_F16)
#include "recurrent/recurrent_forward_tensor_core.cuh"
#else
#include "recurrent/recurrent_forward_plain.cuh"
#endif

struct Forward {
  const STORE *pre, *hidden, *h0, *c0, *bias;  // h0 and c0 may be null: zero
  const LENGTH* lengths;                       // null: all sequences have all steps
  const STORE* table;                          // [table_rows, COLUMNS], where it stands for pre
  const ID* ids;                               // [steps, batch]
  STORE *y, *h, *c, *gates, *cells;            // those that nobody reads are null
  u64 *mail, *errors;
  i64 table_rows;
  int steps, batch, note;
};

struct Cell {
  REAL h, c;
};

// One step of one unit: `sum` is the hidden share of its gates.
__device__ __forceinline__ void advance(const REAL (&pre)[GATES], const REAL (&sum)[GATES], Cell& cell,
                                        REAL (&kept)[KEPT + 1]) {
#if defined(CELL_LSTM)
  const REAL i = sigmoid(pre[0] + sum[0]), f = sigmoid(pre[1] + sum[1]);
  const REAL g = tanh_of(pre[2] + sum[2]), o = sigmoid(pre[3] + sum[3]);
  cell.c = f * cell.c + i * g;
  cell.h = o * tanh_of(cell.c);
  kept[0] = i, kept[1] = f, kept[2] = g, kept[3] = o;
#elif defined(CELL_GRU)
  const REAL r = sigmoid(pre[0] + sum[0]), z = sigmoid(pre[1] + sum[1]), n = tanh_of(pre[2] + r * sum[2]);
  cell.h = (1 - z) * n + z * cell.h;
  kept[0] = r, kept[1] = z, kept[2] = n, kept[3] = sum[2];
#elif defined(RELU)
  const REAL x = pre[0] + sum[0];
  cell.h = x < 0 ? 0 : x;  // NaN stays
#else
  cell.h = tanh_of(pre[0] + sum[0]);
#endif
}

// One unit of one sequence. Everything in memory is reached by pointers that move on a step at a time; the input's
// share of the gates is loaded one step before its use, and which row of a table that is one step before that.
struct Thread {
  int sequence, length;
  Cell cell;
  REAL pre[GATES];
#ifdef TABLE
  const ID* ids;
  ID id;
#else
  const STORE* inputs;
#endif
  STORE *y, *gates, *cells;

  __device__ __forceinline__ void start(const Forward& a, int unit) {
    const i64 place = (i64)sequence * WIDTH + unit;
    cell.h = a.h0 ? widen<REAL>(a.h0[place]) : (REAL)0;
    cell.c = a.c0 ? widen<REAL>(a.c0[place]) : (REAL)0;
    length = steps_of(a.lengths, sequence, a.steps);
    y = a.y + place;
    gates = a.gates + (i64)sequence * (KEPT * WIDTH) + unit;
    cells = a.cells + place;
#ifdef TABLE
    ids = a.ids + sequence;
    if (a.steps > 0) id = *ids;
#else
    inputs = a.pre + (i64)sequence * COLUMNS + unit;
#endif
    if (a.steps > 0) load(a, unit, a.steps > 1);
  }
  // The next step's share. `more`: there is one after that.
  __device__ __forceinline__ void load(const Forward& a, int unit, bool more) {
#ifdef TABLE
    i64 row = (i64)id;
    if (row < 0 || row >= a.table_rows) {
      note(a.errors, a.note, row);
      row = 0;
    }
    const STORE* const inputs = a.table + row * COLUMNS + unit;
    ids += a.batch;
    if (more) id = *ids;
#endif
#pragma unroll
    for (int g = 0; g < GATES; ++g) pre[g] = widen<REAL>(inputs[g * WIDTH]);
#ifndef TABLE
    this->inputs += (i64)a.batch * COLUMNS;
#endif
  }
  __device__ __forceinline__ void step(const Forward& a, int t, const REAL (&share)[GATES], const REAL (&sum)[GATES]) {
    const Cell before = cell;
    REAL kept[KEPT + 1];
    advance(share, sum, cell, kept);
    const bool on = t < length;
    if (!on) cell = before;
    if (a.y) *y = narrow<STORE>(on ? cell.h : (REAL)0);
    y += (i64)a.batch * WIDTH;
#if KEPT > 0
    if (a.gates)
#pragma unroll
      for (int i = 0; i < KEPT; ++i) gates[i * WIDTH] = narrow<STORE>(kept[i]);
    gates += (i64)a.batch * (KEPT * WIDTH);
#endif
#ifdef CELL_LSTM
    if (a.cells) *cells = narrow<STORE>(cell.c);
    cells += (i64)a.batch * WIDTH;
#endif
  }
  __device__ __forceinline__ void finish(const Forward& a, int unit) const {
    const i64 place = (i64)sequence * WIDTH + unit;
    if (a.h) a.h[place] = narrow<STORE>(cell.h);
    if (a.c) a.c[place] = narrow<STORE>(cell.c);
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) recurrent_forward(const Forward a) {
  begin_kernel();
  extern __shared__ __align__(16) unsigned char shared[];
  OPERAND* const states = (OPERAND*)((REAL*)shared + SHARED_WEIGHTS);  // before a step and after it, in turns
  const int first_unit = (int)blockIdx.x % GROUP * UNITS;
  Product product;
  product.load(a.hidden, first_unit, (REAL*)shared);
  const int unit = first_unit + product.unit();
  const bool mine = product.unit() < UNITS && unit < WIDTH && product.leads();
#ifdef CELL_GRU
  REAL bias[GATES];
#pragma unroll
  for (int g = 0; g < GATES; ++g) bias[g] = mine && a.bias ? widen<REAL>(a.bias[g * WIDTH + unit]) : (REAL)0;
#endif
  const int groups = (int)gridDim.x / GROUP, group = (int)blockIdx.x / GROUP;
#if GROUP > 1
  u32* const count = (u32*)a.mail + blockIdx.x;
  u32 exchange = *count;
  u64* const mail = a.mail + gridDim.x + (i64)group * (2 * WIDTH * ROWS);
#endif
  for (int i = threadIdx.x; i < 2 * STATES; i += THREADS) states[i] = operand(0);
  for (int first = group * ROWS; first < a.batch; first += groups * ROWS) {
    __syncthreads();
    for (int i = threadIdx.x; i < WIDTH * ROWS; i += THREADS) {
      const int row = i / WIDTH, k = i % WIDTH;
      if (first + row < a.batch)
        states[state_at(k, row)] = operand(a.h0 ? widen<REAL>(a.h0[(i64)(first + row) * WIDTH + k]) : (REAL)0);
    }
    Thread own[OWN];
    bool there[OWN];
#pragma unroll
    for (int p = 0; p < OWN; ++p) {
      own[p].sequence = first + product.row(p);
      own[p].cell.h = 0;
      there[p] = mine && own[p].sequence < a.batch;
      if (there[p]) own[p].start(a, unit);
    }
    __syncthreads();
    for (int t = 0; t < a.steps; ++t) {
      REAL pre[OWN][GATES], sum[OWN][GATES];
#pragma unroll
      for (int p = 0; p < OWN; ++p) {
#pragma unroll
        for (int g = 0; g < GATES; ++g) pre[p][g] = own[p].pre[g];
        if (there[p] && t + 1 < a.steps) own[p].load(a, unit, t + 2 < a.steps);
      }
      product.multiply(states + (t & 1) * STATES, sum);
      OPERAND* const after = states + (~t & 1) * STATES;
#if GROUP > 1
      ++exchange;
      u64* const box = mail + (exchange & 1) * (WIDTH * ROWS);
#endif
#pragma unroll
      for (int p = 0; p < OWN; ++p) {
        if (!mine) continue;
#ifdef CELL_GRU
#pragma unroll
        for (int g = 0; g < GATES; ++g) sum[p][g] += bias[g];
#endif
        if (there[p]) own[p].step(a, t, pre[p], sum[p]);
#if GROUP > 1
        send(box + product.row(p) * WIDTH + unit, own[p].cell.h, exchange);
#else
        after[state_at(unit, product.row(p))] = operand(own[p].cell.h);
#endif
      }
#if GROUP > 1
      // The last step's is received too where more sequences follow: their first exchange but one has its place.
      if (t + 1 < a.steps || first + groups * ROWS < a.batch) {
        constexpr int total = WIDTH * ROWS, most = (total + THREADS - 1) / THREADS;
        const int count = (total - (int)threadIdx.x + THREADS - 1) / THREADS;
        float values[most];
        if (count > 0) receive(box + threadIdx.x, THREADS, count, exchange, values);
#pragma unroll
        for (int n = 0; n < most; ++n) {
          const int i = (int)threadIdx.x + n * THREADS;
          if (n < count) after[state_at(i % WIDTH, i / WIDTH)] = operand(values[n]);
        }
      }
#endif
      __syncthreads();
    }
#pragma unroll
    for (int p = 0; p < OWN; ++p)
      if (there[p]) own[p].finish(a, unit);
  }
#if GROUP > 1
  if (threadIdx.x == 0) *count = exchange;
#endif
}

#include "backends/cpu/loss/class_loss.h"

#include <algorithm>

#include "backends/cpu/common/align.h"
#include "backends/cpu/common/scratch.h"
#include "backends/cpu/matmul/gemm/panels.h"
#include "backends/cpu/norm/softmax_kernels.h"
#include "base/convert.h"
#include "base/text.h"
#include "base/threads.h"

namespace varve::cpu {
namespace {

using backend::RunArgs;

// Logits of a block: they stay in the last-level cache. Every block reads and writes the weights' gradient once.
constexpr std::int64_t kBlockBytes = 20 << 20;
constexpr std::int64_t kStep = 64;  // rows that blocks are a multiple of
// Rows of a block that one thread takes through the loss: for each of these all weights are read.
constexpr std::int64_t kRows = 256;
constexpr std::int64_t kDepth = 512;  // terms of a sum for which a panel stays in the cache
constexpr std::int64_t kPanels = 4;   // that are packed at once: each row lies on another page

// An odd number of cache lines, so that the same column of many rows does not fall to one set of the cache.
std::int64_t row_floats(std::int64_t classes) {
  constexpr std::int64_t kLine = 16;  // floats of a cache line
  const std::int64_t lines = align_up(classes, kLine) / kLine;
  return (lines + (lines + 1) % 2) * kLine;
}

// c = a·b in parts of which a panel of the right side stays in the cache.
void multiply_deep(const plain::PanelProduct& whole) {
  plain::PanelProduct part = whole;
  for (std::int64_t k = 0; k < whole.k; k += kDepth) {
    part.k = std::min(kDepth, whole.k - k);
    part.a.data = whole.a.data + k * whole.a.step;
    part.b.data = whole.b.data + k * whole.b.row;
    part.start = {k > 0 ? part.c : nullptr, part.c_row};
    plain::multiply(part);
  }
}

class ClassLossKernel final : public backend::Kernel {
 public:
  explicit ClassLossKernel(const ClassLoss& loss)
      : l_(loss),
        pitch_(row_floats(loss.classes)),
        block_(std::clamp(kBlockBytes / 4 / pitch_ / kStep * kStep, kStep, align_up(loss.rows, kStep))),
        text_(cat("cross_entropy: a label is out of range [0, ", loss.classes, ").")) {}

  std::size_t scratch_bytes() const {
    return bytes(forward_floats()) + bytes(backward_floats()) + bytes(x_floats()) +
           bytes(static_cast<std::size_t>(block_ * pitch_)) + workers() * bytes(panel_floats());
  }

  void run(const RunArgs& args) override {
    Carver memory(static_cast<std::byte*>(args.scratch));
    Run run{.args = args,
            .forward = memory.take<float>(forward_floats()),
            .backward = memory.take<float>(backward_floats()),
            .x = memory.take<float>(x_floats()),
            .logits = memory.take<float>(static_cast<std::size_t>(block_ * pitch_)),
            .panels = memory.take<float>(0)};
    plain::pack_panels(input(args, ClassLoss::kWeights), l_.features, l_.classes, l_.transposed, run.forward);
    if (has(ClassLoss::kDx))
      plain::pack_panels(input(args, ClassLoss::kWeights), l_.classes, l_.features, !l_.transposed, run.backward);
    if (float* sums = output(args, ClassLoss::kDbias)) std::fill_n(sums, l_.classes, 0.f);
    for (std::int64_t first = 0; first < l_.rows; first += block_) {
      const std::int64_t rows = std::min(block_, l_.rows - first);
      parallel_for(rows, thread_rows(), [&](std::int64_t begin, std::int64_t end) {
        through_loss(run, first + begin, run.logits + begin * pitch_, end - begin);
      });
      if (has(ClassLoss::kDweights) || has(ClassLoss::kDbias)) add_weights(run, first, rows);
    }
  }

 private:
  struct Run {
    const RunArgs& args;
    float *forward, *backward;  // the weights packed for each pass
    float* x;                   // a block of it packed, where the weights are transposed
    float *logits, *panels;     // of a block; a panel of them for each worker
  };

  static std::size_t bytes(std::size_t floats) { return cache_aligned(floats * sizeof(float)); }
  bool has(std::size_t output) const { return l_.out[output] >= 0; }
  const float* input(const RunArgs& args, std::size_t i) const {
    return l_.in[i] < 0 ? nullptr : static_cast<const float*>(args.in[l_.in[i]]);
  }
  float* output(const RunArgs& args, std::size_t i) const {
    return l_.out[i] < 0 ? nullptr : static_cast<float*>(args.out[l_.out[i]]);
  }
  std::size_t forward_floats() const { return plain::packed_floats(l_.features, l_.classes); }
  std::size_t backward_floats() const {
    return has(ClassLoss::kDx) ? plain::packed_floats(l_.classes, l_.features) : 0;
  }
  std::size_t x_floats() const {
    return l_.transposed && has(ClassLoss::kDweights) ? plain::packed_floats(block_, l_.features) : 0;
  }
  std::size_t panel_floats() const { return static_cast<std::size_t>(kPanels * block_ * plain::panel_columns()); }
  std::size_t workers() const { return static_cast<std::size_t>(l_.setting.threads); }
  // No bit depends on it.
  std::int64_t thread_rows() const {
    constexpr std::int64_t kFewest = 8;  // as many as are multiplied at a time
    return std::clamp(align_up((block_ + l_.setting.threads - 1) / l_.setting.threads, kFewest), kFewest, kRows);
  }

  // Some rows of a block: logits, losses, the logits' gradient in their place, and the gradient of x.
  void through_loss(const Run& run, std::int64_t first, float* logits, std::int64_t rows) const {
    plain::multiply(plain::PanelProduct{.m = rows,
                                        .n = l_.classes,
                                        .k = l_.features,
                                        .a = {input(run.args, ClassLoss::kX) + first * l_.features, l_.features},
                                        .b = plain::packed_right(run.forward, l_.features),
                                        .start = {input(run.args, ClassLoss::kBias), 0},
                                        .c = logits,
                                        .c_row = pitch_});
    const Labels labels{run.args.in[l_.in[ClassLoss::kLabels]], l_.labels};
    const float* scale = input(run.args, ClassLoss::kDloss);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t label = label_of(labels, first + row, l_.classes);
      if (label < 0) run.args.errors->note(text_, load_i(labels.data, l_.labels, first + row));
      output(run.args, ClassLoss::kLoss)[first + row] =
          cross_entropy_in_place(logits + row * pitch_, l_.classes, label, scale[first + row]);
    }
    if (float* dx = output(run.args, ClassLoss::kDx))
      multiply_deep({.m = rows,
                     .n = l_.features,
                     .k = l_.classes,
                     .a = {logits, pitch_},
                     .b = plain::packed_right(run.backward, l_.classes),
                     .c = dx + first * l_.features,
                     .c_row = l_.features});
  }

  // What a block adds to the gradients of weights and bias.
  void add_weights(const Run& run, std::int64_t first, std::int64_t rows) const {
    const std::int64_t width = plain::panel_columns(), columns = kPanels * width;
    const std::int64_t count = align_up(l_.classes, columns) / columns;
    const auto workers = std::min<std::int64_t>(l_.setting.threads, count);
    if (x_floats() > 0)
      plain::pack_panels(input(run.args, ClassLoss::kX) + first * l_.features, rows, l_.features, false, run.x);
    parallel_for(workers, 1, [&](std::int64_t worker, std::int64_t) {
      float* panels = run.panels + worker * static_cast<std::int64_t>(bytes(panel_floats()) / sizeof(float));
      for (std::int64_t part = count * worker / workers; part < count * (worker + 1) / workers; ++part) {
        const std::int64_t column = part * columns;
        pack_part(run.logits + column, rows, std::min(columns, l_.classes - column), panels);
        add_part(run, first, rows, column, panels);
      }
    });
  }

  void pack_part(const float* logits, std::int64_t rows, std::int64_t columns, float* panels) const {
    const std::int64_t width = plain::panel_columns();
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t at = 0; at < columns; at += width)
        std::copy_n(logits + row * pitch_ + at, std::min(width, columns - at), panels + at * rows + row * width);
  }

  // db += Σ d and dw += xᵀ·d, or its transpose, for the columns that are packed.
  void add_part(const Run& run, std::int64_t first, std::int64_t rows, std::int64_t column, const float* panels) const {
    const std::int64_t width = plain::panel_columns(), columns = std::min(kPanels * width, l_.classes - column);
    float *dw = output(run.args, ClassLoss::kDweights), *db = output(run.args, ClassLoss::kDbias);
    for (std::int64_t at = 0; at < columns; at += width) {
      const std::int64_t filled = std::min(width, columns - at);
      if (db) plain::add_columns(panels + at * rows, width, rows, filled, db + column + at);
      if (!dw || !l_.transposed) continue;
      float* to = dw + (column + at) * l_.features;
      plain::multiply(plain::PanelProduct{.m = filled,
                                          .n = l_.features,
                                          .k = rows,
                                          .a = {panels + at * rows, 1, width},
                                          .b = plain::packed_right(run.x, rows),
                                          .start = {first == 0 ? nullptr : to, l_.features},
                                          .c = to,
                                          .c_row = l_.features});
    }
    if (!dw || l_.transposed) return;
    plain::multiply(plain::PanelProduct{.m = l_.features,
                                        .n = columns,
                                        .k = rows,
                                        .a = {input(run.args, ClassLoss::kX) + first * l_.features, 1, l_.features},
                                        .b = plain::packed_right(panels, rows),
                                        .start = {first == 0 ? nullptr : dw + column, l_.classes},
                                        .c = dw + column,
                                        .c_row = l_.classes});
  }

  ClassLoss l_;
  std::int64_t pitch_, block_;
  std::string text_;
};

}  // namespace

backend::Prepared prepare_class_loss(const ClassLoss& loss) {
  auto kernel = std::make_unique<ClassLossKernel>(loss);
  const std::size_t scratch = kernel->scratch_bytes();
  return {std::move(kernel), scratch};
}

}  // namespace varve::cpu

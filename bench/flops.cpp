#include "bench/flops.h"

#include "base/text.h"

namespace varve::bench {
namespace {

// Adds up layer after layer, for one sample. The gradient of a layer costs twice its forward pass; the first product of
// a network of pictures or rows owes none for its input.
class Counter {
 public:
  explicit Counter(const Workload& w) : work_(), first_(w.dtype == f32) {
    if (w.input.rank() == 3)
      height_ = w.input[0], width_ = w.input[1], channels_ = w.input[2];
    else if (w.dtype == f32)
      channels_ = w.input.numel();
  }

  void product(double flops, std::int64_t parameters) {
    work_.forward += flops;
    work_.step += (first_ ? 2 : 3) * flops;
    work_.parameters += parameters;
    first_ = false;
  }
  void extra_parameters(std::int64_t count) { work_.parameters += count; }

  void dense(std::int64_t out, double rows = 1) {
    const std::int64_t in = height_ * width_ * channels_;
    product(2.0 * rows * static_cast<double>(in * out), (in + 1) * out);
    height_ = width_ = 1, channels_ = out;
  }
  struct Conv {
    std::int64_t out, kernel, stride = 1;
    bool same = true, bias = true;
  };
  void conv(const Conv& c) {
    const std::int64_t shrink = c.same ? 0 : c.kernel - 1;
    height_ = (height_ - shrink + c.stride - 1) / c.stride, width_ = (width_ - shrink + c.stride - 1) / c.stride;
    const std::int64_t weights = c.out * c.kernel * c.kernel * channels_;
    product(2.0 * static_cast<double>(height_ * width_ * weights), weights + (c.bias ? c.out : 0));
    channels_ = c.out;
  }
  void pool(std::int64_t kernel, std::int64_t stride, std::int64_t padding = 0) {
    height_ = (height_ + 2 * padding - kernel) / stride + 1, width_ = (width_ + 2 * padding - kernel) / stride + 1;
  }
  void norm() { extra_parameters(2 * channels_); }
  void average_pool() { height_ = width_ = 1; }
  std::int64_t channels() const { return channels_; }
  struct Map {
    std::int64_t height, width, channels;
  };
  Map map() const { return {height_, width_, channels_}; }
  void restore(const Map& m) { height_ = m.height, width_ = m.width, channels_ = m.channels; }

  // Over `steps` rows, with one bias.
  void lstm(std::int64_t in, std::int64_t width, double steps) {
    product(2.0 * steps * static_cast<double>((in + width) * 4 * width), (in + width + 1) * 4 * width);
  }

  Work total(std::int64_t batch) const {
    return {work_.forward * static_cast<double>(batch), work_.step * static_cast<double>(batch), work_.parameters};
  }

 private:
  Work work_;
  bool first_;
  std::int64_t height_ = 1, width_ = 1, channels_ = 1;
};

void mlp(Counter& c, const Workload& w) {
  for (const std::int64_t width : w.network.hidden) c.dense(width);
  c.dense(w.classes);
}

void cnn(Counter& c, const Workload& w) {
  for (const std::int64_t out : w.network.channels) {
    c.conv({.out = out, .kernel = w.network.kernel, .same = false});
    c.pool(2, 2);
  }
  c.dense(w.network.dense);
  c.dense(w.classes);
}

void alexnet(Counter& c, const Workload& w) {
  c.conv({.out = 96, .kernel = 11, .stride = 4});
  c.pool(3, 2);
  c.conv({.out = 256, .kernel = 5});
  c.pool(3, 2);
  for (const std::int64_t out : {384, 384, 256}) c.conv({.out = out, .kernel = 3});
  c.pool(3, 2);
  for (const std::int64_t out : {std::int64_t{4096}, std::int64_t{4096}, w.classes}) c.dense(out);
}

void vgg(Counter& c, const Workload& w) {
  for (const auto& [out, count] : w.network.blocks) {
    for (std::int64_t i = 0; i < count; ++i) {
      c.conv({.out = out, .kernel = 3});
      if (w.network.batch_norm) c.norm();
    }
    c.pool(2, 2);
  }
  for (const std::int64_t out : w.network.hidden) c.dense(out);
  c.dense(w.classes);
}

void bottleneck(Counter& c, std::int64_t width, std::int64_t stride, bool project) {
  const Counter::Map start = c.map();
  if (project) {
    c.conv({.out = 4 * width, .kernel = 1, .stride = stride, .bias = false});
    c.norm();
    c.restore(start);
  }
  c.conv({.out = width, .kernel = 1, .bias = false});
  c.norm();
  c.conv({.out = width, .kernel = 3, .stride = stride, .bias = false});
  c.norm();
  c.conv({.out = 4 * width, .kernel = 1, .bias = false});
  c.norm();
}

void resnet(Counter& c, const Workload& w) {
  c.conv({.out = 64, .kernel = 7, .stride = 2, .bias = false});
  c.norm();
  c.pool(3, 2, 1);
  std::int64_t width = 64;
  for (std::size_t stage = 0; stage < w.network.layers.size(); ++stage, width *= 2)
    for (std::int64_t i = 0; i < w.network.layers[stage]; ++i)
      bottleneck(c, width, stage > 0 && i == 0 ? 2 : 1, i == 0);
  c.average_pool();
  c.dense(w.classes);
}

// Embedding, LSTM layers over the sequence, and a dense layer at each step or after the last.
void recurrent(Counter& c, const Workload& w) {
  const Architecture& a = w.network;
  const bool each = w.targets == Targets::tokens;
  const double steps = static_cast<double>(w.input[0]);
  c.extra_parameters(w.vocabulary * a.embedded);
  for (std::int64_t i = 0; i < (each ? a.depth : 1); ++i) c.lstm(i == 0 ? a.embedded : a.width, a.width, steps);
  c.product(2.0 * (each ? steps : 1) * static_cast<double>(a.width * w.classes), (a.width + 1) * w.classes);
}

// Pre-norm blocks with four times the width inside, and the embedding's table again as the output layer.
void gpt(Counter& c, const Workload& w) {
  const Architecture& a = w.network;
  const double tokens = static_cast<double>(w.input[0]), d = static_cast<double>(a.width);
  c.extra_parameters((w.vocabulary + a.context) * a.width + 2 * a.width);
  for (std::int64_t i = 0; i < a.depth; ++i) {
    c.product(2 * tokens * d * 12 * d, 12 * a.width * a.width + 9 * a.width + 4 * a.width);
    c.product(2 * 2 * d * tokens * (tokens + 1) / 2, 0);  // scores and values, each query with those before it
  }
  c.product(2 * tokens * d * static_cast<double>(w.vocabulary), 0);
}

void autoencoder(Counter& c, const Workload& w) {
  for (const std::int64_t width : w.network.hidden) c.dense(width);
  c.dense(w.input.numel());
}

// Trees of 3 to 17 leaves: ten on average, which nine nodes join.
void tree(Counter& c, const Workload& w) {
  constexpr double kLeaves = 10;
  const std::int64_t in = w.network.embedded, width = w.network.width;
  c.extra_parameters(w.vocabulary * in);
  c.product(2 * kLeaves * static_cast<double>(in * 3 * width), (in + 1) * 3 * width);
  c.product(2 * (kLeaves - 1) * static_cast<double>(2 * width * 5 * width), (2 * width + 1) * 5 * width);
  c.product(2 * static_cast<double>(width * w.classes), (width + 1) * w.classes);
}

}  // namespace

Work count_work(const Workload& w, std::int64_t batch) {
  Counter counter(w);
  const std::string& family = w.network.family;
  if (family == "mlp")
    mlp(counter, w);
  else if (family == "cnn")
    cnn(counter, w);
  else if (family == "alexnet")
    alexnet(counter, w);
  else if (family == "vgg")
    vgg(counter, w);
  else if (family == "resnet")
    resnet(counter, w);
  else if (family == "lm" || family == "classifier")
    recurrent(counter, w);
  else if (family == "gpt")
    gpt(counter, w);
  else if (family == "autoencoder")
    autoencoder(counter, w);
  else if (family == "tree")
    tree(counter, w);
  else
    throw Error(cat("workload \"", w.name, "\": nobody counts a network of family \"", family, "\"."));
  return counter.total(batch);
}

}  // namespace varve::bench

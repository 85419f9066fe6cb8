#include "networks.h"

#include <cmath>

namespace varve::networks {

Variable Parameters::get(const std::string& name, const Shape& shape, double deviation) {
  for (const auto& [known, variable] : made_)
    if (known == name) return variable;
  const Tensor values = normal(shape, {.seed = 1, .stream = name}) * deviation;
  made_.push_back({name, Variable(name, values.eval())});
  return made_.back().second;
}

Variable Parameters::constant(const std::string& name, const Shape& shape, double value) {
  for (const auto& [known, variable] : made_)
    if (known == name) return variable;
  made_.push_back({name, Variable(name, full(shape, value))});
  return made_.back().second;
}

std::vector<Variable> Parameters::all() const {
  std::vector<Variable> variables;
  for (const auto& [name, variable] : made_) variables.push_back(variable);
  return variables;
}

std::int64_t Parameters::count() const {
  std::int64_t n = 0;
  for (const auto& [name, variable] : made_) n += variable.shape().numel();
  return n;
}

namespace {

Tensor labels(const Shape& shape, std::int64_t classes) {
  return cast(floor(uniform(shape, {.seed = 5, .stream = "labels"}) * classes), i64).eval();
}
Tensor images(std::int64_t batch, std::int64_t size, std::int64_t channels) {
  return normal({batch, size, size, channels}, {.seed = 4, .stream = "images"}).eval();
}

Tensor dense(Parameters& p, const std::string& name, const Tensor& x, std::int64_t out) {
  const std::int64_t in = x.dim(-1);
  return linear(x, p.get(name + ".w", {in, out}, std::sqrt(2.0 / static_cast<double>(in))),
                p.constant(name + ".b", {out}, 0));
}

struct ConvShape {
  std::int64_t out = 0, kernel = 3, stride = 1;
  bool bias = true;
};
Tensor conv(Parameters& p, const std::string& name, const Tensor& x, const ConvShape& c) {
  const std::int64_t in = x.dim(3);
  const Variable w = p.get(name + ".w", {c.out, c.kernel, c.kernel, in},
                           std::sqrt(2.0 / static_cast<double>(in * c.kernel * c.kernel)));
  const Padding rows = same_padding(x.dim(1), c.kernel, c.stride), columns = same_padding(x.dim(2), c.kernel, c.stride);
  const Tensor y = conv2d(x, w, {.stride = {c.stride, c.stride}, .padding = {rows, columns}});
  return c.bias ? y + p.constant(name + ".b", {c.out}, 0) : y;
}

Tensor batch_normed(Parameters& p, const std::string& name, const Tensor& x) {
  const std::int64_t channels = x.dim(3);
  return batch_norm_train(x, p.constant(name + ".scale", {channels}, 1), p.constant(name + ".shift", {channels}, 0)).y;
}

// Without padding, which gives AlexNet its published 6×6 at the end.
Tensor inner_pool3(const Tensor& x) { return max_pool2d(x, {.window = {3, 3}, .stride = {2, 2}}); }

Tensor pool3(const Tensor& x) {
  return max_pool2d(
      x, {.window = {3, 3}, .stride = {2, 2}, .padding = {same_padding(x.dim(1), 3, 2), same_padding(x.dim(2), 3, 2)}});
}

}  // namespace

Network fcn(std::int64_t batch, std::int64_t ends, std::int64_t width, int hidden) {
  return {"fcn",
          {normal({batch, ends}, {.seed = 4}).eval(), labels({batch}, ends)},
          [=](Parameters& p, const std::vector<Tensor>& in) {
            Tensor x = in[0];
            for (int i = 0; i < hidden; ++i) x = sigmoid(dense(p, "h" + std::to_string(i), x, width));
            return cross_entropy(dense(p, "out", x, ends), in[1]);
          }};
}

Network cnn(std::int64_t batch, std::int64_t size, std::int64_t channels, std::int64_t width) {
  return {"cnn",
          {images(batch, size, channels), labels({batch}, 10)},
          [=](Parameters& p, const std::vector<Tensor>& in) {
            Tensor x = in[0];
            for (int i = 0; i < 2; ++i) {
              x = max_pool2d(relu(conv(p, "conv" + std::to_string(i), x, {width << i, 5})));
              x = dropout(x, 0.25, {.seed = 3, .stream = "drop" + std::to_string(i)});
            }
            return cross_entropy(dense(p, "out", relu(dense(p, "fc", flatten(x), width * 16)), 10), in[1]);
          },
          true};
}

Network vgg16(std::int64_t batch, std::int64_t size, std::int64_t width) {
  return {"vgg16",
          {images(batch, size, 3), labels({batch}, 10)},
          [=](Parameters& p, const std::vector<Tensor>& in) {
            Tensor x = in[0];
            const int repeats[] = {2, 2, 3, 3, 3}, factor[] = {1, 2, 4, 8, 8};
            for (int block = 0; block < 5; ++block) {
              for (int i = 0; i < repeats[block]; ++i)
                x = relu(conv(p, "conv" + std::to_string(block) + "_" + std::to_string(i), x, {width * factor[block]}));
              x = max_pool2d(x);
            }
            x = relu(dense(p, "fc1", flatten(x), width * 8));
            x = relu(dense(p, "fc2", x, width * 8));
            return cross_entropy(dense(p, "out", x, 10), in[1]);
          },
          true};
}

Network alexnet(std::int64_t batch, std::int64_t size, std::int64_t width, std::int64_t classes) {
  return {
      "alexnet", {images(batch, size, 3), labels({batch}, classes)}, [=](Parameters& p, const std::vector<Tensor>& in) {
        Tensor x = inner_pool3(relu(conv(p, "conv1", in[0], {width * 3, 11, 4})));
        x = inner_pool3(relu(conv(p, "conv2", x, {width * 8, 5})));
        x = relu(conv(p, "conv3", x, {width * 12}));
        x = relu(conv(p, "conv4", x, {width * 12}));
        x = flatten(inner_pool3(relu(conv(p, "conv5", x, {width * 8}))));
        x = relu(dense(p, "fc6", x, width * 128));
        x = relu(dense(p, "fc7", x, width * 128));
        return cross_entropy(dense(p, "fc8", x, classes), in[1]);
      }};
}

namespace {

Tensor bottleneck(Parameters& p, const std::string& name, const Tensor& x, std::int64_t width, std::int64_t stride,
                  bool project) {
  Tensor y = relu(batch_normed(p, name + ".bn1", conv(p, name + ".conv1", x, {width, 1, 1, false})));
  y = relu(batch_normed(p, name + ".bn2", conv(p, name + ".conv2", y, {width, 3, stride, false})));
  y = batch_normed(p, name + ".bn3", conv(p, name + ".conv3", y, {width * 4, 1, 1, false}));
  const Tensor shortcut =
      project ? batch_normed(p, name + ".bn0", conv(p, name + ".conv0", x, {width * 4, 1, stride, false})) : x;
  return relu(y + shortcut);
}

}  // namespace

Network resnet50(std::int64_t batch, std::int64_t size, std::int64_t width, std::int64_t classes) {
  return {"resnet50",
          {images(batch, size, 3), labels({batch}, classes)},
          [=](Parameters& p, const std::vector<Tensor>& in) {
            Tensor x = pool3(relu(batch_normed(p, "bn", conv(p, "conv", in[0], {width, 7, 2, false}))));
            const int blocks[] = {3, 4, 6, 3};
            for (int stage = 0; stage < 4; ++stage)
              for (int b = 0; b < blocks[stage]; ++b)
                x = bottleneck(p, "s" + std::to_string(stage) + "b" + std::to_string(b), x, width << stage,
                               b == 0 && stage > 0 ? 2 : 1, b == 0);
            return cross_entropy(dense(p, "out", global_avg_pool2d(x), classes), in[1]);
          }};
}

namespace {
RecurrentWeights lstm_weights(Parameters& p, const std::string& name, std::int64_t in, std::int64_t size) {
  const double deviation = 1 / std::sqrt(static_cast<double>(size));
  return {p.get(name + ".wx", {in, 4 * size}, deviation), p.get(name + ".wh", {size, 4 * size}, deviation),
          p.constant(name + ".b", {4 * size}, 0)};
}
}  // namespace

Network lstm_language(std::int64_t batch, std::int64_t steps, std::int64_t vocabulary, std::int64_t width) {
  return {
      "lstm",
      {labels({steps, batch}, vocabulary), labels({steps, batch}, vocabulary)},
      [=](Parameters& p, const std::vector<Tensor>& in) {
        const Tensor x = embedding(p.get("embedding", {vocabulary, width}, 0.1), in[0]);
        const Tensor y = lstm(x, {lstm_weights(p, "lstm0", width, width), lstm_weights(p, "lstm1", width, width)}).y;
        return cross_entropy(dense(p, "out", y, vocabulary), in[1]);
      }};
}

Network lstm_classifier(std::int64_t batch, std::int64_t steps, std::int64_t vocabulary, std::int64_t embedded,
                        std::int64_t width) {
  return {"lstm classifier",
          {labels({steps, batch}, vocabulary), labels({batch}, 2)},
          [=](Parameters& p, const std::vector<Tensor>& in) {
            const Tensor x = embedding(p.get("embedding", {vocabulary, embedded}, 0.1), in[0]);
            return cross_entropy(dense(p, "out", lstm(x, {lstm_weights(p, "lstm", embedded, width)}).h[0], 2), in[1]);
          },
          true};
}

Network autoencoder(std::int64_t batch, std::vector<std::int64_t> sizes) {
  return {"autoencoder",
          {uniform({batch, sizes.front()}, {.seed = 4}).eval()},
          [=](Parameters& p, const std::vector<Tensor>& in) {
            Tensor x = in[0];
            for (std::size_t i = 1; i < sizes.size(); ++i) {
              x = dense(p, "fc" + std::to_string(i), x, sizes[i]);
              if (i + 1 < sizes.size()) x = relu(x);
            }
            return binary_cross_entropy(x, in[0]);
          },
          true};
}

namespace {

Tensor normed(Parameters& p, const std::string& name, const Tensor& x) {
  const std::int64_t width = x.dim(-1);
  return layer_norm(x, p.constant(name + ".scale", {width}, 1), p.constant(name + ".shift", {width}, 0));
}

Tensor self_attention(Parameters& p, const std::string& name, const Tensor& x, std::int64_t heads) {
  const std::int64_t batch = x.dim(0), steps = x.dim(1), width = x.dim(2);
  const auto apart = [&](const Tensor& t) {
    return transpose(reshape(t, {batch, steps, heads, width / heads}), {0, 2, 1, 3});
  };
  const std::vector<Tensor> qkv = split(dense(p, name + ".qkv", x, 3 * width), 3, -1);
  const Tensor y = attention(apart(qkv[0]), apart(qkv[1]), apart(qkv[2]), {.causal = true});
  return dense(p, name + ".proj", reshape(transpose(y, {0, 2, 1, 3}), {batch, steps, width}), width);
}

}  // namespace

Network gpt(std::int64_t batch, std::int64_t context, std::int64_t vocabulary, std::int64_t width, int layers,
            std::int64_t heads) {
  return {"gpt",
          {labels({batch, context}, vocabulary), labels({batch, context}, vocabulary)},
          [=](Parameters& p, const std::vector<Tensor>& in) {
            const Variable table = p.get("embedding", {vocabulary, width}, 0.02);
            Tensor x = embedding(table, in[0]) + p.get("positions", {context, width}, 0.02);
            for (int l = 0; l < layers; ++l) {
              const std::string name = "block" + std::to_string(l);
              x = x + self_attention(p, name + ".attention", normed(p, name + ".norm1", x), heads);
              x = x + dense(p, name + ".down", gelu(dense(p, name + ".up", normed(p, name + ".norm2", x), 4 * width)),
                            width);
            }
            return cross_entropy(matmul(normed(p, "norm", x), table, {.transpose_b = true}), in[1]);  // weights tied
          },
          true};
}

namespace {

// Adam's moments, or nothing for plain descent.
struct Optimizer {
  Variable rate, steps;
  std::map<std::string, std::pair<Variable, Variable>> moments;

  void apply(const std::vector<Variable>& parameters, const std::vector<Tensor>& grads, bool adam) {
    if (adam) steps.assign(steps.value() + 1);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      Variable w = parameters[i];
      if (!adam) {
        w.assign(sgd_update(w, grads[i], {}, rate).parameter);
        continue;
      }
      auto [it, fresh] = moments.try_emplace(w.name());
      if (fresh)
        it->second = {Variable(w.name() + ".m", zeros(w.shape())), Variable(w.name() + ".v", zeros(w.shape()))};
      auto& [m, v] = it->second;
      const Updated updated = adam_update(w, grads[i], m, v, rate, steps);
      w.assign(updated.parameter);
      m.assign(updated.state[0]);
      v.assign(updated.state[1]);
    }
  }
};

}  // namespace

Trainer::Trainer(Network network, double rate)
    : network_(std::move(network)), parameters_(std::make_shared<Parameters>()) {
  network_.loss(*parameters_, network_.batch);  // makes the parameters
  auto optimizer = std::make_shared<Optimizer>();
  optimizer->rate = Variable("rate", full({}, rate), false);
  optimizer->steps = Variable("steps", full_int({}, 0, i64), false);
  program_ = detail::compile(
      [net = network_, p = parameters_, optimizer](const std::vector<Tensor>& in) {
        auto [loss, grads] = value_and_grad([&] { return net.loss(*p, in); }, p->all());
        optimizer->apply(p->all(), grads, net.adam);
        return std::vector<Tensor>{loss};
      },
      {.name = network_.name});
}

double Trainer::step() {
  std::vector<const Tensor*> args;
  for (const Tensor& t : network_.batch) args.push_back(&t);
  detail::call(*program_, args.data(), args.size(), results_);
  return results_[0].item<float>();
}

std::int64_t Trainer::peak_bytes() { return detail::peak_bytes(*program_, network_.batch); }
Profile Trainer::profile(int repeats) { return detail::profile(*program_, network_.batch, repeats); }
std::string Trainer::text() { return detail::text(*program_, network_.batch); }

}  // namespace varve::networks

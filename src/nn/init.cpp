#include "varve/nn/init.h"

#include <cmath>
#include <utility>
#include <vector>

#include "nn/orthogonal.h"
#include "varve/nn/text.h"

namespace varve::nn::init {
namespace {

// Of dense weights [I, O] and convolution weights [O, K…, I]; a vector reaches each of its own elements.
Fans fans_of(const Shape& shape, const Fans& given) {
  if (given.in > 0 && given.out > 0) return given;
  Fans fans{1, 1};
  if (shape.rank() == 1) fans = {shape[0], shape[0]};
  if (shape.rank() == 2) fans = {shape[0], shape[1]};
  if (shape.rank() > 2) {
    std::int64_t window = 1;
    for (int axis = 1; axis + 1 < shape.rank(); ++axis) window *= shape[axis];
    fans = {window * shape.back(), window * shape[0]};
  }
  return {given.in > 0 ? given.in : fans.in, given.out > 0 ? given.out : fans.out};
}

// A size of 0 has no values to spread.
double root(double numerator, std::int64_t fan) {
  return std::sqrt(numerator / static_cast<double>(fan > 0 ? fan : 1));
}

Tensor uniform_within(const Shape& shape, double limit, const RandomOptions& random) {
  return varve::uniform(shape, random) * (2 * limit) - limit;
}

}  // namespace

Initializer constant(double value) {
  return [value](const Shape& shape, const Fans&, const RandomOptions& random) {
    return full(shape, value, random.dtype);
  };
}
Initializer zeros() { return constant(0); }
Initializer ones() { return constant(1); }

Initializer normal(double deviation) {
  return [deviation](const Shape& shape, const Fans&, const RandomOptions& random) {
    return varve::normal(shape, random) * deviation;
  };
}

Initializer truncated_normal(double deviation) {
  return [deviation](const Shape& shape, const Fans&, const RandomOptions& random) {
    // A value outside is drawn again, which leaves one in 10^7 outside after five draws: those are clipped.
    Tensor z = varve::normal(shape, random);
    for (int draw = 1; draw < 5; ++draw) {
      RandomOptions next = random;
      next.stream += "." + std::to_string(draw);
      z = where(varve::abs(z) > 2, varve::normal(shape, next), z);
    }
    return clip(z, -2, 2) * deviation;
  };
}

Initializer uniform(double limit) {
  return [limit](const Shape& shape, const Fans&, const RandomOptions& random) {
    return uniform_within(shape, limit, random);
  };
}

Initializer glorot_uniform() {
  return [](const Shape& shape, const Fans& given, const RandomOptions& random) {
    const Fans fans = fans_of(shape, given);
    return uniform_within(shape, root(6, fans.in + fans.out), random);
  };
}
Initializer glorot_normal() {
  return [](const Shape& shape, const Fans& given, const RandomOptions& random) {
    const Fans fans = fans_of(shape, given);
    return varve::normal(shape, random) * root(2, fans.in + fans.out);
  };
}
Initializer he_uniform() {
  return [](const Shape& shape, const Fans& given, const RandomOptions& random) {
    return uniform_within(shape, root(6, fans_of(shape, given).in), random);
  };
}
Initializer he_normal() {
  return [](const Shape& shape, const Fans& given, const RandomOptions& random) {
    return varve::normal(shape, random) * root(2, fans_of(shape, given).in);
  };
}
Initializer lecun_normal() {
  return [](const Shape& shape, const Fans& given, const RandomOptions& random) {
    return varve::normal(shape, random) * root(1, fans_of(shape, given).in);
  };
}
Initializer fan_in_uniform() {
  return [](const Shape& shape, const Fans& given, const RandomOptions& random) {
    return uniform_within(shape, root(1, fans_of(shape, given).in), random);
  };
}

Initializer orthogonal(double gain) {
  return [gain](const Shape& shape, const Fans&, const RandomOptions& random) {
    if (shape.rank() < 2)
      throw Error("orthogonal: needs a shape of two or more axes, got " + shape.str() + "; use another initialiser.");
    if (shape.numel() == 0) return varve::zeros(shape, random.dtype);
    const std::int64_t columns = shape.back(), rows = shape.numel() / columns;
    const Tensor gaussian = varve::normal({rows, columns}, random);
    const Tensor q = rows > columns ? transpose(orthonormal_rows(transpose(gaussian))) : orthonormal_rows(gaussian);
    return reshape(q * gain, shape).to(random.dtype);
  };
}

Initializer gates(Initializer each, std::int64_t count) {
  if (count < 1) throw Error("gates: the count is " + std::to_string(count) + "; expected 1 or more.");
  return [each = std::move(each), count](const Shape& shape, const Fans& fans, const RandomOptions& random) {
    if (shape.rank() < 1 || shape.back() % count != 0)
      throw Error("gates: the last size of " + shape.str() + " is not a multiple of " + std::to_string(count) + ".");
    Shape block = shape;
    block[shape.rank() - 1] /= count;
    std::vector<Tensor> blocks;
    for (std::int64_t gate = 0; gate < count; ++gate) {
      RandomOptions own = random;
      own.stream += ".gate" + std::to_string(gate);
      blocks.push_back(each(block, fans, own));
    }
    return concat(blocks, -1);
  };
}

Initializer forget_bias(double value) {
  return [value](const Shape& shape, const Fans&, const RandomOptions& random) {
    if (shape.rank() != 1 || shape[0] % 4 != 0)
      throw Error("forget_bias: expected the shape [4H] of an LSTM's bias, got " + shape.str() + ".");
    const Shape gate{shape[0] / 4};
    const Tensor none = varve::zeros(gate, random.dtype);
    return concat({none, full(gate, value, random.dtype), none, none});
  };
}

Initializer from(const Tensor& values) {
  return [values](const Shape& shape, const Fans&, const RandomOptions& random) {
    if (values.shape() != shape)
      throw Error("from: the values have shape " + values.shape().str() + ", the parameter " + shape.str() + ".");
    return values.to(random.dtype);
  };
}

Initializer by_name(const std::string& name) {
  if (const Initializer* own = OwnNames::initializer(name)) return *own;
  static const std::vector<std::pair<std::string, std::function<Initializer()>>> known = {
      {"zeros", zeros},
      {"ones", ones},
      {"normal", [] { return normal(); }},
      {"truncated_normal", [] { return truncated_normal(); }},
      {"uniform", [] { return uniform(); }},
      {"glorot_uniform", glorot_uniform},
      {"glorot_normal", glorot_normal},
      {"he_uniform", he_uniform},
      {"he_normal", he_normal},
      {"lecun_normal", lecun_normal},
      {"fan_in_uniform", fan_in_uniform},
      {"orthogonal", [] { return orthogonal(); }},
  };
  std::vector<std::string> names;
  for (const auto& [candidate, make] : known) {
    if (candidate == name) return make();
    names.push_back(candidate);
  }
  throw Error("unknown initialiser '" + name + "'." + did_you_mean(name, names));
}

}  // namespace varve::nn::init

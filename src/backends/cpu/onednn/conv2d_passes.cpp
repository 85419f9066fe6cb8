#include "backends/cpu/onednn/conv2d_passes.h"

namespace varve::cpu::dnn {
namespace {

// Logical axes are [N, C, H, W] whatever the memory; the strides say channels last.
Desc image_desc(std::int64_t batch, std::int64_t channels, std::int64_t height, std::int64_t width, Type type) {
  return Desc({batch, channels, height, width}, data_type(type),
              Dims{height * width * channels, 1, width * channels, channels});
}

Dims weight_dims(const Conv2dSpec& s) {
  const std::int64_t in = s.in_channels / s.groups;
  if (s.groups == 1) return {s.out_channels, in, s.kernel_height, s.kernel_width};
  return {s.groups, s.out_channels / s.groups, in, s.kernel_height, s.kernel_width};
}

// [O, KH, KW, I/groups] in memory.
Desc plain_weights(const Conv2dSpec& s, Type type) {
  const std::int64_t in = s.in_channels / s.groups;
  const std::int64_t filter = s.kernel_height * s.kernel_width * in;
  Dims strides{filter, 1, s.kernel_width * in, in};
  if (s.groups > 1) strides.insert(strides.begin(), s.out_channels / s.groups * filter);
  return Desc(weight_dims(s), data_type(type), strides);
}

Type weights_type(Conv2dPass pass, const Conv2dSpec& s) {
  return pass == Conv2dPass::backward_weights ? Type::f32 : s.input;
}

Desc without_layout(const Desc& desc) { return Desc(dims_of(desc), type_of(desc), dnnl::memory::format_tag::any); }

// What oneDNN wants to hear about a convolution besides its tensors.
struct Geometry {
  explicit Geometry(const Conv2dSpec& s)
      : bias(s.bias ? Desc({s.out_channels}, data_type(Type::f32), Dims{1}) : Desc()),
        stride{s.stride_height, s.stride_width},
        dilation{s.dilation_height - 1, s.dilation_width - 1},
        before{s.pad_top, s.pad_left},
        after{s.pad_bottom, s.pad_right} {}

  static constexpr dnnl::algorithm algorithm = dnnl::algorithm::convolution_direct;
  Desc bias;
  Dims stride, dilation, before, after;
};

dnnl::convolution_forward::primitive_desc describe_forward(const Conv2dSpec& s, const ConvLayouts& l) {
  const Geometry g(s);
  dnnl::primitive_attr attr = user_scratch_attr();
  dnnl::post_ops ops;
  if (s.accumulate) ops.append_sum(1.f);
  append_activation(ops, s.activation);
  attr.set_post_ops(ops);
  return describe<dnnl::convolution_forward>(attr, dnnl::prop_kind::forward_training, g.algorithm, l.x, l.weights,
                                             g.bias, l.y, g.stride, g.dilation, g.before, g.after);
}

// A gradient's hint is its forward pass in the types that the gradient reads.
dnnl::convolution_forward::primitive_desc describe_hint(const Conv2dSpec& s) {
  Conv2dSpec plain = s;
  plain.activation = Activation::none;
  plain.accumulate = false;
  plain.output = s.input;
  plain.bias = false;
  return describe_forward(plain, open_layouts(Conv2dPass::forward, plain));
}

std::optional<ConvKernel> prepare_forward(const Conv2dSpec& s, const ConvLayouts& wanted) {
  const auto desc = describe_forward(s, wanted);
  if (!is_fast(desc)) return std::nullopt;
  const ConvLayouts used{desc.src_desc(), desc.weights_desc(), desc.dst_desc()};
  return ConvKernel{Kernel::make<dnnl::convolution_forward>(desc,
                                                            {{DNNL_ARG_SRC, used.x},
                                                             {DNNL_ARG_WEIGHTS, used.weights},
                                                             {DNNL_ARG_BIAS, Geometry(s).bias},
                                                             {DNNL_ARG_DST, used.y}},
                                                            s.single_thread),
                    used};
}

std::optional<ConvKernel> prepare_data(const Conv2dSpec& s, const ConvLayouts& wanted) {
  const Geometry g(s);
  const auto hint = describe_hint(s);
  if (!hint) return std::nullopt;
  const auto desc = describe_gradient<dnnl::convolution_backward_data>(user_scratch_attr(), hint, g.algorithm, wanted.x,
                                                                       wanted.weights, wanted.y, g.stride, g.dilation,
                                                                       g.before, g.after);
  if (!is_fast(desc)) return std::nullopt;
  const ConvLayouts used{desc.diff_src_desc(), desc.weights_desc(), desc.diff_dst_desc()};
  return ConvKernel{Kernel::make<dnnl::convolution_backward_data>(desc,
                                                                  {{DNNL_ARG_DIFF_SRC, used.x},
                                                                   {DNNL_ARG_WEIGHTS, used.weights},
                                                                   {DNNL_ARG_BIAS, Desc()},
                                                                   {DNNL_ARG_DIFF_DST, used.y}},
                                                                  s.single_thread),
                    used};
}

std::optional<ConvKernel> prepare_weights(const Conv2dSpec& s, const ConvLayouts& wanted) {
  const Geometry g(s);
  const auto hint = describe_hint(s);
  if (!hint) return std::nullopt;
  const auto desc = describe_gradient<dnnl::convolution_backward_weights>(user_scratch_attr(), hint, g.algorithm,
                                                                          wanted.x, wanted.weights, g.bias, wanted.y,
                                                                          g.stride, g.dilation, g.before, g.after);
  if (!is_fast(desc)) return std::nullopt;
  const ConvLayouts used{desc.src_desc(), desc.diff_weights_desc(), desc.diff_dst_desc()};
  return ConvKernel{Kernel::make<dnnl::convolution_backward_weights>(desc,
                                                                     {{DNNL_ARG_SRC, used.x},
                                                                      {DNNL_ARG_DIFF_WEIGHTS, used.weights},
                                                                      {DNNL_ARG_DIFF_BIAS, g.bias},
                                                                      {DNNL_ARG_DIFF_DST, used.y}},
                                                                     s.single_thread),
                    used};
}

}  // namespace

ConvLayouts plain_layouts(Conv2dPass pass, const Conv2dSpec& s) {
  const Type x = pass == Conv2dPass::backward_data ? s.output : s.input;
  const Type y = pass == Conv2dPass::forward ? s.output : s.input;
  return {image_desc(s.batch, s.in_channels, s.in_height, s.in_width, x), plain_weights(s, weights_type(pass, s)),
          image_desc(s.batch, s.out_channels, s.out_height(), s.out_width(), y)};
}

ConvLayouts open_layouts(Conv2dPass pass, const Conv2dSpec& s) {
  ConvLayouts layouts = plain_layouts(pass, s);
  layouts.weights = without_layout(layouts.weights);
  return layouts;
}

std::optional<ConvKernel> prepare_pass(Conv2dPass pass, const Conv2dSpec& s, const ConvLayouts& wanted) {
  switch (pass) {
    case Conv2dPass::forward:
      return prepare_forward(s, wanted);
    case Conv2dPass::backward_data:
      return prepare_data(s, wanted);
    case Conv2dPass::backward_weights:
      return prepare_weights(s, wanted);
  }
  return std::nullopt;
}

}  // namespace varve::cpu::dnn

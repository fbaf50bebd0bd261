#include <algorithm>

#include "tests/engine/backends/cpu/op_cases.h"

namespace gpupool::engine {
namespace {

struct Convolution {
  Conv2dAttributes attributes;
  Shape x, w, y;
};

int64_t OutputSize(int64_t size, int64_t kernel, int64_t stride,
                   int64_t padding, int64_t dilation) {
  return (size + 2 * padding - (kernel - 1) * dilation - 1) / stride + 1;
}

Convolution RandomConvolution(OpCase& at) {
  Convolution c;
  Conv2dAttributes& a = c.attributes;
  a.groups = at.Pick(0, 3) == 0 ? at.Pick(1, 4) : 1;
  a.stride = {at.Pick(1, 2), at.Pick(1, 2)};
  a.padding = {at.Pick(0, 2), at.Pick(0, 2)};
  a.dilation = {at.Pick(1, 2), at.Pick(1, 2)};
  const int64_t kh = at.Pick(1, 4), kw = at.Pick(1, 4);
  const int64_t h = (kh - 1) * a.dilation.h + at.Pick(1, 9);
  const int64_t w = (kw - 1) * a.dilation.w + at.Pick(1, 9);
  const int64_t n = at.Pick(1, 5);
  const int64_t in = a.groups * at.Pick(1, 20);
  const int64_t out = a.groups * at.Pick(1, 20);
  c.x = {n, in, h, w};
  c.w = {out, in / a.groups, kh, kw};
  c.y = {n, out, OutputSize(h, kh, a.stride.h, a.padding.h, a.dilation.h),
         OutputSize(w, kw, a.stride.w, a.padding.w, a.dilation.w)};
  return c;
}

ValueId WeightsOrInput(OpCase& at, const Shape& shape) {
  return at.Coin() ? at.Weights(shape) : at.Floats(shape, -1, 1);
}

void BuildConv2d(OpCase& at) {
  Convolution c = RandomConvolution(at);
  Epilogue& epilogue = c.attributes.epilogue;
  epilogue = {at.Coin(), at.Coin(), static_cast<Activation>(at.Pick(0, 5))};
  std::vector<ValueId> inputs = {at.Floats(c.x), WeightsOrInput(at, c.w)};
  if (epilogue.bias) inputs.push_back(at.Weights({c.w[0]}));
  if (epilogue.residual) inputs.push_back(at.Floats(c.y));
  at.Emit(Op::kConv2d, inputs, c.attributes);
}

void BuildConv2dInputGrad(OpCase& at) {
  const Convolution c = RandomConvolution(at);
  at.Emit(Op::kConv2dInputGrad, {at.Floats(c.y), WeightsOrInput(at, c.w)},
          Conv2dGradAttributes{c.attributes, c.x, false});
}

void BuildConv2dWeightGrad(OpCase& at) {
  const Convolution c = RandomConvolution(at);
  at.Emit(Op::kConv2dWeightGrad, {at.Floats(c.y), at.Floats(c.x)},
          Conv2dGradAttributes{c.attributes, c.w, at.Coin()});
}

struct Pool {
  Pool2dAttributes attributes;
  Shape x, y;
};

Pool RandomPool(OpCase& at, int64_t largest_kernel) {
  Pool p;
  Pool2dAttributes& a = p.attributes;
  a.kernel = {at.Pick(1, largest_kernel), at.Pick(1, largest_kernel)};
  a.stride = {at.Pick(1, 3), at.Pick(1, 3)};
  a.padding = {at.Pick(0, std::min<int64_t>(2, a.kernel.h / 2)),
               at.Pick(0, std::min<int64_t>(2, a.kernel.w / 2))};
  const int64_t h = a.kernel.h + at.Pick(0, 8);
  const int64_t w = a.kernel.w + at.Pick(0, 8);
  p.x = {at.Pick(1, 5), at.Pick(1, 40), h, w};
  p.y = {p.x[0], p.x[1], OutputSize(h, a.kernel.h, a.stride.h, a.padding.h, 1),
         OutputSize(w, a.kernel.w, a.stride.w, a.padding.w, 1)};
  return p;
}

void BuildMaxPool(OpCase& at, int64_t largest_kernel) {
  Pool p = RandomPool(at, largest_kernel);
  p.attributes.with_argmax = at.Pick(0, 3) != 0;
  const ValueId x = at.Coin() ? at.Floats(p.x) : at.CoarseFloats(p.x);
  at.Emit(Op::kMaxPool, {x}, p.attributes);
}

// The argmax comes from a real max pool, so the graph has two nodes.
void BuildMaxPoolGrad(OpCase& at, int64_t largest_kernel) {
  Pool p = RandomPool(at, largest_kernel);
  p.attributes.with_argmax = true;
  const ValueId x = at.Coin() ? at.Floats(p.x) : at.CoarseFloats(p.x);
  const ValueId dy = at.Floats(p.y);
  GraphBuilder builder(&at.graph());
  const auto pooled = builder.Emit(Op::kMaxPool, {x}, p.attributes);
  at.Emit(Op::kMaxPoolGrad, {dy, (*pooled)[1]},
          Pool2dGradAttributes{p.attributes, p.x});
}

void BuildAvgPool(OpCase& at) {
  Pool p = RandomPool(at, 4);
  p.attributes.exclude_padding = at.Coin();
  at.Emit(Op::kAvgPool, {at.Floats(p.x)}, p.attributes);
}

void BuildAvgPoolGrad(OpCase& at) {
  Pool p = RandomPool(at, 4);
  p.attributes.exclude_padding = at.Coin();
  at.Emit(Op::kAvgPoolGrad, {at.Floats(p.y)},
          Pool2dGradAttributes{p.attributes, p.x});
}

Shape RandomImages(OpCase& at) {
  return {at.Pick(1, 9), at.Pick(1, 40), at.Pick(1, 9), at.Pick(1, 9)};
}

void BuildGlobalAvgPool(OpCase& at) {
  at.Emit(Op::kGlobalAvgPool, {at.Floats(RandomImages(at))});
}

void BuildGlobalAvgPoolGrad(OpCase& at) {
  const Shape x = RandomImages(at);
  at.Emit(Op::kGlobalAvgPoolGrad, {at.Floats({x[0], x[1]})},
          ShapeAttributes{x});
}

}  // namespace

std::vector<OpCaseMaker> ImageOpCases() {
  return {
      {"Conv2d", BuildConv2d, 1e-5},
      {"Conv2dInputGrad", BuildConv2dInputGrad, 1e-5},
      {"Conv2dWeightGrad", BuildConv2dWeightGrad, 1e-5},
      {"MaxPool", [](OpCase& at) { BuildMaxPool(at, 4); }, 0},
      {"MaxPoolGrad", [](OpCase& at) { BuildMaxPoolGrad(at, 4); }},
      {"MaxPoolWide", [](OpCase& at) { BuildMaxPool(at, 20); }, 0},
      {"MaxPoolWideGrad", [](OpCase& at) { BuildMaxPoolGrad(at, 20); }},
      {"AvgPool", BuildAvgPool},
      {"AvgPoolGrad", BuildAvgPoolGrad},
      {"GlobalAvgPool", BuildGlobalAvgPool},
      {"GlobalAvgPoolGrad", BuildGlobalAvgPoolGrad},
  };
}

}  // namespace gpupool::engine

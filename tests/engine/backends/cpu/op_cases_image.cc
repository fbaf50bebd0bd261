#include <algorithm>

#include "engine/graph/window.h"
#include "tests/engine/backends/cpu/op_cases.h"

namespace gpupool::engine {
namespace {

struct Convolution {
  Conv2dAttributes attributes;
  Shape x, w, y;
};

// Returns the output shape of a window: [n, channels, cells...].
Shape OutputOf(const Window& window, const Shape& x, int64_t channels) {
  if (x.rank() == 5) {
    return {x[0], channels, window[0].output(), window[1].output(),
            window[2].output()};
  }
  return {x[0], channels, window[1].output(), window[2].output()};
}

// Returns [n, channels, depth, height, width], or an image if the depth is 0.
Shape Spatial(int64_t n, int64_t channels, const Extent& size) {
  if (size.d == 0) return {n, channels, size.h, size.w};
  return {n, channels, size.d, size.h, size.w};
}

// Picks a volume in one of four cases.
bool PickVolume(OpCase& at) { return at.Pick(0, 3) == 0; }

Extent PickExtent(OpCase& at, bool volume, int64_t low, int64_t high) {
  return {at.Pick(low, high), at.Pick(low, high),
          volume ? at.Pick(low, high) : 0};
}

// Returns at most `high` cells of padding, and less than `reach` on each side.
Padding PickPadding(OpCase& at, int64_t high, const Extent& reach) {
  const auto pick = [&](int64_t limit) {
    return limit == 0 ? 0 : at.Pick(0, std::min(high, limit - 1));
  };
  const Extent begin{pick(reach.h), pick(reach.w), pick(reach.d)};
  if (at.Coin()) return Padding(begin);
  return {begin, {pick(reach.h), pick(reach.w), pick(reach.d)}};
}

Extent ReachOf(const Extent& kernel, const Extent& dilation) {
  return {(kernel.h - 1) * dilation.h + 1, (kernel.w - 1) * dilation.w + 1,
          kernel.d == 0 ? 0 : (kernel.d - 1) * dilation.d + 1};
}

// Returns `reach` plus at most `more` cells.
Extent PickSize(OpCase& at, const Extent& reach, int64_t more) {
  return {reach.h + at.Pick(0, more), reach.w + at.Pick(0, more),
          reach.d == 0 ? 0 : reach.d + at.Pick(0, more)};
}

Convolution RandomConvolution(OpCase& at) {
  Convolution c;
  Conv2dAttributes& a = c.attributes;
  const bool volume = PickVolume(at);
  a.groups = at.Pick(0, 3) == 0 ? at.Pick(1, 4) : 1;
  a.stride = PickExtent(at, volume, 1, 3);
  a.dilation = PickExtent(at, volume, 1, 2);
  const Extent kernel = PickExtent(at, volume, 1, volume ? 3 : 4);
  const Extent reach = ReachOf(kernel, a.dilation);
  a.padding = PickPadding(at, 2, {9, 9, volume ? 9 : 0});
  const int64_t n = at.Pick(1, volume ? 2 : 5);
  // One of four grouped cases is depthwise.
  const bool depthwise = a.groups > 1 && at.Pick(0, 3) == 0;
  if (depthwise) a.groups = at.Pick(1, 40);
  const int64_t in = a.groups * (depthwise ? 1 : at.Pick(1, 20));
  const int64_t out = a.groups * (depthwise ? 1 : at.Pick(1, 20));
  c.x = Spatial(n, in, PickSize(at, reach, volume ? 4 : 8));
  c.w = Spatial(out, in / a.groups, kernel);
  c.y = OutputOf(WindowOf(a, c.x, c.w), c.x, out);
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
  const bool volume = largest_kernel <= 4 && PickVolume(at);
  a.kernel = PickExtent(at, volume, 1, largest_kernel);
  a.stride = PickExtent(at, volume, 1, 3);
  a.dilation = at.Pick(0, 2) == 0 ? PickExtent(at, volume, 1, 2)
                                  : Extent{1, 1, volume ? 1 : 0};
  a.ceil_mode = at.Coin();
  const Extent reach = ReachOf(a.kernel, a.dilation);
  a.padding = PickPadding(at, 2, reach);
  const int64_t n = at.Pick(1, volume ? 2 : 5);
  p.x = Spatial(n, at.Pick(1, volume ? 9 : 40),
                PickSize(at, reach, volume ? 4 : 8));
  p.y = OutputOf(WindowOf(a, p.x), p.x, p.x[1]);
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

// The differences between oneDNN 2 (Debian 12) and 3 (Debian 13), which has no
// operation descriptors and hides the bytes of memory descriptors. No other
// file of gpupool asks for oneDNN's version.
//
// Everything that makes an object throws dnnl::error, as oneDNN does.
#pragma once

#include <dnnl.hpp>
#include <string>
#include <vector>

namespace gpupool::engine {

// Makes the descriptor of a forward primitive. `arguments` are the same in both
// versions: the kind and algorithm where there are such, the memory
// descriptors, and the geometry.
template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc Describe(const dnnl::engine& engine,
                                            const dnnl::primitive_attr& attr,
                                            const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, arguments..., attr};
#else
  return {typename Primitive::desc(arguments...), attr, engine};
#endif
}

// Makes the descriptor of a gradient. `hint` describes the forward primitive.
template <typename Primitive, typename Hint, typename... Arguments>
typename Primitive::primitive_desc DescribeGradient(
    const dnnl::engine& engine, const dnnl::primitive_attr& attr,
    const Hint& hint, const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, arguments..., hint, attr};
#else
  return {typename Primitive::desc(arguments...), attr, engine, hint};
#endif
}

// A pool whose windows are not dilated.
struct PoolShape {
  dnnl::algorithm algorithm;
  dnnl::memory::desc x, y;
  dnnl::memory::dims stride, kernel, begin, end;
};

dnnl::pooling_forward::primitive_desc DescribePool(
    const dnnl::engine& engine, const dnnl::primitive_attr& attr,
    dnnl::prop_kind kind, const PoolShape& pool);
dnnl::pooling_backward::primitive_desc DescribePoolGradient(
    const dnnl::engine& engine, const dnnl::primitive_attr& attr,
    const dnnl::pooling_forward::primitive_desc& hint, const PoolShape& pool);

// A batch norm whose result and gradients are laid out like x.
struct BatchNormShape {
  dnnl::memory::desc x;
  float epsilon;
  dnnl::normalization_flags flags;
};

dnnl::batch_normalization_forward::primitive_desc DescribeBatchNorm(
    const dnnl::engine& engine, const dnnl::primitive_attr& attr,
    dnnl::prop_kind kind, const BatchNormShape& norm);
// oneDNN 2 requires the shift in a gradient, which it does not read, and 3
// refuses it.
inline constexpr bool kGradientTakesShift = DNNL_VERSION_MAJOR < 3;
dnnl::batch_normalization_backward::primitive_desc DescribeBatchNormGradient(
    const dnnl::engine& engine, const dnnl::primitive_attr& attr,
    const dnnl::batch_normalization_forward::primitive_desc& hint,
    const BatchNormShape& norm);

// Appends an elementwise function of the result, which is not scaled.
void AppendFunction(dnnl::post_ops& post_ops, dnnl::algorithm function,
                    float alpha, float beta);

// Returns whether the processor adds products of 8-bit integers in one
// instruction (VNNI) and oneDNN uses it as gpupool needs. False for oneDNN 3,
// which scales a convolution before it adds the bias.
bool HasFastIntegerProducts();

// The numbers with which a convolution of 8-bit integers makes codes of its
// sums.
struct CodedSums {
  int x_zero = 0;
  std::vector<float> factors;  // one for each channel
  int y_zero = 0;
};

// Lets a convolution of 8-bit integers subtract x_zero from x, multiply the sum
// and its bias by the factor of the channel, apply the post-ops, and add
// y_zero. May be called only where HasFastIntegerProducts. oneDNN takes no
// factors that become known in a run.
void SetCodedSums(dnnl::primitive_attr& attr, const CodedSums& sums);

// Returns the same dimensions and type with the format left to oneDNN.
dnnl::memory::desc AnyFormat(const dnnl::memory::desc& desc);

// Returns a text of everything that determines where an element lies in a
// blocked format, or how weights look in a Winograd format. `desc` must not
// leave the format to oneDNN.
std::string FormatText(const dnnl::memory::desc& desc);

}  // namespace gpupool::engine

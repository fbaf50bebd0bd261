#include "engine/backends/cpu/kernel/dnnl_versions.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/check.h"

namespace gpupool::engine {

#if DNNL_VERSION_MAJOR >= 3

void AppendFunction(dnnl::post_ops& post_ops, dnnl::algorithm function,
                    float alpha, float beta) {
  // oneDNN 2 knows hard swish as x * clip(x / 6 + 1 / 2, 0, 1) alone.
  if (function == dnnl::algorithm::eltwise_hardswish) {
    alpha = 1.0f / 6;
    beta = 0.5f;
  }
  post_ops.append_eltwise(function, alpha, beta);
}

dnnl::pooling_forward::primitive_desc DescribePool(
    const dnnl::engine& engine, const dnnl::primitive_attr& attr,
    dnnl::prop_kind kind, const PoolShape& pool) {
  const dnnl::memory::dims dilation(pool.kernel.size(), 0);
  return {engine,      kind,     pool.algorithm, pool.x,   pool.y, pool.stride,
          pool.kernel, dilation, pool.begin,     pool.end, attr};
}

dnnl::pooling_backward::primitive_desc DescribePoolGradient(
    const dnnl::engine& engine, const dnnl::primitive_attr& attr,
    const dnnl::pooling_forward::primitive_desc& hint, const PoolShape& pool) {
  const dnnl::memory::dims dilation(pool.kernel.size(), 0);
  return {engine,   pool.algorithm, pool.x,   pool.y, pool.stride, pool.kernel,
          dilation, pool.begin,     pool.end, hint,   attr};
}

dnnl::batch_normalization_forward::primitive_desc DescribeBatchNorm(
    const dnnl::engine& engine, const dnnl::primitive_attr& attr,
    dnnl::prop_kind kind, const BatchNormShape& norm) {
  return {engine, kind, norm.x, norm.x, norm.epsilon, norm.flags, attr};
}

dnnl::batch_normalization_backward::primitive_desc DescribeBatchNormGradient(
    const dnnl::engine& engine, const dnnl::primitive_attr& attr,
    const dnnl::batch_normalization_forward::primitive_desc& hint,
    const BatchNormShape& norm) {
  return {engine,     dnnl::prop_kind::backward,
          norm.x,     norm.x,
          norm.x,     norm.epsilon,
          norm.flags, hint,
          attr};
}

bool HasFastIntegerProducts() { return false; }

void SetCodedSums(dnnl::primitive_attr& /*attr*/, const CodedSums& /*sums*/) {
  GPUPOOL_CHECK(false && "no convolutions of integers with oneDNN 3");
}

dnnl::memory::desc AnyFormat(const dnnl::memory::desc& desc) {
  return {desc.get_dims(), desc.get_data_type(), dnnl::memory::format_tag::any};
}

std::string FormatText(const dnnl::memory::desc& desc) {
  if (desc.get_format_kind() != dnnl::memory::format_kind::blocked) {
    GPUPOOL_CHECK(desc.get_format_kind() == dnnl::memory::format_kind::opaque);
    // get_blob is not const.
    const auto bytes = dnnl::memory::desc(desc).get_blob();
    return absl::StrCat("opaque/", std::string(bytes.begin(), bytes.end()));
  }
  return absl::StrCat(static_cast<int>(desc.get_data_type()), "/",
                      desc.get_submemory_offset(), "/", desc.get_size(), "/",
                      absl::StrJoin(desc.get_dims(), ","), "/",
                      absl::StrJoin(desc.get_padded_dims(), ","), "/",
                      absl::StrJoin(desc.get_padded_offsets(), ","), "/",
                      absl::StrJoin(desc.get_strides(), ","), "/",
                      absl::StrJoin(desc.get_inner_blks(), ","), "/",
                      absl::StrJoin(desc.get_inner_idxs(), ","));
}

#else

void AppendFunction(dnnl::post_ops& post_ops, dnnl::algorithm function,
                    float alpha, float beta) {
  post_ops.append_eltwise(1.0f, function, alpha, beta);
}

dnnl::pooling_forward::primitive_desc DescribePool(
    const dnnl::engine& engine, const dnnl::primitive_attr& attr,
    dnnl::prop_kind kind, const PoolShape& pool) {
  return {{kind, pool.algorithm, pool.x, pool.y, pool.stride, pool.kernel,
           pool.begin, pool.end},
          attr,
          engine};
}

dnnl::pooling_backward::primitive_desc DescribePoolGradient(
    const dnnl::engine& engine, const dnnl::primitive_attr& attr,
    const dnnl::pooling_forward::primitive_desc& hint, const PoolShape& pool) {
  return {{pool.algorithm, pool.x, pool.y, pool.stride, pool.kernel, pool.begin,
           pool.end},
          attr,
          engine,
          hint};
}

dnnl::batch_normalization_forward::primitive_desc DescribeBatchNorm(
    const dnnl::engine& engine, const dnnl::primitive_attr& attr,
    dnnl::prop_kind kind, const BatchNormShape& norm) {
  return {{kind, norm.x, norm.epsilon, norm.flags}, attr, engine};
}

dnnl::batch_normalization_backward::primitive_desc DescribeBatchNormGradient(
    const dnnl::engine& engine, const dnnl::primitive_attr& attr,
    const dnnl::batch_normalization_forward::primitive_desc& hint,
    const BatchNormShape& norm) {
  return {{dnnl::prop_kind::backward, norm.x, norm.x, norm.epsilon, norm.flags},
          attr,
          engine,
          hint};
}

bool HasFastIntegerProducts() {
  // The sets of instructions are not ordered, but each one's bits include those
  // of the sets that it extends.
  const auto has = [](dnnl::cpu_isa wanted) {
    const auto bits = static_cast<unsigned>(wanted);
    const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    return (isa & bits) == bits;
  };
  return has(dnnl::cpu_isa::avx512_core_vnni) || has(dnnl::cpu_isa::avx2_vnni);
}

void SetCodedSums(dnnl::primitive_attr& attr, const CodedSums& sums) {
  constexpr int kPerChannel = 1 << 1;
  attr.set_output_scales(kPerChannel, sums.factors);
  // Zero points of 0 keep faster kernels available.
  if (sums.x_zero != 0) {
    attr.set_zero_points(DNNL_ARG_SRC, 0, {sums.x_zero});
  }
  if (sums.y_zero != 0) {
    attr.set_zero_points(DNNL_ARG_DST, 0, {sums.y_zero});
  }
}

dnnl::memory::desc AnyFormat(const dnnl::memory::desc& desc) {
  return {desc.dims(), desc.data_type(), dnnl::memory::format_tag::any};
}

std::string FormatText(const dnnl::memory::desc& desc) {
  const dnnl_memory_desc_t& d = desc.data;
  if (d.format_kind == dnnl_format_kind_wino) {
    const dnnl_wino_desc_t& w = d.format_desc.wino_desc;
    return absl::StrCat("wino/", static_cast<int>(w.wino_format), "/", w.r, "/",
                        w.alpha, "/", w.ic, "/", w.oc, "/", w.ic_block, "/",
                        w.oc_block, "/", w.ic2_block, "/", w.oc2_block, "/",
                        w.adj_scale, "/", w.size);
  }
  GPUPOOL_CHECK(d.format_kind == dnnl_blocked);
  const dnnl_blocking_desc_t& blocking = d.format_desc.blocking;
  const auto join = [](const dnnl_dim_t* numbers, int count) {
    return absl::StrJoin(numbers, numbers + count, ",");
  };
  return absl::StrCat(
      static_cast<int>(d.data_type), "/", d.offset0, "/", d.extra.flags, "/",
      d.extra.compensation_mask, "/", d.extra.asymm_compensation_mask, "/",
      d.extra.scale_adjust, "/", join(d.dims, d.ndims), "/",
      join(d.padded_dims, d.ndims), "/", join(d.padded_offsets, d.ndims), "/",
      join(blocking.strides, d.ndims), "/",
      join(blocking.inner_blks, blocking.inner_nblks), "/",
      join(blocking.inner_idxs, blocking.inner_nblks));
}

#endif

}  // namespace gpupool::engine

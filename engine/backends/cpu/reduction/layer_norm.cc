// Layer norm over the last dimension and its gradient. oneDNN 2.6 has only a
// reference kernel for it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/reduction/layer_norm.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include <cmath>
#include <cstring>

#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/cpu/kernel/simd-inl.h"
#include "engine/backends/function_kernel.h"

#ifndef GPUPOOL_ENGINE_BACKENDS_CPU_LAYER_NORM_CC_
#define GPUPOOL_ENGINE_BACKENDS_CPU_LAYER_NORM_CC_
namespace gpupool::engine {

// The normalised row is (x - mean) * inverse.
struct LayerNormScale {
  float mean, inverse;
};

struct LayerNormRows {
  const float* x;
  const float* gamma;
  const float* beta;
  float* y;
};

struct LayerNormGradRows {
  const float* dy;
  const float* x;
  const float* gamma;
  float* dx;
  float* dgamma;
  float* dbeta;
};

}  // namespace gpupool::engine
#endif  // GPUPOOL_ENGINE_BACKENDS_CPU_LAYER_NORM_CC_

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

HWY_INLINE float LanesSum(FloatVector v) {
  return hn::GetLane(hn::SumOfLanes(FloatTag(), v));
}

// Computes the mean first and the variance in a second pass, so that no large
// numbers cancel.
void LayerNormMoments(const float* x, int64_t count, float* mean,
                      float* variance) {
  const float n = static_cast<float>(count);
  *mean = LanesSum(ReduceLanes(x, count, 0.0f,
                               [](FloatVector a, FloatVector b)
                                   HWY_ATTR { return hn::Add(a, b); })) /
          n;
  const FloatTag d;
  const FloatVector centre = hn::Set(d, *mean);
  FloatVector lanes = hn::Zero(d);
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    const FloatVector v = hn::Sub(hn::LoadU(d, x + i), centre);
    lanes = hn::MulAdd(v, v, lanes);
  }
  float sum = LanesSum(lanes);
  for (; i < count; ++i) sum += (x[i] - *mean) * (x[i] - *mean);
  *variance = sum / n;
}

void LayerNormRow(LayerNormRows row, LayerNormScale scale, int64_t count) {
  const auto [x, gamma, beta, y] = row;
  const auto [mean, deviation_inverse] = scale;
  const FloatTag d;
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    const FloatVector normal =
        hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)),
                hn::Set(d, deviation_inverse));
    hn::StoreU(
        hn::MulAdd(normal, hn::LoadU(d, gamma + i), hn::LoadU(d, beta + i)), d,
        y + i);
  }
  for (; i < count; ++i) {
    y[i] = (x[i] - mean) * deviation_inverse * gamma[i] + beta[i];
  }
}

// With xh the normalised x and g = dy * gamma, computes
//   dx = (g - mean(g) - xh * mean(g * xh)) / deviation
// and adds dy * xh to dgamma and dy to dbeta.
void LayerNormGradRow(LayerNormGradRows row, LayerNormScale normal,
                      int64_t count) {
  const auto [dy, x, gamma, dx, dgamma, dbeta] = row;
  const auto [mean, inverse] = normal;
  const FloatTag d;
  const FloatVector centre = hn::Set(d, mean);
  const FloatVector scale = hn::Set(d, inverse);
  FloatVector sum_lanes = hn::Zero(d), product_lanes = hn::Zero(d);
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    const FloatVector xh = hn::Mul(hn::Sub(hn::LoadU(d, x + i), centre), scale);
    const FloatVector v = hn::LoadU(d, dy + i);
    const FloatVector g = hn::Mul(v, hn::LoadU(d, gamma + i));
    sum_lanes = hn::Add(sum_lanes, g);
    product_lanes = hn::MulAdd(g, xh, product_lanes);
    hn::StoreU(hn::MulAdd(v, xh, hn::LoadU(d, dgamma + i)), d, dgamma + i);
    hn::StoreU(hn::Add(v, hn::LoadU(d, dbeta + i)), d, dbeta + i);
  }
  float sum = LanesSum(sum_lanes), product = LanesSum(product_lanes);
  for (; i < count; ++i) {
    const float xh = (x[i] - mean) * inverse;
    sum += dy[i] * gamma[i];
    product += dy[i] * gamma[i] * xh;
    dgamma[i] += dy[i] * xh;
    dbeta[i] += dy[i];
  }
  sum /= static_cast<float>(count);
  product /= static_cast<float>(count);
  // dx needs both means of the row, hence a second pass.
  for (i = 0; i + FloatLanes() <= count; i += FloatLanes()) {
    const FloatVector xh = hn::Mul(hn::Sub(hn::LoadU(d, x + i), centre), scale);
    const FloatVector g =
        hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, gamma + i));
    const FloatVector rest =
        hn::NegMulAdd(xh, hn::Set(d, product), hn::Sub(g, hn::Set(d, sum)));
    hn::StoreU(hn::Mul(rest, scale), d, dx + i);
  }
  for (; i < count; ++i) {
    const float xh = (x[i] - mean) * inverse;
    dx[i] = (dy[i] * gamma[i] - sum - xh * product) * inverse;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {

HWY_EXPORT(LayerNormMoments);
HWY_EXPORT(LayerNormRow);
HWY_EXPORT(LayerNormGradRow);

// Rows that are summed into one part of dgamma and dbeta. The number is fixed,
// so that the result does not depend on the number of threads.
constexpr int64_t kRowsPerPart = 64;

struct Rows {
  int64_t rows, columns;
  double epsilon;
  int threads;
};

float InverseDeviation(float variance, double epsilon) {
  return static_cast<float>(1.0 / std::sqrt(variance + epsilon));
}

KernelOr MakeLayerNorm(const Rows& r, bool with_statistics) {
  const auto moments = HWY_DYNAMIC_DISPATCH(LayerNormMoments);
  const auto normalise = HWY_DYNAMIC_DISPATCH(LayerNormRow);
  return MakeKernel([=](const KernelArguments& at) {
    ParallelFor(r.threads, r.rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float mean, variance;
        moments(at.in(0) + i * r.columns, r.columns, &mean, &variance);
        normalise({.x = at.in(0) + i * r.columns,
                   .gamma = at.in(1),
                   .beta = at.in(2),
                   .y = at.out(0) + i * r.columns},
                  {mean, InverseDeviation(variance, r.epsilon)}, r.columns);
        if (!with_statistics) continue;
        at.out(1)[i] = mean;
        at.out(2)[i] = variance;
      }
    });
  });
}

KernelOr MakeLayerNormGradient(const Rows& r) {
  const auto gradient = HWY_DYNAMIC_DISPATCH(LayerNormGradRow);
  const int64_t parts = (r.rows + kRowsPerPart - 1) / kRowsPerPart;
  const auto run = [=](const KernelArguments& at) {
    float* partial = at.workspace();
    const size_t bytes = static_cast<size_t>(2 * r.columns) * sizeof(float);
    ParallelFor(r.threads, parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        float* dgamma = partial + part * 2 * r.columns;
        std::memset(dgamma, 0, bytes);
        const int64_t last = std::min(r.rows, (part + 1) * kRowsPerPart);
        for (int64_t i = part * kRowsPerPart; i < last; ++i) {
          const int64_t row = i * r.columns;
          gradient({.dy = at.in(0) + row,
                    .x = at.in(1) + row,
                    .gamma = at.in(2),
                    .dx = at.out(0) + row,
                    .dgamma = dgamma,
                    .dbeta = dgamma + r.columns},
                   {at.in(3)[i], InverseDeviation(at.in(4)[i], r.epsilon)},
                   r.columns);
        }
      }
    });
    // One thread joins the parts in their order.
    for (int64_t c = 0; c < r.columns; ++c) {
      float dgamma = 0, dbeta = 0;
      for (int64_t part = 0; part < parts; ++part) {
        dgamma += partial[part * 2 * r.columns + c];
        dbeta += partial[(part * 2 + 1) * r.columns + c];
      }
      at.out(1)[c] = dgamma;
      at.out(2)[c] = dbeta;
    }
  };
  return MakeKernel(run, static_cast<uint64_t>(parts * 2 * r.columns) * 4);
}

}  // namespace

KernelOr MakeLayerNorm(const CompileRequest& request,
                       const CpuContext& context) {
  const Value& x = InputOf(request, 0);
  const auto& attributes = request.node.get<NormAttributes>();
  const int64_t columns = x.shape[x.shape.rank() - 1];
  const Rows rows{x.shape.elements() / columns, columns, attributes.epsilon,
                  context.ThreadsForBytes(MovedBytes(request))};
  return request.node.op == Op::kLayerNorm
             ? MakeLayerNorm(rows, attributes.with_statistics)
             : MakeLayerNormGradient(rows);
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE

// The arithmetic of a reduction and the elements that it covers. (Host and
// device; plain C++.)
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/numbers.h"
#include "engine/backends/portable/arithmetic/parts.h"
#include "engine/backends/portable/arithmetic/walk.h"
#include "engine/graph/functions.h"

namespace gpupool::engine::portable {

// The arithmetic of a reduction over elements of a type. kMean adds like kSum,
// and Finish divides.
struct Reducer {
  ReduceFunction function = ReduceFunction::kSum;
  DType type = DType::kFloat32;

  // Returns the factor that turns least into greatest.
  GPUPOOL_HOST_DEVICE double sign() const {
    return function == ReduceFunction::kMin ? -1 : 1;
  }

  // Returns the result of a reduction of no elements.
  GPUPOOL_HOST_DEVICE Number Neutral() const {
    switch (function) {
      case ReduceFunction::kProduct:
        return IsFloatingType(type) ? Real(1) : Whole(1);
      case ReduceFunction::kMax:
        return IsFloatingType(type) ? Real(-HUGE_VAL) : Whole(Least());
      case ReduceFunction::kMin:
        return IsFloatingType(type) ? Real(HUGE_VAL) : Whole(Greatest());
      default:
        return {};
    }
  }

  GPUPOOL_HOST_DEVICE Number Add(Number total, Number x) const {
    if (!IsFloatingType(type)) return Whole(AddWhole(total.whole, x.whole));
    switch (function) {
      case ReduceFunction::kProduct:
        return Real(total.real * x.real);
      case ReduceFunction::kMax:
        return x.real > total.real || x.real != x.real ? x : total;
      case ReduceFunction::kMin:
        return x.real < total.real || x.real != x.real ? x : total;
      default:
        return Real(total.real + x.real);
    }
  }

  // Returns the result, given the total of `count` elements.
  GPUPOOL_HOST_DEVICE Number Finish(Number total, int64_t count) const {
    if (function != ReduceFunction::kMean) return total;
    if (IsFloatingType(type)) {
      return Real(total.real / static_cast<double>(count));
    }
    return Whole(count == 0 ? 0 : total.whole / count);
  }

 private:
  GPUPOOL_HOST_DEVICE int64_t AddWhole(int64_t total, int64_t x) const {
    const auto a = static_cast<uint64_t>(total);
    const auto b = static_cast<uint64_t>(x);
    switch (function) {
      case ReduceFunction::kProduct:
        return static_cast<int64_t>(a * b);
      case ReduceFunction::kMax:
        return x > total ? x : total;
      case ReduceFunction::kMin:
        return x < total ? x : total;
      default:
        return static_cast<int64_t>(a + b);
    }
  }
  GPUPOOL_HOST_DEVICE int64_t Least() const {
    switch (type) {
      case DType::kInt8:
        return INT8_MIN;
      case DType::kInt32:
        return INT32_MIN;
      case DType::kInt64:
        return INT64_MIN;
      default:
        return 0;
    }
  }
  GPUPOOL_HOST_DEVICE int64_t Greatest() const {
    switch (type) {
      case DType::kInt8:
        return INT8_MAX;
      case DType::kInt32:
        return INT32_MAX;
      case DType::kInt64:
        return INT64_MAX;
      case DType::kBool:
        return 1;
      default:
        return UINT8_MAX;
    }
  }
};

// The elements that a reduction covers. Result r of `results` takes the
// source's elements kept(r) + reduced(k) for each 0 <= k < parts.count.
struct ReduceShape {
  int64_t results = 1;
  Parts parts;
  Walk<1> kept;
  Walk<1> reduced;
};

}  // namespace gpupool::engine::portable

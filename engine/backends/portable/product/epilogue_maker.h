// Makes epilogues from attributes and addresses. Host only.
#pragma once

#include "engine/backends/portable/launch/maker.h"
#include "engine/backends/portable/product/epilogue.h"

namespace gpupool::engine::portable {

// Returns the epilogue. The bias and the residual must follow the two operands.
template <typename T>
EpilogueOf<T> BoundEpilogue(const Epilogue& epilogue,
                            const KernelArguments& at) {
  EpilogueOf<T> bound;
  if (epilogue.bias) bound.bias = at.in<T>(2);
  if (epilogue.residual) bound.residual = at.in<T>(epilogue.bias ? 3 : 2);
  bound.activation = epilogue.activation;
  bound.unary = epilogue.unary.function;
  bound.alpha = epilogue.unary.alpha;
  bound.beta = epilogue.unary.beta;
  return bound;
}

}  // namespace gpupool::engine::portable

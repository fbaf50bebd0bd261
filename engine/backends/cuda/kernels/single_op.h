// A portable kernel for one op that is no node of the program: what a library
// leaves of a node's epilogue, for instance.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::cuda {

struct SingleOp {
  Op op = Op::kAdd;
  Attributes attributes;
  // Types, shapes and layouts of inputs and outputs; nothing else of a value
  // is looked at.
  std::vector<Value> inputs, outputs;
};

// Errors as MakePortableKernel.
absl::StatusOr<std::unique_ptr<Kernel>> MakeSingleOp(
    const SingleOp& single, const portable::PortableContext& context);

// What is to be done to a product that lies in `y` already:
// activation(y + bias + residual), in place. Inputs of the kernel are y, the
// bias and the residual, as far as `epilogue` has them; its output is y. The
// bias has one number for each of y's channels or, of a matrix, columns. Null
// when there is nothing to do.
absl::StatusOr<std::unique_ptr<Kernel>> MakeEpilogue(
    const Epilogue& epilogue, const Value& y,
    const portable::PortableContext& context);

}  // namespace gpupool::engine::cuda

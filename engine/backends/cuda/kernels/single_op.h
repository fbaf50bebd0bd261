// Makes a portable kernel for one op that is no node of the program, such as
// the part of an epilogue that a library does not compute.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::cuda {

struct SingleOp {
  Op op = Op::kAdd;
  Attributes attributes;
  // Types, shapes and layouts of inputs and outputs. The other members of a
  // value are ignored.
  std::vector<Value> inputs, outputs;
};

// Makes the kernel. Fails as MakePortableKernel does.
absl::StatusOr<std::unique_ptr<Kernel>> MakeSingleOp(
    const SingleOp& single, const portable::PortableContext& context);

// Makes a kernel that computes y = activation(y + bias + residual) in place.
// Its inputs are y and, if `epilogue` has them, the bias and the residual. The
// bias has one number per channel of y or, for a matrix, per column. Null when
// there is nothing to compute.
absl::StatusOr<std::unique_ptr<Kernel>> MakeEpilogue(
    const Epilogue& epilogue, const Value& y,
    const portable::PortableContext& context);

}  // namespace gpupool::engine::cuda

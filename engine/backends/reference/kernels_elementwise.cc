// Elementwise ops with broadcasting, reductions and casts.
#include "engine/backends/reference/kernels.h"

namespace gpupool::engine::reference {

void UnaryOp(const Operands&) {}
void UnaryGrad(const Operands&) {}
void BinaryOp(const Operands&) {}
void Where(const Operands&) {}
void Cast(const Operands&) {}
void Fused(const Operands&) {}
void Reduce(const Operands&) {}
void ArgReduce(const Operands&) {}
void CumSum(const Operands&) {}
void Broadcast(const Operands&) {}

}  // namespace gpupool::engine::reference

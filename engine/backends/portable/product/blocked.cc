#include "engine/backends/portable/launch/maker.h"
#include "engine/backends/portable/product/blocked_functors.h"
#include "engine/backends/portable/product/product_makers.h"

namespace gpupool::engine::portable {

KernelOr MakeBlockedMatMul(const CompileRequest& request,
                           const PortableContext& context) {
  const auto& matmul = request.node.get<BlockedMatMulAttributes>();
  const Shape& a = InputOf(request, 0).shape;
  const Shape& codes = InputOf(request, 1).shape;
  BlockedMatMulFunctor functor;
  functor.bits = matmul.bits;
  functor.middle = static_cast<float>(1 << (matmul.bits - 1));
  functor.rows = a[0];
  functor.inner = a[1];
  functor.columns = codes[0];
  functor.blocks = codes[1];
  functor.block_bytes = codes[2];
  bool packed = false;
  if (matmul.with_zeros) {
    const Value& zeros = InputOf(request, 3);
    packed = zeros.dtype == DType::kUint8;
    functor.zero_bytes = zeros.shape[1];
  }
  return MakeKernel([functor, packed, zeros = matmul.with_zeros,
                     stream = context.stream](const KernelArguments& at) {
    BlockedMatMulFunctor bound = functor;
    bound.a = at.in(0);
    bound.codes = at.in<uint8_t>(1);
    bound.scales = at.in(2);
    if (zeros && packed) bound.packed_zeros = at.in<uint8_t>(3);
    if (zeros && !packed) bound.real_zeros = at.in(3);
    bound.y = at.out(0);
    LaunchRows(stream, bound.columns * bound.tiles(), bound);
  });
}

}  // namespace gpupool::engine::portable

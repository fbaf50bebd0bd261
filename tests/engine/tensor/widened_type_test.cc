#include "engine/tensor/widened_type.h"

#include <gtest/gtest.h>

#include <limits>
#include <type_traits>

#include "engine/tensor/dtype.h"

namespace gpupool::engine {
namespace {

TEST(WidenedTypeTest, TheHeldTypeHasTheSizeAndTheNumbers) {
#define GPUPOOL_WIDENED_TYPE(type, message, number, dtype, held)          \
  EXPECT_EQ(SizeOf(HeldAs(WidenedType::type)), sizeof(held)) << #message; \
  EXPECT_FALSE(IsFloating(HeldAs(WidenedType::type))) << #message;        \
  EXPECT_LE(std::numeric_limits<held>::min(),                             \
            static_cast<held>(std::numeric_limits<number>::min()))        \
      << #message;                                                        \
  EXPECT_TRUE(sizeof(number) < sizeof(held) ||                            \
              WidenedType::type == WidenedType::kUint64)                  \
      << #message;
#include "engine/base/widened_types.inc"
}

TEST(WidenedTypeTest, SixteenBitsAreHeldInThirtyTwo) {
  EXPECT_EQ(HeldAs(WidenedType::kUint16), DType::kInt32);
  EXPECT_EQ(HeldAs(WidenedType::kInt16), DType::kInt32);
  EXPECT_EQ(HeldAs(WidenedType::kUint32), DType::kInt64);
  EXPECT_EQ(HeldAs(WidenedType::kUint64), DType::kInt64);
}

}  // namespace
}  // namespace gpupool::engine

#include "server/serving/tensor/held_elements.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/serving/tensor/data_type.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;

template <typename T>
std::vector<std::byte> BytesOfNumbers(const std::vector<T>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(T));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

// Returns the numbers in the type of slots. Reads and writes at odd addresses.
template <typename Held, typename Sent>
std::vector<Held> ToHeld(v1::DataType type, const std::vector<Sent>& sent) {
  EXPECT_EQ(sizeof(Sent), ElementBytes(type));
  EXPECT_EQ(sizeof(Held), ElementBytes(HeldType(type)));
  std::vector<std::byte> from = BytesOfNumbers(sent);
  from.insert(from.begin(), std::byte{0});
  std::vector<std::byte> to(sent.size() * sizeof(Held) + 1);
  CopyToHeld(type, absl::MakeConstSpan(from).subspan(1), to.data() + 1);
  std::vector<Held> held(sent.size());
  std::memcpy(held.data(), to.data() + 1, to.size() - 1);
  return held;
}

template <typename Sent, typename Held>
std::vector<Sent> FromHeld(v1::DataType type, const std::vector<Held>& held) {
  std::vector<std::byte> from = BytesOfNumbers(held);
  from.insert(from.begin(), std::byte{0});
  std::vector<std::byte> to(held.size() * sizeof(Sent) + 1);
  CopyFromHeld(type, absl::MakeConstSpan(from).subspan(1), to.data() + 1);
  std::vector<Sent> sent(held.size());
  std::memcpy(sent.data(), to.data() + 1, to.size() - 1);
  return sent;
}

TEST(HeldElementsTest, EveryNumberOfATypeIsKept) {
  const std::vector<uint16_t> unsigned16 = {0, 1, 32767, 32768, 65535};
  EXPECT_THAT(ToHeld<int32_t>(v1::UINT16, unsigned16),
              ElementsAre(0, 1, 32767, 32768, 65535));
  const std::vector<int16_t> signed16 = {0, -1, 32767, -32768};
  EXPECT_THAT(ToHeld<int32_t>(v1::INT16, signed16),
              ElementsAre(0, -1, 32767, -32768));
  const std::vector<uint32_t> unsigned32 = {0, 2147483647, 2147483648u,
                                            4294967295u};
  EXPECT_THAT(ToHeld<int64_t>(v1::UINT32, unsigned32),
              ElementsAre(0, 2147483647, 2147483648, 4294967295));
  const std::vector<uint64_t> unsigned64 = {0, uint64_t{1} << 53,
                                            (uint64_t{1} << 63) - 1};
  EXPECT_THAT(ToHeld<int64_t>(v1::UINT64, unsigned64),
              ElementsAre(0, int64_t{1} << 53, INT64_MAX));
  EXPECT_EQ(
      FromHeld<uint16_t>(v1::UINT16, ToHeld<int32_t>(v1::UINT16, unsigned16)),
      unsigned16);
  EXPECT_EQ(FromHeld<int16_t>(v1::INT16, ToHeld<int32_t>(v1::INT16, signed16)),
            signed16);
  EXPECT_EQ(
      FromHeld<uint32_t>(v1::UINT32, ToHeld<int64_t>(v1::UINT32, unsigned32)),
      unsigned32);
  EXPECT_EQ(
      FromHeld<uint64_t>(v1::UINT64, ToHeld<int64_t>(v1::UINT64, unsigned64)),
      unsigned64);
}

TEST(HeldElementsTest, ResultsOutOfRangeAreTakenModuloTheBits) {
  EXPECT_THAT(
      FromHeld<uint16_t>(v1::UINT16, std::vector<int32_t>{65536, -1, 70000}),
      ElementsAre(0, 65535, 4464));
  EXPECT_THAT(
      FromHeld<int16_t>(v1::INT16, std::vector<int32_t>{32768, -32769, 65536}),
      ElementsAre(-32768, 32767, 0));
  EXPECT_THAT(FromHeld<uint32_t>(v1::UINT32,
                                 std::vector<int64_t>{int64_t{1} << 32, -1}),
              ElementsAre(0u, 4294967295u));
  EXPECT_THAT(
      FromHeld<uint64_t>(v1::UINT64, std::vector<int64_t>{-1, INT64_MIN}),
      ElementsAre(UINT64_MAX, uint64_t{1} << 63));
}

TEST(HeldElementsTest, OtherTypesAreCopied) {
  EXPECT_THAT(ToHeld<float>(v1::FLOAT32, std::vector<float>{1.5f, -2}),
              ElementsAre(1.5f, -2));
  EXPECT_THAT(FromHeld<uint8_t>(v1::UINT8, std::vector<uint8_t>{0, 255}),
              ElementsAre(0, 255));
  CopyToHeld(v1::FLOAT32, {}, nullptr);
  CopyFromHeld(v1::UINT16, {}, nullptr);
}

TEST(HeldElementsTest, TheFirstNumberThatNoInt64IsIsFound) {
  const uint64_t large = uint64_t{1} << 63;
  const auto found = FindUnholdable(
      v1::UINT64, BytesOfNumbers<uint64_t>({0, large - 1, large, UINT64_MAX}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->index, 2u);
  EXPECT_EQ(found->number, large);
  EXPECT_FALSE(FindUnholdable(v1::UINT64, BytesOfNumbers<uint64_t>({large - 1}))
                   .has_value());
  EXPECT_FALSE(FindUnholdable(v1::UINT64, {}).has_value());
  EXPECT_FALSE(
      FindUnholdable(v1::INT64, BytesOfNumbers<int64_t>({-1})).has_value());
  EXPECT_FALSE(
      FindUnholdable(v1::UINT32, BytesOfNumbers<uint32_t>({UINT32_MAX}))
          .has_value());
}

}  // namespace
}  // namespace gpupool::server

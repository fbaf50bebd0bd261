#include "server/serving/tensor/slot_packing.h"

#include <cstring>

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

class SlotPackingTest : public ::testing::Test {
 protected:
  static TensorFormat Format(int64_t features) {
    TensorFormat format;
    format.name = "x";
    format.data_type = v1::FLOAT32;
    format.row_shape = {features};
    format.row_bytes = features * sizeof(float);
    return format;
  }
  std::vector<TensorFormat> inputs_ = {Format(3), Format(1)};
  std::vector<TensorFormat> outputs_ = {Format(5)};
  SlotFormats formats_ = {inputs_, outputs_};
};

TEST_F(SlotPackingTest, ThePackedHeaderPassesTheRingsCheckExactly) {
  for (uint32_t rows : {1u, 2u, 7u, 32u}) {
    SlotHeader header = {};
    PackHeader(formats_, 9, rows, &header);
    const uint64_t bytes = PackedBytes(formats_, rows);
    EXPECT_TRUE(CheckSlotHeader(header, bytes).ok())
        << CheckSlotHeader(header, bytes);
    EXPECT_EQ(header.version_id, 9u);
    EXPECT_EQ(header.rows, rows);
    EXPECT_EQ(header.inputs[1].dims[0], rows);
    EXPECT_EQ(header.outputs[0].bytes, rows * 20u);
  }
}

TEST_F(SlotPackingTest, RowsPerSlotIsTheMostThatFits) {
  for (uint64_t slot_bytes : {uint64_t{0}, uint64_t{191}, uint64_t{192},
                              uint64_t{1000}, uint64_t{4096}}) {
    const uint32_t rows = RowsPerSlot(formats_, slot_bytes, 1024);
    EXPECT_LE(PackedBytes(formats_, rows), slot_bytes);
    EXPECT_GT(PackedBytes(formats_, rows + 1), slot_bytes);
  }
  EXPECT_EQ(RowsPerSlot(formats_, 1 << 20, 8), 8u);
}

TEST_F(SlotPackingTest, CopiesRowsBehindEarlierOnes) {
  SlotHeader header = {};
  PackHeader(formats_, 1, 3, &header);
  std::vector<std::byte> payload(PackedBytes(formats_, 3));
  const float wide[6] = {1, 2, 3, 4, 5, 6};
  const float narrow[2] = {7, 8};
  CheckedInputs inputs;
  inputs.rows = 2;
  inputs.bytes = {
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(wide), 24),
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(narrow), 8)};
  CopyRows(formats_, inputs, 1,
           {.header = header, .payload = absl::MakeSpan(payload)});
  EXPECT_EQ(
      std::memcmp(payload.data() + header.inputs[0].offset + 12, wide, 24), 0);
  EXPECT_EQ(
      std::memcmp(payload.data() + header.inputs[1].offset + 4, narrow, 8), 0);
}

TEST_F(SlotPackingTest, RowsAreFilledUpToTheServedSizes) {
  inputs_[0].variable = {{.axis = 0, .dimension = 0}};
  inputs_[0].pad.assign(4, std::byte{0});
  const std::vector<int64_t> served = {3};
  const SlotFormats formats{inputs_, outputs_, served};
  SlotHeader header = {};
  PackHeader(formats, 1, 2, &header);
  EXPECT_EQ(header.inputs[0].dims[1], 3);
  std::vector<std::byte> payload(PackedBytes(formats, 2), std::byte{255});
  const float wide[4] = {1, 2, 3, 4};
  const float narrow[2] = {7, 8};
  CheckedInputs inputs;
  inputs.rows = 2;
  inputs.sizes = {2};
  inputs.served = served;
  inputs.bytes = {
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(wide), 16),
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(narrow), 8)};
  CopyRows(formats, inputs, 0,
           {.header = header, .payload = absl::MakeSpan(payload)});
  const float expected[6] = {1, 2, 0, 3, 4, 0};
  EXPECT_EQ(std::memcmp(payload.data(), expected, sizeof(expected)), 0);
}

TEST_F(SlotPackingTest, WidenedTypesAreHeldInWiderOnes) {
  inputs_[0].data_type = v1::UINT16;  // of rows of 3 times 4 bytes
  inputs_[1].data_type = v1::INT16;
  outputs_[0].data_type = v1::UINT16;
  SlotHeader header = {};
  PackHeader(formats_, 1, 2, &header);
  EXPECT_TRUE(CheckSlotHeader(header, PackedBytes(formats_, 2)).ok());
  EXPECT_EQ(header.inputs[0].data_type, static_cast<uint32_t>(v1::INT32));
  EXPECT_EQ(header.inputs[0].bytes, 24u);
  EXPECT_EQ(header.outputs[0].data_type, static_cast<uint32_t>(v1::INT32));
  std::vector<std::byte> payload(PackedBytes(formats_, 2));
  const uint16_t wide[3] = {0, 32768, 65535};
  const int16_t narrow[1] = {-32768};
  CheckedInputs inputs;
  inputs.rows = 1;
  inputs.bytes = {
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(wide), 6),
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(narrow), 2)};
  CopyRows(formats_, inputs, 1,
           {.header = header, .payload = absl::MakeSpan(payload)});
  const int32_t held_wide[6] = {0, 0, 0, 0, 32768, 65535};
  const int32_t held_narrow[2] = {0, -32768};
  EXPECT_EQ(std::memcmp(payload.data() + header.inputs[0].offset, held_wide,
                        sizeof(held_wide)),
            0);
  EXPECT_EQ(std::memcmp(payload.data() + header.inputs[1].offset, held_narrow,
                        sizeof(held_narrow)),
            0);
}

TEST_F(SlotPackingTest, WidenedTypesAreFilledUp) {
  inputs_ = {Format(3)};
  inputs_[0].data_type = v1::UINT16;
  inputs_[0].variable = {{.axis = 0, .dimension = 0}};
  const int32_t pad = 7;
  inputs_[0].pad.resize(sizeof(pad));
  std::memcpy(inputs_[0].pad.data(), &pad, sizeof(pad));
  const std::vector<int64_t> served = {3};
  const SlotFormats formats{inputs_, outputs_, served};
  SlotHeader header = {};
  PackHeader(formats, 1, 2, &header);
  std::vector<std::byte> payload(PackedBytes(formats, 2), std::byte{255});
  const uint16_t numbers[4] = {1, 65535, 3, 40000};
  CheckedInputs inputs;
  inputs.rows = 2;
  inputs.sizes = {2};
  inputs.served = served;
  inputs.bytes = {
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(numbers), 8)};
  CopyRows(formats, inputs, 0,
           {.header = header, .payload = absl::MakeSpan(payload)});
  const int32_t expected[6] = {1, 65535, 7, 3, 40000, 7};
  EXPECT_EQ(std::memcmp(payload.data(), expected, sizeof(expected)), 0);
}

TEST_F(SlotPackingTest, InputsThatAreNotPaddedAreCopiedBesideThoseThatAre) {
  inputs_[0].variable = {{.axis = 0, .dimension = 0}};
  inputs_[0].pad.assign(4, std::byte{0});
  inputs_[1].variable = {{.axis = 0, .dimension = 1}};  // without a pad
  const std::vector<int64_t> served = {3, 1};
  const SlotFormats formats{inputs_, outputs_, served};
  SlotHeader header = {};
  PackHeader(formats, 1, 1, &header);
  std::vector<std::byte> payload(PackedBytes(formats, 1), std::byte{255});
  const float wide[2] = {1, 2};
  const float narrow[1] = {7};
  CheckedInputs inputs;
  inputs.rows = 1;
  inputs.sizes = {2, 1};
  inputs.served = served;
  inputs.bytes = {
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(wide), 8),
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(narrow), 4)};
  CopyRows(formats, inputs, 0,
           {.header = header, .payload = absl::MakeSpan(payload)});
  EXPECT_EQ(std::memcmp(payload.data() + header.inputs[1].offset, narrow, 4),
            0);
}

}  // namespace
}  // namespace gpupool::server

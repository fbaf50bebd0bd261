#include "server/ipc/slot_layout.h"

#include <limits>
#include <utility>

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

constexpr uint64_t kSlotBytes = 65536;

SlotTensor Floats(int64_t rows, int64_t columns, uint64_t offset) {
  SlotTensor tensor = {};
  tensor.data_type = 1;
  tensor.rank = 2;
  tensor.dims[0] = rows;
  tensor.dims[1] = columns;
  tensor.offset = offset;
  tensor.bytes = static_cast<uint64_t>(rows * columns * 4);
  return tensor;
}

SlotHeader GoodHeader() {
  SlotHeader header = {};
  header.rows = 2;
  header.input_count = 1;
  header.output_count = 1;
  header.inputs[0] = Floats(2, 64, 0);
  header.outputs[0] = Floats(2, 10, 512);
  return header;
}

bool Refused(const SlotHeader& header) {
  return CheckSlotHeader(header, kSlotBytes).code() ==
         absl::StatusCode::kInvalidArgument;
}

TEST(SlotLayoutTest, AcceptsWellFormedHeader) {
  EXPECT_TRUE(CheckSlotHeader(GoodHeader(), kSlotBytes).ok());
}

TEST(SlotLayoutTest, AcceptsTensorThatEndsWithThePayload) {
  SlotHeader header = GoodHeader();
  header.outputs[0] = Floats(2, 8, kSlotBytes - 64);
  EXPECT_TRUE(CheckSlotHeader(header, kSlotBytes).ok());
  header.outputs[0] = Floats(2, 9, kSlotBytes - 64);
  EXPECT_TRUE(Refused(header));
}

TEST(SlotLayoutTest, RefusesCountsAboveTheLimit) {
  SlotHeader header = GoodHeader();
  header.input_count = kMaxSlotTensors + 1;
  EXPECT_TRUE(Refused(header));
  header = GoodHeader();
  header.output_count = std::numeric_limits<uint32_t>::max();
  EXPECT_TRUE(Refused(header));
}

TEST(SlotLayoutTest, RefusesUnknownDataTypeAndRank) {
  SlotHeader header = GoodHeader();
  header.inputs[0].data_type = 0;
  EXPECT_TRUE(Refused(header));
  header.inputs[0].data_type = 10;
  EXPECT_TRUE(Refused(header));
  header = GoodHeader();
  header.inputs[0].rank = kMaxSlotRank + 1;
  EXPECT_TRUE(Refused(header));
}

TEST(SlotLayoutTest, RefusesBytesThatTheDimensionsDoNotGive) {
  SlotHeader header = GoodHeader();
  header.inputs[0].bytes += 4;
  EXPECT_TRUE(Refused(header));
}

TEST(SlotLayoutTest, RefusesDimensionsThatOverflow) {
  SlotHeader header = GoodHeader();
  SlotTensor& input = header.inputs[0];
  input.rank = 3;
  input.dims[0] = input.dims[1] = int64_t{1} << 31;
  input.dims[2] = 1;
  input.bytes = 0;  // 2^62 elements of 4 bytes wrap to 0
  EXPECT_TRUE(Refused(header));
  input.dims[0] = -1;
  EXPECT_TRUE(Refused(header));
}

TEST(SlotLayoutTest, ATensorWithoutElementsHasNoBytesAndOverlapsNothing) {
  SlotHeader header = GoodHeader();
  header.input_count = 2;
  header.inputs[1] = Floats(2, 0, 512);  // where the output starts
  EXPECT_TRUE(CheckSlotHeader(header, kSlotBytes).ok());
  header.inputs[1].offset = 576;  // inside the output
  EXPECT_TRUE(CheckSlotHeader(header, kSlotBytes).ok());
  header.inputs[1].bytes = 4;
  EXPECT_TRUE(Refused(header));
}

TEST(SlotLayoutTest, OnlyTensorsThatAreThereAreCopied) {
  SlotHeader from = GoodHeader();
  from.inputs[1] = Floats(1, 1, 1024);
  from.code = 3;
  SlotHeader to = {};
  CopySlotRequest(from, &to);
  EXPECT_EQ(to.rows, 2u);
  EXPECT_EQ(to.inputs[0].dims[1], 64);
  EXPECT_EQ(to.outputs[0].offset, 512u);
  EXPECT_EQ(to.inputs[1].rank, 0u);
  EXPECT_EQ(to.code, 0);
  from.input_count = std::numeric_limits<uint32_t>::max();
  CopySlotRequest(from, &to);  // at most what a header holds
  EXPECT_EQ(to.inputs[1].dims[0], 1);
}

TEST(SlotLayoutTest, AnAnswerIsCopiedWithoutTheRequest) {
  SlotHeader from = GoodHeader();
  from.compute_nanos = 7;
  from.evicted_programs = 2;
  from.error[251] = 'x';
  from.output_ranks[0] = 3;
  from.output_dims[0][1] = 5;
  from.output_ranks[1] = 4;
  SlotHeader to = {};
  CopySlotAnswer(from, 1, &to);
  EXPECT_EQ(to.rows, 0u);
  EXPECT_EQ(to.compute_nanos, 7);
  EXPECT_EQ(to.evicted_programs, 2u);
  EXPECT_EQ(to.error[251], 'x');
  EXPECT_EQ(to.output_ranks[0], 3u);
  EXPECT_EQ(to.output_dims[0][1], 5u);
  EXPECT_EQ(to.output_ranks[1], 0u);
}

TEST(SlotLayoutTest, RefusesOffsetsThatWrapOrAreUnaligned) {
  SlotHeader header = GoodHeader();
  header.inputs[0].offset = ~uint64_t{63};
  EXPECT_TRUE(Refused(header));
  header.inputs[0].offset = 32;
  EXPECT_TRUE(Refused(header));
}

TEST(SlotLayoutTest, RefusesOutputOverAnotherTensor) {
  SlotHeader header = GoodHeader();
  header.outputs[0].offset = 448;
  EXPECT_TRUE(Refused(header));
  header = GoodHeader();
  header.output_count = 2;
  header.outputs[1] = Floats(2, 10, 576);
  EXPECT_TRUE(Refused(header));
  header.outputs[1].offset = 640;
  EXPECT_TRUE(CheckSlotHeader(header, kSlotBytes).ok());
}

TEST(SlotLayoutTest, ErrorNamesTensorValueAndLimit) {
  SlotHeader header = GoodHeader();
  header.inputs[0] = Floats(300, 64, 0);
  const absl::Status status = CheckSlotHeader(header, kSlotBytes);
  EXPECT_NE(status.message().find("input 0"), std::string::npos) << status;
  EXPECT_NE(status.message().find("76800"), std::string::npos) << status;
  EXPECT_NE(status.message().find("65536"), std::string::npos) << status;
}

TEST(SlotLayoutTest, PartsOfTheRegionDoNotOverlap) {
  for (const uint32_t count : {1u, 2u, 3u, 64u, kMaxSlots}) {
    const auto g = ComputeRingGeometry(count, 1);
    ASSERT_TRUE(g.ok());
    EXPECT_GE(g->queue_capacity, count);
    EXPECT_GE(g->submission_offset, sizeof(RingHeader));
    EXPECT_GE(g->completion_offset - g->submission_offset,
              8 * g->queue_capacity);
    EXPECT_GE(g->payload_offset, sizeof(SlotHeader));
    EXPECT_EQ(g->slots_offset % 4096, 0u);
    EXPECT_EQ(g->slot_stride % 4096, 0u);
    EXPECT_EQ(g->region_bytes, g->slots_offset + count * g->slot_stride);
  }
}

TEST(SlotLayoutTest, RefusesGeometryOutOfRange) {
  EXPECT_FALSE(ComputeRingGeometry(0, 1).ok());
  EXPECT_FALSE(ComputeRingGeometry(kMaxSlots + 1, 1).ok());
  EXPECT_FALSE(ComputeRingGeometry(1, 0).ok());
  EXPECT_FALSE(ComputeRingGeometry(1, kMaxSlotBytes + 1).ok());
}

TEST(TakeOutputDimsTest, AnOutputMayBeSmallerThanAsked) {
  SlotHeader header = GoodHeader();
  SlotHeader answer = header;
  ASSERT_TRUE(TakeOutputDims(answer, &header).ok());
  EXPECT_EQ(header.outputs[0].dims[1], 10);
  answer.output_dims[0][0] = 2;
  answer.output_dims[0][1] = 7;
  answer.output_ranks[0] = 3;
  ASSERT_TRUE(TakeOutputDims(answer, &header).ok());
  EXPECT_EQ(header.outputs[0].dims[1], 7);
  EXPECT_EQ(header.outputs[0].bytes, 56u);
  EXPECT_EQ(header.outputs[0].offset, 512u);
}

TEST(TakeOutputDimsTest, AnOutputMayHaveNoElements) {
  SlotHeader header = GoodHeader();
  SlotHeader answer = header;
  answer.output_dims[0][0] = 2;
  answer.output_dims[0][1] = 0;
  answer.output_ranks[0] = 3;
  ASSERT_TRUE(TakeOutputDims(answer, &header).ok());
  EXPECT_EQ(header.outputs[0].dims[1], 0);
  EXPECT_EQ(header.outputs[0].bytes, 0u);
}

TEST(TakeOutputDimsTest, AnOutputMayHaveAnotherNumberOfDimensions) {
  SlotHeader header = GoodHeader();
  SlotHeader answer = header;
  answer.output_dims[0][0] = 20;
  answer.output_ranks[0] = 2;
  ASSERT_TRUE(TakeOutputDims(answer, &header).ok());
  EXPECT_EQ(header.outputs[0].rank, 1u);
  EXPECT_EQ(header.outputs[0].dims[0], 20);
  EXPECT_EQ(header.outputs[0].bytes, 80u);
  answer.output_ranks[0] = 1;  // a single number
  ASSERT_TRUE(TakeOutputDims(answer, &header).ok());
  EXPECT_EQ(header.outputs[0].rank, 0u);
  EXPECT_EQ(header.outputs[0].bytes, 4u);
  answer.output_ranks[0] = kMaxSlotRank + 2;
  EXPECT_EQ(TakeOutputDims(answer, &header).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TakeOutputDimsTest, AnOutputIsNeverLargerThanAsked) {
  const uint32_t huge = std::numeric_limits<uint32_t>::max();
  for (const auto& [rows, columns] :
       {std::pair{2u, 11u}, {huge, huge}, {1u, huge}}) {
    SlotHeader header = GoodHeader();
    SlotHeader answer = header;
    answer.output_dims[0][0] = rows;
    answer.output_dims[0][1] = columns;
    answer.output_ranks[0] = 3;
    EXPECT_EQ(TakeOutputDims(answer, &header).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(header.outputs[0].bytes, 80u);
  }
}

}  // namespace
}  // namespace gpupool::server
